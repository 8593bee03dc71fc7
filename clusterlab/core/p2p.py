"""What a probe of the ways between GPUs of one machine found. GPUs are numbered as this process sees them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from clusterlab.core.findings import Finding

HOST: Literal["host"] = "host"
"""The other end of a copy to or from pinned memory."""

Place = int | Literal["host"]
"""A GPU's number, or HOST."""

Access = Literal["load", "store", "local"]
"""A kernel reads a peer's memory, writes it, or does both in its own."""


@dataclass(frozen=True, slots=True)
class P2pGpu:
    """One visible GPU. ``uuid`` names the hardware."""

    index: int
    name: str
    uuid: str
    sms: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class PeerAccess:
    """Whether GPU ``src`` may use the memory of ``dst``. ``nvml``: capability and status, OK or why not."""

    src: int
    dst: int
    cuda: bool
    nvml: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Way:
    """A copy from ``src`` to ``dst``; ``both``: and one back at the same time."""

    src: Place
    dst: Place
    both: bool = False

    @property
    def kind(self) -> str:
        """``local`` on one GPU, ``host`` to or from pinned memory, ``peer`` between GPUs."""
        if self.src == self.dst:
            return "local"
        return "host" if HOST in (self.src, self.dst) else "peer"

    def __str__(self) -> str:
        if self.src == self.dst:
            return f"{_place(self.src)} itself"
        return f"{_place(self.src)} {'↔' if self.both else '→'} {_place(self.dst)}"


def _place(place: Place) -> str:
    return HOST if isinstance(place, str) else f"GPU {place}"


@dataclass(frozen=True, slots=True)
class Times:
    """One operation's time in µs over ``batches`` of back-to-back operations.

    ``ahead``: the host had queued each batch before the GPU began it, so that the figure is the GPU's.
    Where not, it holds the host's cost of a call.
    """

    median_us: float
    min_us: float
    max_us: float
    batches: int
    ahead: bool


@dataclass(frozen=True, slots=True)
class Wrong:
    """How many bytes of a copy were wrong, and the first."""

    count: int
    index: int
    expected: int
    got: int


@dataclass(frozen=True, slots=True)
class CopyRow:
    """A copy measured. ``size_bytes`` goes each way; ``wrong`` is None where the data is right."""

    way: Way
    size_bytes: int
    times: Times
    wrong: Wrong | None = None

    @property
    def GBps(self) -> float:
        """Bytes moved, of both directions together, over the median time."""
        return _rate(self.size_bytes * (2 if self.way.both else 1), self.times.median_us)

    @property
    def range_GBps(self) -> tuple[float, float]:
        """The slowest and the fastest batch's."""
        moved = self.size_bytes * (2 if self.way.both else 1)
        return _rate(moved, self.times.max_us), _rate(moved, self.times.min_us)


@dataclass(frozen=True, slots=True)
class Touch:
    """How the kernel on ``gpu`` uses the memory of ``peer`` (itself for ``local``)."""

    access: Access
    gpu: int
    peer: int

    def __str__(self) -> str:
        what = {"load": "loads from", "store": "stores to", "local": "copies in"}[self.access]
        return f"GPU {self.gpu} {what} GPU {self.peer}" if self.gpu != self.peer else (
            f"GPU {self.gpu} in its own memory"
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class KernelRow:
    """A kernel of ``programs`` thread blocks, each on an SM of its own, that moves ``size_bytes``.

    ``access_bytes``: what one thread loads or stores at once; ``compiled_bytes`` is what the compiled
    kernel says of it (None: not known).
    """

    touch: Touch
    programs: int
    access_bytes: int
    compiled_bytes: int | None
    size_bytes: int
    times: Times
    wrong: Wrong | None = None

    @property
    def GBps(self) -> float:
        """Bytes copied over the median time."""
        return _rate(self.size_bytes, self.times.median_us)


@dataclass(frozen=True, slots=True)
class LinkFigure:
    """What the fabric says of a path, GB/s one way: ``GBps`` for software, ``wire_GBps`` signalled.

    ``type`` is NCCL's word (NVL, PIX, … SYS); ``lanes`` the NVLinks or xGMI links it has; None: unknown.
    """

    src: Place
    dst: Place
    type: str
    GBps: float | None
    wire_GBps: float | None = None
    lanes: int | None = None


@dataclass(frozen=True, slots=True)
class NcclPath:
    """What NCCL's log says of a connection: ``P2P/CUMEM``, ``SHM``, ``NET/IB`` …, and on how many channels.

    ``use``: ``collectives``, ``send_recv``, or ``channels`` where that version does not say.
    """

    src: int
    dst: int
    transport: str
    use: str
    channels: int


@dataclass(frozen=True, slots=True)
class NcclPaths:
    """All connections of one communicator of all visible GPUs; ``nvls_channels`` None: not said."""

    version: str | None
    paths: tuple[NcclPath, ...]
    nvls_channels: int | None = None


@dataclass(frozen=True, slots=True)
class P2pReport:
    """The whole probe. ``said`` are sentences that follow from the figures."""

    gpus: tuple[P2pGpu, ...]
    access: tuple[PeerAccess, ...]
    copies: tuple[CopyRow, ...]
    kernel: tuple[KernelRow, ...]
    links: tuple[LinkFigure, ...]
    nccl: NcclPaths | None
    fabric: str
    versions: tuple[tuple[str, str], ...] = ()
    said: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()

    def link(self, src: Place, dst: Place) -> LinkFigure | None:
        """The fabric's figure of this path, if it has one."""
        return next((x for x in self.links if (x.src, x.dst) == (src, dst)), None)

    def predicted_GBps(self, way: Way) -> float | None:
        """What the fabric says that ``way`` carries: both directions together for both."""
        there = self.link(way.src, way.dst)
        back = self.link(way.dst, way.src) if way.both else None
        if there is None or there.GBps is None:
            return None
        if not way.both:
            return there.GBps
        return there.GBps + back.GBps if back is not None and back.GBps is not None else None

    def to_json(self) -> dict[str, Any]:
        """Plain data, derived rates included."""
        data = asdict(self)
        data["versions"] = dict(self.versions)
        for row, access in zip(data["access"], self.access, strict=True):
            row["nvml"] = dict(access.nvml)
        for row, copy in zip(data["copies"], self.copies, strict=True):
            predicted = self.predicted_GBps(copy.way)
            row["GBps"], row["predicted_GBps"] = copy.GBps, predicted
            row["ratio"] = copy.GBps / predicted if predicted else None
        for row, kernel in zip(data["kernel"], self.kernel, strict=True):
            row["GBps"] = kernel.GBps
        return data


def _rate(moved_bytes: int, time_us: float) -> float:
    return moved_bytes / time_us / 1e3 if time_us > 0 else 0.0
