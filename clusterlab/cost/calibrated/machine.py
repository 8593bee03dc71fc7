"""Which hardware a calibration is of: what NCCL sees of it, whatever its files call it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from clusterlab.core.errors import UsageError
from clusterlab.cost.nccl.communicator import Communicator
from clusterlab.topology.fabric import Fabric


class OtherMachineError(UsageError):
    """A calibration is asked about hardware that it was not made on."""


@dataclass(frozen=True, slots=True)
class Machine:
    """``links`` join the GPUs of a host, ``network`` the hosts; None where no measured group has any."""

    gpu: str
    gpus_per_host: int
    library: str
    links: str | None
    network: str | None

    def __str__(self) -> str:
        """As an error names it."""
        words = [
            f"{self.gpus_per_host} x {self.gpu} a host",
            self.links,
            self.network,
            self.library,
        ]
        return ", ".join(word for word in words if word)


def machine_of(fabric: Fabric, device: str, comm: Communicator) -> Machine:
    """The hosts of ``fabric`` that are like the one of ``device``, as ``comm`` sees them."""
    counts: dict[str, int] = fabric.memo.setdefault("GPUs beside", {})
    if device not in counts:
        host = fabric.host_of(device)
        counts[device] = len(fabric.on_host(host, "gpu")) if host is not None else 1
    network = comm.network if comm.nodes > 1 else None
    return Machine(
        gpu=comm.gpu,
        gpus_per_host=counts[device],
        library=comm.library,
        links=_links(comm) if comm.ranks_per_node > 1 else None,
        network=None
        if network is None
        else f"{network.nics} x {network.nic_GBps:.3g} GB/s {network.transport}",
    )


def _links(comm: Communicator) -> str:
    if comm.intra == "nvlink":
        return "NVSwitch" if comm.nvswitch else "NVLink"
    return "xGMI" if comm.intra == "xgmi" else "PCIe"


def joined(machines: Iterable[Machine], *, system: str) -> Machine:
    """All of ``machines`` as one. Raises UsageError where two of them cannot be the same hardware."""
    first, *rest = dict.fromkeys(machines)
    for other in rest:
        if not same(first, other):
            raise UsageError(
                f"rows of two machines: {first}; and {other}",
                where=system,
                expected="rows of one machine",
                fix="calibrate from the file of one of them",
            )
        first = Machine(**{n: getattr(first, n) or getattr(other, n) for n in _NAMES})
    return first


_NAMES = tuple(f.name for f in fields(Machine))


def same(one: Machine, other: Machine) -> bool:
    """Whether nothing that is known of both differs."""
    pairs = ((getattr(one, n), getattr(other, n)) for n in _NAMES)
    return all(a == b for a, b in pairs if a is not None and b is not None)
