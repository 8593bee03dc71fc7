"""The node's GPUs as NVML shows them: without CUDA, its mask, or a context."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Protocol

from clusterlab.topology.discover.facts import GpuFact, NvLinkFact, Remote
from clusterlab.topology.discover.pci import bus_order, sysfs_address

LEVELS = {10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""nvmlGpuTopologyLevel_t in nvidia-smi's words; 0 (one board) is left out, nvidia-smi calls it PIX."""

# nvml.h. Numbers, because older bindings lack the names.
_MOST_LINKS = 36
_FIELD_NVLINK_SPEED = 164
_FIELD_NVLINK_SPEED_COMMON = 90
_FIELD_C2C_COUNT = 170
_FIELD_C2C_MAX_BW = 172
_REMOTES: dict[int, Remote] = {0: "gpu", 1: "cpu", 2: "switch"}
_FABRIC_COMPLETED = 3
_SCOPE_NODE = 0


class NvmlAbsentError(Exception):
    """NVML cannot be asked, and why. Not an error of the job: the diagnosis goes on without."""


class Nvml(Protocol):
    """What is used of the module ``pynvml`` (nvidia-ml-py); functions it may lack are asked by name."""

    NVMLError: type[Exception]

    def nvmlInit(self) -> object: ...
    def nvmlShutdown(self) -> object: ...
    def nvmlDeviceGetCount(self) -> int: ...
    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any: ...
    def nvmlDeviceGetPciInfo(self, handle: Any) -> Any: ...
    def nvmlDeviceGetUUID(self, handle: Any) -> str | bytes: ...
    def nvmlDeviceGetName(self, handle: Any) -> str | bytes: ...


@dataclass(frozen=True, slots=True)
class NvmlView:
    """What NVML says: GPUs in PCI order, distances of their pairs in nvidia-smi's words, the driver."""

    gpus: tuple[GpuFact, ...]
    levels: tuple[tuple[str, str, str], ...] = ()
    driver: str | None = None
    notes: tuple[str, ...] = ()


def read_gpus(nvml: Nvml | None = None) -> list[GpuFact]:
    """Every GPU NVML shows this process, in PCI order: who they are, nothing more. NvmlAbsentError.

    In a device cgroup or a container NVML shows only those that may be opened there, as CUDA does.
    """
    with _session(nvml) as library:
        return [gpu for gpu, _ in _shown(library)]


def read_view(nvml: Nvml | None = None) -> NvmlView:
    """All that NVML says of the node's topology. Raises NvmlAbsentError."""
    with _session(nvml) as library:
        ask = _Ask(library)
        shown = _shown(library)
        gpus = [_details(ask, gpu, handle) for gpu, handle in shown]
        levels = [
            (a.bus_id, b.bus_id, LEVELS[level])
            for (a, first), (b, second) in combinations(shown, 2)
            if (level := ask("nvmlDeviceGetTopologyCommonAncestor", first, second)) in LEVELS
        ]
        driver = ask("nvmlSystemGetDriverVersion")
        return NvmlView(tuple(gpus), tuple(levels), _text(driver) if driver else None)


@contextmanager
def _session(nvml: Nvml | None) -> Iterator[Nvml]:
    library = nvml or _pynvml()
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        raise NvmlAbsentError(str(error)) from None
    try:
        yield library
    except library.NVMLError as error:
        raise NvmlAbsentError(str(error)) from None
    finally:
        library.nvmlShutdown()


def _pynvml() -> Nvml:
    try:
        import pynvml
    except ImportError as error:
        raise NvmlAbsentError(f"{error}; pip install nvidia-ml-py") from None
    module: Nvml = pynvml
    return module


def _shown(nvml: Nvml) -> list[tuple[GpuFact, Any]]:
    """The GPUs with their handles, in PCI order."""
    handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
    found = [(_identity(nvml, handle), handle) for handle in handles]
    return sorted(found, key=lambda pair: bus_order(pair[0].bus_id))


def _identity(nvml: Nvml, handle: Any) -> GpuFact:
    text = _text(nvml.nvmlDeviceGetPciInfo(handle).busId)
    bus_id = sysfs_address(text)
    if bus_id is None:
        raise NvmlAbsentError(f"NVML calls a GPU's PCI bus id {text!r}")
    mode = _Ask(nvml)("nvmlDeviceGetMigMode", handle)
    return GpuFact(
        bus_id,
        "nvidia",
        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        name=_text(nvml.nvmlDeviceGetName(handle)),
        shown=True,
        mig=bool(mode[0]) if mode else False,  # no mode: a GPU that cannot be cut
    )


