"""What NCCL itself printed: the TUNING section of its logs, and communicators as the logs describe them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from clusterlab.cost.nccl.communicator import Communicator, Graph


def table_lines(path: Path) -> list[str]:
    """The lines of the printed tuning table, without NCCL's prefix."""
    rows = (
        r"Algorithm  |Protocol   |Max NThreads|Broadcast|Reduce|AllGather|ReduceScatter|AllReduce"
    )
    return [
        match[1]
        for line in path.read_text().splitlines()
        if (match := re.search(rf"NCCL INFO (\s*({rows}) +\|.*)", line))
    ]


def calls(path: Path) -> set[tuple[str, int, str, str, int]]:
    """(collective, bytes, algorithm, protocol, channels) of every call printed, in NCCL's words."""
    pattern = r"(\w+): (\d+) Bytes -> Algo (\w+) proto (\w+) channel\{Lo\.\.Hi\}=\{(\d+)\.\.(\d+)\}"
    return {
        (m[1], int(m[2]), m[3], m[4], int(m[6]) - int(m[5]) + 1)
        for m in re.finditer(pattern, path.read_text())
    }


def h200_pair(version: str = "2.28.9+cuda13.0") -> Communicator:
    """Two H200 behind one NVSwitch, without multicast: graph.xml of that run."""
    graphs = {
        "ring": Graph("ring", 12, 30, 30),
        "tree": Graph("balanced_tree", 12, 60, 60, same_channels=False),
    }
    return Communicator(2, 1, 2, 90, "H200", graphs, nvls=False, version=version)


def socket_pair() -> Communicator:
    """Two machines of one GPU, 10 Gbit/s sockets: the graph that its printed bandwidths imply."""
    graphs = {
        "ring": Graph("ring", 2, 1.2, 1.2, "LOC", "PHB"),
        "tree": Graph("tree", 2, 2.4, 1.2, "LOC", "PHB"),
    }
    return Communicator(
        2, 2, 1, 90, "H100", graphs, nvswitch=False, nvls=False, version="2.29.7+cuda12.9"
    )


def h100_nodes(nodes: int, per_node: int, version: str = "2.27.5", **more: Any) -> Communicator:
    """H100 machines with a 400 Gbit/s NIC per GPU, ``per_node`` GPUs of each in use."""
    wide = per_node == 8
    channels = {1: 2, 2: 4}.get(per_node, 8)
    speed = 48.0 if wide else 24.0
    graphs = {
        "ring": Graph("ring", channels, speed, speed),
        "tree": Graph("tree", channels, 48.0, speed),
        "nvls": Graph("nvls", 8, 40.0, 48.0),
    }
    base = Communicator(nodes * per_node, nodes, per_node, 90, "H100", graphs, version=version)
    return replace(base, **more)
