"""How GPUs that lost their NIC still get out of their host: over NVLink (PXN), or through the CPU."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from clusterlab.topology.fabric import Fabric
from clusterlab.topology.failures.faults import Connection
from clusterlab.topology.repeated import Repeated
from clusterlab.topology.routing.nics import is_live
from clusterlab.topology.routing.path_types import host_path, nic_of

_WORDS = {"PXN": "over NVLink through a GPU beside (PXN)", "PHB": "through the CPU (PHB)",
          "SYS": "through the other CPU (SYS)"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Detour:
    """``gpus`` GPUs whose NIC leads out no more use another one of their host. ``type`` is NCCL's path
    type of the way to it; None: there is no other, they do not get out.
    """

    gpus: int
    type: str | None

    def text(self) -> str:
        """``8 GPUs without their own NIC use another of their host: over NVLink …``."""
        who = f"{self.gpus} GPU{'s' if self.gpus != 1 else ''} without a NIC of their own"
        if self.type is None:
            return f"{who} do not get out of their host"
        how = _WORDS.get(self.type, f"{self.type}")
        return f"{who} use another of their host: {how}"


def detours(before: Fabric, after: Fabric, hurt: Iterable[Connection]) -> tuple[Detour, ...]:
    """The detours that ``after``'s ``hurt`` connections force, most GPUs first. Equal hosts count alike."""
    of_host: defaultdict[str, list[Connection]] = defaultdict(list)
    for c in hurt:
        for host in {after.host_of(c.a), after.host_of(c.b)} - {None}:
            of_host[host or ""].append(c)
    groups = after.devices.group_of if isinstance(after.devices, Repeated) else {}
    kinds: dict[Hashable, list[str]] = {}
    for host, connections in of_host.items():
        inside = id(groups[host]) if host in groups else host
        marks = frozenset(_mark(after, host, c) for c in connections)
        kinds.setdefault((inside, marks), []).append(host)
    found: Counter[str | None] = Counter()
    for hosts in kinds.values():
        for kind, gpus in _on_host(before, after, hosts[0]).items():
            found[kind] += gpus * len(hosts)
    return tuple(Detour(gpus, kind) for kind, gpus in found.most_common())


def _mark(fabric: Fabric, host: str, connection: Connection) -> Hashable:
    """What a fault of a host is, in names that equal hosts share."""
    ends = tuple(
        end.removeprefix(f"{host}/") if fabric.host_of(end) == host else ""
        for end in (connection.a, connection.b)
    )
    return (*ends, connection.link_class, connection.cables, connection.down, connection.lost_GBps)


def _on_host(before: Fabric, after: Fabric, host: str) -> Counter[str | None]:
    found: Counter[str | None] = Counter()
    for gpu in before.on_host(host, "gpu"):
        own = nic_of(before, gpu.name)
        if own is None:
            continue
        cut = host_path(after, gpu.name, own).type.name == "DIS" or not is_live(after, own)
        if cut and is_live(before, own):
            other = nic_of(after, gpu.name)
            found[None if other is None else host_path(after, gpu.name, other).type.name] += 1
    return found
