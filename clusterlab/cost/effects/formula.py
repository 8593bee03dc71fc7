"""The time of one collective by one algorithm and protocol. One formula, for plain numbers and for arrays.

    latency   = start + hops inside × hop + grow × hops between × (κ × NCCL's own network hop + network step)
    transfer  = (wire time / efficiency + copy of the own part) × (1 + √(ramp / S))
    time      = (latency^p + transfer^p)^(1/p)

Why these terms, where NCCL's own model has latency + S / bandwidth:

* A hop costs what the generation of GPU and the network's class make it cost; NCCL has one figure for all.
* Every rank also copies its own part of the buffer: S/n bytes, which two ranks feel most (NVLink at 0.7 of
  the plateau that eight ranks reach).
* Chunks grow with the buffer, so the plateau is approached as 1/√S.
* Between nodes a larger buffer goes in more pieces, each of which pays the network's step until the
  pipe is full: latency grows by a factor of up to 1 + φ.
* Ranks without peer access copy through the host's memory, at a rate of its own, and crowd there: two
  ranks have it to themselves, more each × (g/2)^crowding.
* Steps and transfers overlap in part: p lies between 1 (one after the other) and 4 (nearly the longer).

Only operators that floats, numpy arrays and torch tensors share are used: the fit
(tests/benchmarks/fit_effects.py) runs this very file. Times in µs, sizes in bytes.
"""

from __future__ import annotations

from typing import Any

Number = Any
"""A float, or an array of them."""


Terms = Any
"""``features.Features``, or an object with the same fields that are arrays."""

LL_SHARE = 2.0
"""LL sends four bytes of flag with four of data (`src/device/prims_ll.h`)."""

LL128_SHARE = 128 / 120
"""LL128 sends 8 bytes of flag in 128 (`src/device/prims_ll128.h`)."""

P2P_LL_BYTES = 16384.0
"""Bytes to one peer up to which send and receive use LL (NCCL_P2P_LL_THRESHOLD)."""

EITHER = 6.0
"""p-norm that stands for the larger of two limits."""


def norm(a: Number, b: Number, p: Number) -> Number:
    """(a^p + b^p)^(1/p); one of them positive, the other at least 0."""
    return (a**p + b**p) ** (1.0 / p)


def time_us(point: Terms, k: Any) -> Number:
    """µs of ``point`` with the constants ``k`` (``constants.Effects``, or arrays by the same names)."""
    return _KINDS[point.kind](point, k)


def host_memory_us(point: Terms, k: Any) -> Number:
    """The copies through the host's memory; 0 where GPUs reach each other."""
    return point.staged_us * point.crowd**k.crowding / k.host_memory_GBps


def _stepped(point: Terms, k: Any) -> Number:
    """Ring and tree: hops one after another."""
    wire = point.wire_us * (1.0 + (point.kind == "tree") * (1.0 / k.tree_rate - 1.0))
    copy = point.copy_us * (k.copy_reduced if point.sums else k.copy_gathered)
    share = {"ll": LL_SHARE, "ll128": LL128_SHARE, "simple": 1.0}[point.protocol]
    if point.protocol == "simple":
        hop, kappa = k.hop_simple_us, k.kappa_simple
        rate = k.network_rate if point.several_nodes else k.rate_simple
        ramp = k.network_ramp_bytes if point.several_nodes else k.ramp_simple_bytes
        overlap = k.network_overlap_simple if point.several_nodes else k.overlap_simple
        start = k.start_simple_us
    else:
        larger = k.hop_larger_us * point.part_bytes / (point.part_bytes + k.hop_larger_bytes)
        ll = point.protocol == "ll"
        hop = (k.hop_ll_us if ll else k.hop_ll128_us) + larger
        kappa = k.kappa_ll if ll else k.kappa_ll128
        alone = k.rate_ll if ll else k.rate_ll128
        rate = k.network_rate if point.several_nodes else alone
        ramp = k.ramp_ll_bytes
        overlap = k.network_overlap_ll if point.several_nodes else k.overlap_ll
        start = 0.0
    latency = point.hops_inside * hop + network_us(point, k, kappa)
    # LL's flags weigh half as much there: measured on four and eight L40S.
    moved = norm(wire * share / rate, host_memory_us(point, k) * share**0.5, EITHER)
    transfer = (moved + copy) * (1.0 + (ramp / point.size_bytes) ** 0.5)
    if point.protocol == "simple":
        return k.base_us + norm(start + latency, transfer, overlap)
    return norm(k.base_us + latency, transfer, overlap)


def network_us(point: Terms, k: Any, kappa: Number) -> Number:
    """The hops between nodes, which a larger buffer makes more than once."""
    grow = 1.0 + k.fill * point.size_bytes / (point.size_bytes + k.fill_bytes)
    return grow * point.hops_between * (kappa * point.net_hop_us + k.network_step_us)


def _nvls(point: Terms, k: Any) -> Number:
    transfer = point.wire_us / k.nvls_rate * (1.0 + (k.nvls_ramp_bytes / point.size_bytes) ** 0.5)
    return k.base_us + k.nvls_start_us + transfer


def _nvls_tree(point: Terms, k: Any) -> Number:
    start = k.base_us + k.nvls_start_us + k.nvls_tree_start_us
    transfer = norm(point.wire_us / k.nvls_rate, point.network_wire_us / k.network_rate, EITHER)
    ramp = 1.0 + (k.nvls_tree_ramp_bytes / point.size_bytes) ** 0.5
    return start + network_us(point, k, k.kappa_simple) + transfer * ramp


def _p2p_start(point: Terms, k: Any) -> Number:
    between = point.hops_between * k.p2p_network_us if point.several_nodes else 0.0
    return (
        k.base_us * k.p2p_base + k.p2p_peer_us * (point.hops_inside + point.hops_between) + between
    )


def _p2p_transfer(point: Terms, k: Any) -> Number:
    rate = k.p2p_network_rate if point.several_nodes else k.p2p_rate
    moved = norm(point.wire_us / rate, host_memory_us(point, k), EITHER)
    ramp = 1.0 + (k.p2p_ramp_bytes / point.size_bytes) ** 0.5
    return moved * ramp + 0.6 * k.copy_gathered * point.copy_us


def _p2p_ll(point: Terms, k: Any) -> Number:
    """Send and receive in small pieces."""
    pieces = 0.5 * k.p2p_simple_us * point.part_bytes / P2P_LL_BYTES
    return _p2p_start(point, k) + pieces + _p2p_transfer(point, k)


def _p2p_simple(point: Terms, k: Any) -> Number:
    whole = k.p2p_simple_us * point.part_bytes / (point.part_bytes + k.p2p_half_bytes)
    return _p2p_start(point, k) + whole + _p2p_transfer(point, k)


def _other(point: Terms, k: Any) -> Number:
    """CollNet and PAT, of which no measurement is known: NCCL's latency and bandwidth, the class's rate."""
    return point.net_hop_us + network_us(point, k, 0.0) + point.wire_us / k.network_rate


_KINDS = {
    "ring": _stepped,
    "tree": _stepped,
    "nvls": _nvls,
    "nvls_tree": _nvls_tree,
    "p2p_ll": _p2p_ll,
    "p2p_simple": _p2p_simple,
    "other": _other,
}
