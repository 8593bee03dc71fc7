"""What the choices are made from: GPUs, cores and NICs of the node, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple


class NodeGpu(NamedTuple):
    """A GPU of the node, ``opens``: this process may open it. None where something is not known.

    ``file`` is its device file. ``cores``: the CPUs next to it; GPUs with equal ``numa`` share them.
    ``mig``: it is cut into instances.
    """

    vendor: Literal["nvidia", "amd"] = "nvidia"
    bus_id: str | None = None
    uuid: str | None = None
    model: str | None = None
    file: str | None = None
    numa: int | None = None
    opens: bool = True
    mig: bool = False

    @property
    def hardware(self) -> str | None:
        """What names it whatever the mask: PCI bus id, else the start of its UUID, else its device file."""
        if self.bus_id or not (self.uuid or self.file):
            return self.bus_id
        return self.uuid[:12] if self.uuid else str(self.file).rpartition("/")[2]


class Cpus(NamedTuple):
    """CPUs by kernel number: those this process may use (``mine``), how many the job may use ``here``.

    ``domains``: NUMA domain → its CPUs, where known; ``siblings``: CPU → the CPUs of its physical core.
    """

    mine: tuple[int, ...]
    here: int
    domains: Mapping[int, tuple[int, ...]] = {}
    siblings: Mapping[int, tuple[int, ...]] = {}


class NearNic(NamedTuple):
    """An RDMA device, the numbers of its ports that are up, its ``distance`` to the GPU (None: unknown).

    ``near``: no other that is up is nearer.
    """

    name: str
    ports: tuple[int, ...]
    distance: str | None
    near: bool
