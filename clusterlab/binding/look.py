"""What one rank sees of itself: plain data that travels to the rank that reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU of the node. ``numa`` is None when unknown; ``mig``: it is cut into instances."""

    bus_id: str
    uuid: str
    name: str
    numa: int | None = None
    mig: bool = False


@dataclass(frozen=True, slots=True)
class Nic:
    """An RDMA device. ``distance`` to this rank's GPU: PIX, PXB, PHB, NODE, SYS; None: unknown.

    ``near``: no other NIC that is up is nearer.
    """

    name: str
    numa: int | None = None
    up: bool = True
    distance: str | None = None
    near: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """One rank's record.

    ``cores`` is its CPU mask and ``numa`` the domains these cores belong to (None: not known for all).
    ``cpus_here`` counts the CPUs that the job may use on the host. ``mask`` is CUDA_VISIBLE_DEVICES as
    it stands, None: unset. ``gpus`` are those of the node as far as this rank may see them; None: they
    could not be looked at. ``gpu`` is the one this rank would take, at position ``ordinal`` of the
    ``visible_count`` it sees; None: none, or unknown. ``problem``: why it finds none for itself.
    ``numa_cores`` are the cores of the GPU's NUMA domain. ``notes`` say what was passed over or could
    not be seen. ``launcher_world_size``: as in ``launch.refusals.DeviceRecord``.
    """

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    node_rank: int
    host: str
    source: str
    pid: int
    cores: tuple[int, ...]
    numa: tuple[int, ...] | None
    cpus_here: int
    mask: str | None
    gpus: tuple[Gpu, ...] | None
    visible_count: int | None = None
    ordinal: int | None = None
    gpu: Gpu | None = None
    problem: str | None = None
    numa_cores: tuple[int, ...] = ()
    nics: tuple[Nic, ...] = ()
    launcher_world_size: int | None = None
    launcher_variable: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain data that ``look_from_json`` reads back."""
        return asdict(self)


def look_from_json(data: Mapping[str, Any]) -> Look:
    """The inverse of ``Look.to_json``, after a trip through JSON."""
    plain: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in data.items()
    }
    gpus, gpu = data["gpus"], data["gpu"]
    plain["gpus"] = None if gpus is None else tuple(Gpu(**g) for g in gpus)
    plain["gpu"] = None if gpu is None else Gpu(**gpu)
    plain["nics"] = tuple(Nic(**n) for n in data["nics"])
    return Look(**plain)
