"""A GPU whose nearest NIC is further away than its siblings' nearest NICs: a card in the wrong slot, a NIC
or PCIe link that is down, a missing NIC.

Distances are nvidia-smi's words, read from the devices a path crosses: PIX (one PCIe switch), PXB
(several), PHB (one host bridge), NODE (two host bridges of one CPU), SYS (two CPUs).
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict

from clusterlab.core.findings import Finding, Severity
from clusterlab.topology.checks.evidence import bounded, hosts_text, usual
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import END_POINTS, Device
from clusterlab.topology.shapes import HostShape, host_shapes, of_kind

DISTANCES = ("PIX", "PXB", "PHB", "NODE", "SYS")
_FAR = len(DISTANCES)  # no NIC can be reached

_CROSSING = {"pcie_switch": 1, "host_bridge": 1 << 10, "cpu": 1 << 20}
_CLASSES = ("pcie", "upi", "c2c")

Nearest = tuple[int, tuple[str, ...]]
"""Index into DISTANCES, and the NICs at that distance."""


def nic_distance(fabric: Fabric) -> list[Finding]:
    """One finding for all GPUs further from a NIC than most of their siblings: the GPUs of the same host,
    or the GPU of the same name on other hosts.
    """
    shapes = [(shape, nearest_nics(shape)) for shape in host_shapes(fabric)]
    across: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for shape, nearest in shapes:
        for gpu, (distance, _) in nearest.items():
            across[gpu][distance] += len(shape.hosts)
    lines = []
    for shape, nearest in shapes:
        within = usual(Counter(distance for distance, _ in nearest.values()))
        for gpu, (distance, nics) in nearest.items():
            norms = [n for n in (within, usual(across[gpu])) if n is not None and n < distance]
            if norms:
                lines.append(_line(shape, gpu, distance, nics, min(norms)))
    if not lines:
        return []
    return [
        Finding(
            code="nic_distance",
            severity=Severity.WARNING,
            evidence=bounded(lines, "GPUs further from their NIC"),
            fix="compare `nvidia-smi topo -m` with that of an equal host: a NIC that is down or missing, "
            "a card in another slot, ACS or a different NUMA setting of the BIOS",
        )
    ]


def _line(shape: HostShape, gpu: str, distance: int, nics: tuple[str, ...], norm: int) -> str:
    where = "reaches no NIC" if distance == _FAR else f"{DISTANCES[distance]} to {nics[0]}"
    on = (
        f"{shape.hosts[0]}/{gpu}"
        if len(shape.hosts) == 1
        else f"{gpu} of {hosts_text(shape.hosts)}"
    )
    return f"{on}: {where}; its siblings have a NIC at {DISTANCES[norm]}"


def nearest_nics(shape: HostShape) -> dict[str, Nearest]:
    """For each GPU of a host its nearest compute NICs; nothing where the host has none, and no GPU of which
    the source does not say where it is.
    """
    nics = {d.name for d in of_kind(shape.devices, "nic") if d.role in (None, "compute")}
    kinds = {d.name: d for d in shape.devices}
    ahead: defaultdict[str, list[str]] = defaultdict(list)
    for link in shape.links:
        if link.link_class in _CLASSES and link.health > 0:
            ahead[link.src].append(link.dst)
    if not nics or not any(nic in ahead for nic in nics):
        return {}
    placed = {link.src for link in shape.links if link.link_class in _CLASSES}
    return {
        gpu.name: _nearest(gpu.name, nics, kinds, ahead)
        for gpu in of_kind(shape.devices, "gpu")
        if gpu.name in placed
    }


def _nearest(
    gpu: str, nics: set[str], kinds: dict[str, Device], ahead: dict[str, list[str]]
) -> Nearest:
    """Dijkstra over what is crossed: a CPU weighs more than any number of host bridges, and so on."""
    best = {gpu: 0}
    queue = [(0, gpu)]
    while queue:
        far, name = heapq.heappop(queue)
        kind = kinds[name].kind
        if far > best[name] or (name != gpu and (kind in END_POINTS or kind == "nic")):
            continue
        for other in ahead.get(name, ()):
            there = far + _CROSSING.get(kinds[other].kind, 0)
            if there < best.get(other, there + 1):
                best[other] = there
                heapq.heappush(queue, (there, other))
    found = {nic: _word(best[nic]) for nic in nics if nic in best}
    nearest = min(found.values(), default=_FAR)
    return nearest, tuple(sorted(nic for nic, d in found.items() if d == nearest))


def _word(crossed: int) -> int:
    """The index in DISTANCES of a path, by the number of CPUs, host bridges and switches on it."""
    cpus, bridges, switches = crossed >> 20, crossed >> 10 & 1023, crossed & 1023
    if cpus > 1:
        return 4
    if cpus == 1 or bridges:
        return 3 if bridges > 1 else 2
    return 1 if switches > 1 else 0