class _Ask:
    """Calls a function of NVML by name; None where this driver, GPU or binding has no answer."""

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml

    def __call__(self, name: str, *arguments: Any) -> Any:
        function = getattr(self._nvml, name, None)
        if function is None:
            return None
        try:
            return function(*arguments)
        except self._nvml.NVMLError:
            return None

    def field(self, handle: Any, field: int, scope: int = 0) -> int | None:
        """One of NVML's field values, where it holds a whole number."""
        values = self("nvmlDeviceGetFieldValues", handle, [(field, scope)])
        if not values or values[0].nvmlReturn:
            return None
        return int(values[0].value.uiVal)

    def structure(self, kind: str) -> Any:
        """A structure of the binding to be filled; None where it has none of that name."""
        made = getattr(self._nvml, kind, None)
        return made() if made else None


def _details(ask: _Ask, gpu: GpuFact, handle: Any) -> GpuFact:
    capability = ask("nvmlDeviceGetCudaComputeCapability", handle)
    return replace(
        gpu,
        capability=tuple(capability) if capability else None,
        numa=_only_bit(ask("nvmlDeviceGetMemoryAffinity", handle, 16, _SCOPE_NODE)),
        cores=_bits(ask("nvmlDeviceGetCpuAffinity", handle, 64)),
        pcie_generation=ask("nvmlDeviceGetMaxPcieLinkGeneration", handle) or None,
        pcie_width=ask("nvmlDeviceGetMaxPcieLinkWidth", handle) or None,
        pcie_width_now=ask("nvmlDeviceGetCurrPcieLinkWidth", handle) or None,
        nvlinks=_nvlinks(ask, handle),
        domain=_fabric_domain(ask, handle),
        **_c2c(ask, handle),
    )


def _nvlinks(ask: _Ask, handle: Any) -> tuple[NvLinkFact, ...]:
    """Every NVLink the GPU has; a number without one has no state."""
    found = []
    for number in range(_MOST_LINKS):
        state = ask("nvmlDeviceGetNvLinkState", handle, number)
        if state is None:
            continue
        if not state:
            found.append(NvLinkFact(number, active=False))
            continue
        info = ask("nvmlDeviceGetNvLinkRemotePciInfo", handle, number)
        kind = ask("nvmlDeviceGetNvLinkRemoteDeviceType", handle, number)
        speed = ask.field(handle, _FIELD_NVLINK_SPEED, number)
        speed = speed or ask.field(handle, _FIELD_NVLINK_SPEED_COMMON)
        found.append(
            NvLinkFact(
                number,
                active=True,
                remote=_REMOTES.get(kind, "unknown"),
                remote_bus_id=sysfs_address(_text(info.busId)) if info else None,
                wire_GBps=speed / 1000 if speed else None,  # MB/s
            )
        )
    return tuple(found)


def _fabric_domain(ask: _Ask, handle: Any) -> str | None:
    """``<cluster UUID>.<clique>`` of an NVLink domain that spans hosts (a rack); None otherwise."""
    info = ask.structure("c_nvmlGpuFabricInfo_t")
    if info is None or ask("nvmlDeviceGetGpuFabricInfo", handle, info) is None:
        return None
    cluster = bytes(info.clusterUuid)
    if info.state != _FABRIC_COMPLETED or not any(cluster):
        return None
    return f"{cluster.hex()}.{info.cliqueId}"


def _c2c(ask: _Ask, handle: Any) -> dict[str, Any]:
    """NVLink-C2C to a Grace CPU; the rate is MB/s of one link."""
    count = ask.field(handle, _FIELD_C2C_COUNT)
    rate = ask.field(handle, _FIELD_C2C_MAX_BW) if count else None
    return {"c2c_links": count or 0, "c2c_GBps": rate / 1000 if rate else None}


def _bits(words: Sequence[int] | None) -> tuple[int, ...]:
    """The numbers set in a mask of 64-bit words."""
    return tuple(
        64 * i + bit for i, word in enumerate(words or ()) for bit in range(64) if word >> bit & 1
    )


def _only_bit(words: Sequence[int] | None) -> int | None:
    """The one number set; None when several are, or none: then it says nothing."""
    numbers = _bits(words)
    return numbers[0] if len(numbers) == 1 else None


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
