"""NCCL 2.30's tuning constants for Hopper, as far as ring and tree need them.

NVIDIA/nccl 5067397c (2.30.7), src/graph/tuning.cc ncclTunerConstantsDefaults and src/graph/search.cc.
Order of protocols everywhere: LL, LL128, Simple. Times in µs, rates in GB/s.
"""

from __future__ import annotations

SOURCE = "NCCL 2.30.7 src/graph/tuning.cc"
SEARCH_SOURCE = "NCCL 2.30.7 src/graph/search.cc"

PROTOCOLS = ("ll", "ll128", "simple")

BASE_US = {"ring": (6.6, 14.0, 8.4), "tree": (6.8, 14.0, 8.4)}

HOP_US = {
    ("nvlink", "ring"): (0.6, 1.9, 3.4),
    ("nvlink", "tree"): (0.6, 1.25, 4.0),
    ("pcie", "ring"): (1.0, 2.5, 5.7),
    ("pcie", "tree"): (1.0, 1.9, 4.0),
    ("net", "ring"): (2.7, 4.0, 14.0),
    ("net", "tree"): (5.0, 8.5, 14.0),
}

LL_MAX_GBPS = (141.0, 45.0, 35.0)
"""llMaxBws of Hopper by nodes (1, 2, 4 and more)."""

LL_MAX_GBPS_INTEL = (39.0, 39.0, 20.4)
"""Row of Intel CPUs: what applies beyond one node."""

RING_LL128_PER_CHANNEL_GBPS = 36.7
TREE_LL128_PER_CHANNEL_GBPS = (36.7, 36.7, 29.0)
TREE_PER_CHANNEL_GBPS = (38.7, 41.4, 36.0)

NET_OVERHEAD_US = 1.0
"""NCCL_NET_OVERHEAD for Intel CPUs, three times that for Simple."""

PLATEAU_LATENCY = 1.4
"""Latency factor of ring, Simple, all_reduce over several nodes from 64 B per channel and rank on."""

PLAIN_TREE = 0.85
"""Tree bandwidth where a node's graph is the plain TREE pattern: H100 from two nodes on."""

TREE_CORRECTION = {
    "ll": (
        1, 1, 1, 1, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1, 1, 1,
    ),
    "ll128": (
        1, 1, 1, 1, 1, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1, 1,
    ),
    "simple": (
        0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7,
        0.8, 0.9, 0.9,
    ),
}  # fmt: skip
"""treeCorrectionFactor by log2(size / 64 B)."""

MAX_RING_CHANNELS = 32
"""MAXCHANNELS / 2: how many the search for a ring may place."""

SPEEDS_INTRA_GBPS = (60.0, 50.0, 40.0, 30.0, 24.0, 20.0, 15.0, 12.0, 11.0, 6.0, 3.0)
SPEEDS_INTER_GBPS = (
    48.0, 45.0, 42.0, 40.0, 30.0, 24.0, 22.0, 20.0, 17.5, 15.0, 12.0, 6.0, 3.0, 2.4, 1.2, 0.24, 0.12,
)  # fmt: skip
"""Channel speeds that the SM90 search tries."""
