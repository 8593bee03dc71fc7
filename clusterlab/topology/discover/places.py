"""Where on the PCI tree and in which NUMA domain each GPU and NIC is. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clusterlab.topology.discover.distance import DISTANCES, pci_distance
from clusterlab.topology.discover.facts import GpuFact, MachineFacts, PciFact


@dataclass(frozen=True, slots=True)
class Place:
    """``path`` from the root complex down, empty when not known; the NUMA domain, None when not known."""

    path: tuple[str, ...]
    numa: int | None


def places_of(facts: MachineFacts) -> dict[str, Place]:
    """Bus id → place, of every GPU and NIC."""
    pci = {fact.bus_id: fact for fact in facts.pci}
    made = _paths_of_levels(
        [gpu.bus_id for gpu in facts.gpus if not _path(pci, gpu.bus_id)], facts.levels
    )
    places = {}
    for gpu in facts.gpus:
        path = _path(pci, gpu.bus_id) or made.get(gpu.bus_id, ())
        places[gpu.bus_id] = Place(path, _gpu_numa(gpu, pci.get(gpu.bus_id), facts))
    for nic in facts.nics:
        if nic.bus_id and nic.bus_id not in places:
            places[nic.bus_id] = Place(
                _path(pci, nic.bus_id), _sys_numa(pci.get(nic.bus_id), facts)
            )
    return places


def distance(a: Place, b: Place) -> str | None:
    """The distance of two places in nvidia-smi's words; None when one is not known."""
    if not a.path or not b.path:
        return None
    return pci_distance(a.path, b.path, same_numa=a.numa is not None and a.numa == b.numa)[0]


def _path(pci: Mapping[str, PciFact], bus_id: str) -> tuple[str, ...]:
    return pci[bus_id].path if bus_id in pci else ()


def _sys_numa(fact: PciFact | None, facts: MachineFacts) -> int | None:
    """As /sys says; on a machine with one domain it is that."""
    if fact is not None and fact.numa is not None:
        return fact.numa
    return facts.domains[0].index if len(facts.domains) == 1 else None


def _gpu_numa(gpu: GpuFact, fact: PciFact | None, facts: MachineFacts) -> int | None:
    """As /sys says, else NVML's memory affinity, else the one domain that has all its cores."""
    told = _sys_numa(fact, facts)
    if told is not None:
        return told
    if gpu.numa is not None:
        return gpu.numa
    mine = set(gpu.cores)
    around = [d.index for d in facts.domains if mine and mine <= set(d.cores)]
    return around[0] if len(around) == 1 else None


def _paths_of_levels(
    bus_ids: Sequence[str], levels: Sequence[tuple[str, str, str]]
) -> dict[str, tuple[str, ...]]:
    """Paths that give the distances NVML tells, where /sys has none; empty for one it tells nothing of."""
    told = {bus_id for a, b, _ in levels for bus_id in (a, b)}
    mine = [bus_id for bus_id in bus_ids if bus_id in told]
    bridge, switches, switch = (_clusters(mine, levels, word) for word in ("PHB", "PXB", "PIX"))
    paths = {}
    for gpu in mine:
        root = f"bridge of {bridge[gpu]}"
        above = [f"switches of {switches[gpu]}", f"from {switches[gpu]} to {switch[gpu]}"]
        near = [f"switch of {switch[gpu]}", f"from {switch[gpu]} to {gpu}"]
        alone = sum(switches[other] == switches[gpu] for other in mine) == 1
        one_switch = all(
            switch[other] == switch[gpu] for other in mine if switches[other] == switches[gpu]
        )
        between = [] if alone else near if one_switch else [*above, *near]
        port = [] if alone else [f"port of {switches[gpu]}"]
        paths[gpu] = (root, *port, *between, gpu)
    return paths


def _clusters(
    bus_ids: Sequence[str], levels: Sequence[tuple[str, str, str]], at_most: str
) -> dict[str, str]:
    """Which are within ``at_most`` of each other, each called by the first of its cluster."""
    reach = DISTANCES.index(at_most)
    leader = {bus_id: bus_id for bus_id in bus_ids}
    for a, b, word in levels:
        if a in leader and b in leader and DISTANCES.index(word) <= reach:
            low, high = sorted((leader[a], leader[b]))
            leader = {gpu: low if of == high else of for gpu, of in leader.items()}
    return leader
