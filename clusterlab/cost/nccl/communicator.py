"""What NCCL knows of a communicator when it decides: its size, its machines, and the graphs its search found.

Everything in ``nccl/`` reads this and nothing else of the fabric. ``graphs/`` makes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

NEWEST = "2.30.7"
"""The NCCL release that is meant where none is named."""

Pattern = Literal[
    "ring", "balanced_tree", "split_tree", "tree", "nvls", "collnet_direct", "collnet_chain"
]
"""NCCL_TOPO_PATTERN_* of `src/include/graph.h`."""

PathName = Literal["LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "NET"]
"""PATH_* of `src/graph/topo.h`, nearest first."""

CpuVendor = Literal["intel", "amd", "arm", "zhaoxin", "power", "unknown"]


@dataclass(frozen=True, slots=True)
class Graph:
    """One search result (ncclTopoGraph): ``channels`` of ``intra_GBps`` inside a host each, and
    ``inter_GBps`` between hosts. ``type_inter`` and ``latency_inter_us`` mean nothing on one host.
    """

    pattern: Pattern
    channels: int
    intra_GBps: float
    inter_GBps: float
    type_intra: PathName = "NVL"
    type_inter: PathName = "PIX"
    latency_inter_us: float = 0.0
    same_channels: bool = True


@dataclass(frozen=True, slots=True)
class Network:
    """The NICs of one host as NCCL sees them. ``transport`` is what its network plugin speaks:
    ib, roce, gib, efa, tcpx, tcpxo, slingshot, tcp. ``nic_GBps`` is one NIC's rate (signalling, as NCCL
    takes it), ``gdr`` whether NICs reach GPU memory by themselves.
    """

    transport: str
    nics: int
    nic_GBps: float
    gdr: bool = True


@dataclass(frozen=True, slots=True)
class Communicator:
    """``ranks`` on ``nodes``: what NCCL counts as nodes, so an NVLink domain over several hosts is one.

    ``compute_capability`` is 90 for sm_90 (the least of the group), None for AMD. ``gpu`` is the chip's
    name (``H100``). ``graphs`` by algorithm: ring, tree, nvls, collnet_direct, collnet_chain; one that
    is missing was not found. ``nvls`` and ``collnet``: the machines can multicast and reduce in NVSwitch,
    and in the network. ``intra`` is the link between ranks of a node. ``staged_hops`` of the ring through
    a node's GPUs in their order, and ``staged_pairs`` (a share) of all pairs, go through host memory: they
    have no peer access. ``heads``: GPUs of a node with a NIC of their own. ``switch_GBps``: the links of one
    GPU to its NVSwitches together, None where the fabric has none or is not known.
    """

    ranks: int
    nodes: int
    ranks_per_node: int
    compute_capability: int | None
    gpu: str
    graphs: Mapping[str, Graph] = field(hash=False)
    intra: Literal["nvlink", "xgmi", "pcie"] = "nvlink"
    cpu: CpuVendor = "intel"
    cpu_arch: Literal["x86_64", "arm64", "ppc64"] = "x86_64"
    nvswitch: bool = True
    nvls: bool = True
    collnet: bool = False
    staged_hops: int = 0
    staged_pairs: float = 0.0
    heads: int = 1
    hosts: int = 1
    network: Network | None = None
    library: Literal["nccl", "rccl"] = "nccl"
    version: str = NEWEST
    switch_GBps: float | None = None

    @property
    def host_memory(self) -> bool:
        """Whether ranks of a node reach each other through host memory, some at least."""
        return self.staged_hops > 0 or self.staged_pairs > 0
