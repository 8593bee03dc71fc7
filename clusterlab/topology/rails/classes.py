"""Which of a host's devices belong together on one rail, learnt from where equal hosts plug them in. Pure.

Hosts with the same devices are a family. Two devices of a family that keep meeting on the same leaves are
one class (a host with two NICs to each leaf; hosts whose NICs all go to one leaf; cabling without any
pattern). Numbers in device names are never compared across families: mlx5_3 is no rail.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from clusterlab.topology.fabric import Fabric

TOGETHER = 0.5
"""Devices that share leaves for more than this part of their NICs are one class: swapped cables are few."""

_COUNTED = (
    (re.compile(r"(?:mlx\d+_|nic)(\d+)", re.IGNORECASE), 0),
    (re.compile(r"HCA-?(\d+)", re.IGNORECASE), -1),  # scripts that name HCA-<n> count from one
)


@dataclass(frozen=True, slots=True)
class Attachment:
    """One cable from a host to a leaf. ``device`` is the NIC's name within its host, the same for
    ``mlx5_5`` and ``HCA-6``.
    """

    nic: str
    host: str
    device: str
    leaf: str


@dataclass(frozen=True, slots=True)
class Family:
    """Hosts with the same devices (a few may lack some). ``class_of`` numbers the devices' classes."""

    hosts: frozenset[str]
    class_of: Mapping[str, int]

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return max(self.class_of.values(), default=-1) + 1


def attachments(fabric: Fabric) -> tuple[Attachment, ...]:
    """The cables between leaves and the NICs of hosts that compute, as far as their names tell."""
    kinds = {leaf.name for leaf in fabric.of_kind("leaf")}
    # Without port numbers the ports of a NIC on several leaves are one device.
    leaves: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for link in fabric.network_links:
        if link.dst in kinds:
            leaves[link.src][link.dst] = None
    return tuple(
        Attachment(nic, host, device, leaf)
        for host, nics in _nics_by_host(fabric).items()
        for nic, device in _keys(nics).items()
        for leaf in leaves.get(nic, ())
    )


def _nics_by_host(fabric: Fabric) -> dict[str, list[tuple[str, str]]]:
    """Host → (device, its name within the host)."""
    found: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for group in fabric.equal_hosts:  # names only: a large fabric's NICs are not made for this
        own = [
            (d.name, d.interface or d.name)
            for d in group.items
            if d.kind == "nic" and d.role in (None, "compute")
        ]
        if own:
            found |= {
                host: [(f"{host}/{name}", word) for name, word in own] for host in group.hosts
            }
    for d in fabric.single_devices:
        if d.kind == "nic" and d.host is not None and d.role in (None, "compute"):
            found[d.host].append((d.name, d.interface or d.name.removeprefix(d.host + "/")))
    return found


def storage_nics(fabric: Fabric) -> list[str]:
    """The names of the NICs of role storage."""
    repeated = [
        f"{host}/{d.name}"
        for group in fabric.equal_hosts
        for d in group.items
        if d.kind == "nic" and d.role == "storage"
        for host in group.hosts
    ]
    return [
        *repeated,
        *(d.name for d in fabric.single_devices if d.kind == "nic" and d.role == "storage"),
    ]


def _keys(nics: Sequence[tuple[str, str]]) -> dict[str, str]:
    """NIC → the name its device is counted under; as written where counting would make two alike."""
    counted = {name: _counted(local) for name, local in nics}
    if len(set(counted.values())) == len(counted):
        return counted
    return dict(nics)


def _counted(local: str) -> str:
    for pattern, offset in _COUNTED:
        found = pattern.fullmatch(local)
        if found:
            return f"{int(found.group(1)) + offset:03d}"
    return local


def families(cables: Iterable[Attachment], *, apart: bool = False) -> tuple[Family, ...]:
    """Families of at least two hosts with two devices or more, largest first. ``apart``: each device is a
    class of its own.
    """
    of_host: defaultdict[str, list[Attachment]] = defaultdict(list)
    for cable in cables:
        of_host[cable.host].append(cable)
    members: defaultdict[frozenset[str], list[str]] = defaultdict(list)
    for host, own in of_host.items():
        members[frozenset(c.device for c in own)].append(host)
    found = []
    for devices, hosts in _folded(members).items():
        if len(devices) > 1 and len(hosts) > 1:
            own = [c for host in hosts for c in of_host[host]]
            alone = {device: i for i, device in enumerate(sorted(devices))}
            found.append(Family(frozenset(hosts), alone if apart else _classes(own)))
    return tuple(sorted(found, key=lambda f: (-len(f.hosts) * len(f.class_of), sorted(f.class_of))))


def _folded(members: Mapping[frozenset[str], list[str]]) -> dict[frozenset[str], list[str]]:
    """Hosts that lack fewer than half of a larger set's devices join the hosts that have them."""
    kept: dict[frozenset[str], list[str]] = {}
    by_size = sorted(members, key=lambda d: (-len(d), -len(members[d]), sorted(d)))
    for devices in by_size:
        home = next(
            (k for k in kept if devices < k and 2 * len(devices) > len(k) and len(kept[k]) > 1),
            devices,
        )
        kept.setdefault(home, []).extend(members[devices])
    return kept


def _classes(cables: Sequence[Attachment]) -> dict[str, int]:
    on_leaf: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for cable in cables:
        on_leaf[cable.leaf][cable.device] += 1
    total = Counter(cable.device for cable in cables)
    shared: Counter[tuple[str, str]] = Counter()
    for counts in on_leaf.values():
        devices = sorted(counts)
        for i, a in enumerate(devices):
            for b in devices[i + 1 :]:
                shared[a, b] += min(counts[a], counts[b])
    joined = {d: d for d in total}

    def root(device: str) -> str:
        while joined[device] != device:
            device = joined[device]
        return device

    for (a, b), count in shared.items():
        if count > TOGETHER * min(total[a], total[b]):
            joined[max(root(a), root(b))] = min(root(a), root(b))
    roots = sorted({root(d) for d in total})
    return {d: roots.index(root(d)) for d in sorted(total)}
