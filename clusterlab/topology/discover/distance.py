"""How far two PCI devices are from each other, by where /sys keeps them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clusterlab.topology.discover.facts import NicFact, PciFact

DISTANCES = ("PIX", "PXB", "PHB", "NODE", "SYS")
"""nvidia-smi's words, nearest first: one PCIe switch, several, one root complex, one NUMA domain, none."""


@dataclass(frozen=True, slots=True)
class NicDistance:
    """A NIC as a GPU sees it: None where a path is not known. ``near``: no other that is up is nearer."""

    name: str
    distance: str | None
    near: bool


def pci_distance(a: Sequence[str], b: Sequence[str], *, same_numa: bool) -> tuple[str, int]:
    """The distance in nvidia-smi's words, and the steps up and down, of two PCI paths in /sys.

    A path is ``pci0000:10``, root port, switch ports, …, device.
    """
    common = 0
    while common < min(len(a), len(b)) and a[common] == b[common]:
        common += 1
    hops = len(a) + len(b) - 2 * common
    if common == 0:
        return ("NODE" if same_numa else "SYS"), hops
    if common == 1:  # only the root complex
        return "PHB", hops
    # they meet in a root port (two functions of one card), or in the switch that has the last common port
    meeting = 1 if common == 2 else (common - 1) // 2 * 2
    below = [
        position for path in (a, b) for position in switch_positions(path) if position > meeting
    ]
    return ("PXB" if below else "PIX"), hops


def switch_positions(path: Sequence[str]) -> range:
    """Where on a path switches are, by their upstream ports: every other bridge below the root port."""
    return range(2, len(path) - 1, 2)


def nic_distances(
    gpu: PciFact | None, nics: Sequence[NicFact], pci: Mapping[str, PciFact]
) -> tuple[NicDistance, ...]:
    """Every NIC's distance to ``gpu``, and which are its nearest; ``pci`` by bus id."""
    orders: list[tuple[int, int] | None] = []
    words: list[str | None] = []
    for nic in nics:
        place = pci.get(nic.bus_id or "")
        if gpu is None or place is None or not gpu.path or not place.path:
            orders.append(None)
            words.append(None)
            continue
        same_numa = gpu.numa is not None and gpu.numa == place.numa
        word, hops = pci_distance(gpu.path, place.path, same_numa=same_numa)
        words.append(word)
        orders.append((DISTANCES.index(word), hops) if nic.up else None)
    nearest = min((order for order in orders if order is not None), default=None)
    return tuple(
        NicDistance(nic.name, word, nearest is not None and order == nearest)
        for nic, word, order in zip(nics, words, orders, strict=True)
    )
