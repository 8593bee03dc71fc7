"""This host's network devices: NICs with their place next to GPUs, interfaces, what a name resolves to."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from pathlib import Path

from clusterlab.binding.probe.node import NodeGpu
from clusterlab.binding.records import NicRecord
from clusterlab.topology.discover.distance import NicDistance, nic_distances
from clusterlab.topology.discover.facts import NicFact, PciFact
from clusterlab.topology.discover.nics import read_nics
from clusterlab.topology.discover.pci import read_pci

_SWITCHED = ("PIX", "PXB")


class NicsHere:
    """The NICs of this host, and how far each is from a GPU by PCI path."""

    def __init__(self, notes: list[str], *, sys: Path = Path("/sys")) -> None:
        self._sys = sys
        self._nics: tuple[NicFact, ...] = read_nics(sys, notes)
        self._pci = {nic.bus_id: read_pci(sys, nic.bus_id) for nic in self._nics if nic.bus_id}

    def records(self, gpus: Sequence[NodeGpu]) -> tuple[NicRecord, ...]:
        """Every NIC; ``near_gpu`` where exactly one GPU shares its PCI switch more closely than others."""
        beside: dict[str, list[tuple[int, int]]] = {}
        for index, gpu in enumerate(gpus):
            for nic, far in zip(self._nics, self._distances(gpu), strict=True):
                if far.distance in _SWITCHED:
                    order = _SWITCHED.index(far.distance)
                    beside.setdefault(nic.name, []).append((order, index))
        return tuple(
            NicRecord(
                nic.name,
                pci=nic.bus_id,
                numa=_numa(self._pci.get(nic.bus_id or "")),
                near_gpu=_only_nearest(beside.get(nic.name, [])),
                kind=None if nic.rdma else "ethernet",
            )
            for nic in self._nics
        )

    def nearest(self, gpu: NodeGpu) -> tuple[str, ...]:
        """The RDMA devices nearest to ``gpu`` that are up, each with its distance: ``mlx5_0 PIX``."""
        rdma = {nic.name for nic in self._nics if nic.rdma}
        far = [d for d in self._distances(gpu, rdma_only=True) if d.near and d.name in rdma]
        return tuple(f"{d.name} {d.distance}" for d in far)

    def _distances(self, gpu: NodeGpu, *, rdma_only: bool = False) -> tuple[NicDistance, ...]:
        nics = [nic for nic in self._nics if nic.rdma or not rdma_only]
        return nic_distances(read_pci(self._sys, gpu.key), nics, self._pci)


def _numa(fact: PciFact | None) -> int | None:
    return fact.numa if fact else None


def _only_nearest(orders: list[tuple[int, int]]) -> int | None:
    """The index of the one nearest GPU; None when several are as near."""
    if not orders:
        return None
    nearest = min(order for order, _ in orders)
    indices = [index for order, index in orders if order == nearest]
    return indices[0] if len(indices) == 1 else None


def interfaces() -> tuple[str, ...]:
    """The network interfaces of this process's network namespace."""
    return tuple(name for _, name in socket.if_nameindex())


def resolve(name: str, *, timeout_s: float = 2.0) -> str | None:
    """The first address of ``name``; None when nobody knows it, or nobody answers in time."""
    found: list[str] = []

    def ask() -> None:
        try:
            found.append(str(socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)[0][4][0]))
        except (OSError, UnicodeError):
            return

    asking = threading.Thread(target=ask, name="resolve", daemon=True)
    asking.start()
    asking.join(timeout_s)
    return found[0] if found else None
