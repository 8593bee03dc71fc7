"""One known change of a healthy curve for each cause: what the fault does, not what it is called.

Nothing of ``clusterlab.cost`` is used: a fault's rate, latency and noise are drawn from the ranges that
measurements of such faults have (cause by cause below), on top of the healthy curve it is given. What a
fault does not touch keeps its time; what it touches keeps the healthy curve's noise.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from tests.benchmarks.why_bases import Base
from tests.benchmarks.why_physics import (
    RINGS,
    another_way,
    limited,
    network_steps,
    networked,
    of_network,
    one_node,
    ring_GBps,
    slow_start,
)


@dataclass(frozen=True, slots=True)
class Faulty:
    """Times (µs) of the base's rows under one fault; ``story`` says what was drawn. ``alike`` are other
    codes that give this very curve: half of the NICs, or all of them at half width.
    """

    times_us: tuple[float, ...]
    story: str
    alike: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fault:
    """``weight`` of 200 curves; ``fits`` says on which bases the fault exists and shows."""

    code: str
    weight: float
    fits: Callable[[Base], bool]
    make: Callable[[Base, random.Random], Faulty]


# --- inside a node


def _p2p_disabled(base: Base, draw: random.Random) -> Faulty:
    # Two H200 had 27.7 GB/s of a host link of 52; of L40S four have a quarter each of what two have.
    rate = base.site.pcie_GBps * draw.uniform(0.4, 0.6)
    rate *= (2 / base.ranks) ** draw.uniform(0.8, 1.7)
    return Faulty(
        limited(base, draw, rate, base.floor_us * draw.uniform(0.1, 0.9)),
        f"through host memory at {rate:.3g} GB/s",
    )


def _nvls_off(base: Base, draw: random.Random) -> Faulty:
    rate = base.plateau_GBps * draw.uniform(0.74, 0.78)
    return Faulty(another_way(base, draw, rate), f"rings at {rate:.3g} GB/s")


def _slow_link(base: Base, draw: random.Random) -> Faulty:
    down = draw.randint(6, 13)
    rate = base.plateau_GBps * (18 - down) / 18 * draw.uniform(0.97, 1.03)
    return Faulty(limited(base, draw, rate), f"one GPU lost {down} of 18 links: {rate:.3g} GB/s")


# --- between nodes


def _nic_half_width(base: Base, draw: random.Random) -> Faulty:
    share = draw.choice([0.5, 0.5, 0.25])
    times = limited(base, draw, of_network(base, share) * draw.uniform(0.97, 1.02))
    alike = ("FEWER_NICS_THAN_EXPECTED",) if base.site.nics * share >= 1 else ()
    return Faulty(times, f"NICs at {share} of their rate", alike)


def _fewer_nics(base: Base, draw: random.Random) -> Faulty:
    nics = base.site.nics
    left = draw.randint(1, nics * 3 // 4)
    times = limited(base, draw, of_network(base, left / nics) * draw.uniform(0.97, 1.02))
    alike = ("NIC_HALF_WIDTH",) if left / nics in (0.5, 0.25) else ()
    return Faulty(times, f"{left} of {nics} NICs", alike)


def _gdr_off(base: Base, draw: random.Random) -> Faulty:
    share = draw.uniform(0.25, 0.5)
    latency = network_steps(base) * draw.uniform(2.0, 6.0)
    return Faulty(
        limited(base, draw, of_network(base, share), latency), f"staged, {share:.2f} of the NICs"
    )


def _acs(base: Base, draw: random.Random) -> Faulty:
    per_nic = draw.uniform(10, 15)
    latency = network_steps(base) * draw.uniform(0.5, 2.0)
    return Faulty(
        limited(base, draw, of_network(base, per_nic / base.site.nic_GBps), latency),
        f"{per_nic:.3g} of {base.site.nic_GBps:g} GB/s of each NIC",
    )


def _tcp(base: Base, draw: random.Random) -> Faulty:
    # A few GB/s of a node, however many its NICs; kernel and wake-up at every message.
    node = math.exp(draw.uniform(math.log(1.2), math.log(9.0)))
    share = min(0.25, node / (base.site.nics * base.site.nic_GBps))
    latency = network_steps(base) * draw.uniform(22, 45)
    return Faulty(limited(base, draw, of_network(base, share), latency), f"{node:.3g} GB/s a node")


def _wrong_nic(base: Base, draw: random.Random) -> Faulty:
    latency = network_steps(base) * draw.uniform(0.5, 3.0)
    if draw.random() < 0.4:
        times = limited(base, draw, of_network(base, 0.5), latency)
        return Faulty(times, "two GPUs at each NIC", ("FEWER_NICS_THAN_EXPECTED", "NIC_HALF_WIDTH"))
    share = draw.uniform(0.4, 0.75)
    return Faulty(limited(base, draw, of_network(base, share), latency), f"far NICs, {share:.2f}")


# --- the fabric


def _oversubscribed(base: Base, draw: random.Random) -> Faulty:
    ratio = draw.uniform(1.5, 4.0)
    start = draw.uniform(22, 26)  # switches' buffers and few flows hide it up to here
    noisy = draw.uniform(0.01, 0.06)
    times = []
    for point in base.points:
        felt = 1 / (1 + math.exp(-(math.log2(point.size_bytes) - start) / 1.2))
        times.append(point.time_us * ratio**felt * math.exp(felt * draw.gauss(0, noisy)))
    return Faulty(tuple(times), f"{ratio:.2f} to 1 above the leaf, from {2**start / 2**20:.0f} MiB")


def _ecmp(base: Base, draw: random.Random) -> Faulty:
    share = draw.choice([1 / 2, 1 / 2, 2 / 3, 1 / 3])
    times = limited(base, draw, of_network(base, share))
    noisy = draw.uniform(0.01, 0.05)
    times = tuple(t * math.exp(draw.gauss(0, noisy)) for t in times)
    return Faulty(times, f"{round(1 / share, 1)} flows on one uplink, noise {noisy:.1%}")


# --- the library


def _ring_forced(base: Base, draw: random.Random) -> Faulty:
    inside, between = draw.uniform(0.9, 1.7), draw.uniform(4, 8)
    latency = 8 + 2 * (base.ranks - base.nodes) * inside + 2 * base.nodes * between
    return Faulty(
        slow_start(base, draw, latency),
        f"ring at every size: {2 * (base.ranks - 1)} steps, {latency:.0f} µs",
    )


def _tree_forced(base: Base, draw: random.Random) -> Faulty:
    rate = ring_GBps(base) * draw.uniform(0.5, 0.8)
    return Faulty(another_way(base, draw, rate), f"tree at every size: {rate:.3g} GB/s")


def _algorithm(base: Base, draw: random.Random) -> Faulty:
    many = base.nodes >= 4 and base.has_floor
    return _ring_forced(base, draw) if many and draw.random() < 0.7 else _tree_forced(base, draw)


def _ll_forced(base: Base, draw: random.Random) -> Faulty:
    # Half of what travels are flags; the threads that poll them cost the rest.
    rate = ring_GBps(base) * draw.uniform(0.3, 0.5)
    return Faulty(another_way(base, draw, rate), f"LL at every size: {rate:.3g} GB/s")


def _simple_forced(base: Base, draw: random.Random) -> Faulty:
    latency = base.floor_us * draw.uniform(1.7, 3.2)
    return Faulty(slow_start(base, draw, latency), f"Simple at every size: {latency:.0f} µs")


def _protocol(base: Base, draw: random.Random) -> Faulty:
    simple = base.has_floor and (draw.random() < 0.4 or not base.has_plateau)
    return _simple_forced(base, draw) if simple else _ll_forced(base, draw)


def _channels(base: Base, draw: random.Random) -> Faulty:
    most = int(0.7 * base.plateau_GBps / base.site.channel_GBps)
    channels = draw.choice([c for c in (1, 2, 4, 8) if c <= most])
    rate = channels * base.site.channel_GBps * draw.uniform(0.8, 1.15)
    return Faulty(limited(base, draw, rate), f"{channels} channels: {rate:.3g} GB/s")


def _qps(base: Base, draw: random.Random) -> Faulty:
    share = draw.uniform(0.55, 0.78)
    return Faulty(limited(base, draw, of_network(base, share)), f"one QP: {share:.2f} of the NICs")


def _bug(base: Base, draw: random.Random) -> Faulty:
    sizes = sorted(set(base.sizes))
    width = draw.randint(2, 5)
    first = draw.randint(3, len(sizes) - width - 2)
    depth = draw.uniform(1.8, 6.0)
    within = {size: depth * draw.uniform(0.7, 1.3) for size in sizes[first : first + width]}
    times = tuple(
        p.time_us * within.get(p.size_bytes, 1.0) * draw.lognormvariate(0, 0.02)
        for p in base.points
    )
    return Faulty(times, f"{depth:.2g} times from {sizes[first]} B, {width} sizes")


# --- the host and the method


def _cold(base: Base, draw: random.Random) -> Faulty:
    rows = draw.choice([1, 1, 2, 3])
    first = sorted(set(base.sizes))[:rows]
    extra = base.times_us[0] * math.exp(draw.uniform(math.log(1.5), math.log(50)))
    times = tuple(
        p.time_us + extra * 0.4 ** first.index(p.size_bytes)
        if p.size_bytes in first and not p.in_place
        else p.time_us
        for p in base.points
    )
    return Faulty(times, f"{rows} rows begin {extra:.0f} µs late")


def _host_overhead(base: Base, draw: random.Random) -> Faulty:
    floor = max(25.0, base.floor_us * draw.uniform(1.8, 4.0))
    noisy = draw.uniform(0.01, 0.05)
    times = tuple(max(t, floor * draw.lognormvariate(0, noisy)) for t in base.times_us)
    return Faulty(times, f"{floor:.0f} µs to issue a call")


def _cpu_affinity(base: Base, draw: random.Random) -> Faulty:
    slow, plateau = draw.uniform(1.5, 3.0), draw.uniform(1.03, 1.12)
    noisy = draw.uniform(0.12, 0.3)
    times = []
    for point in base.points:
        large = 1 / (1 + (4 << 20) / point.size_bytes)
        factor = slow ** (1 - large) * plateau**large
        times.append(point.time_us * factor * math.exp((1 - large) * abs(draw.gauss(0, noisy))))
    return Faulty(tuple(times), f"{slow:.2f} times at small sizes, noise {noisy:.0%}")


def _slow_rank(base: Base, draw: random.Random) -> Faulty:
    if draw.random() < 0.5:
        late = base.floor_us * math.exp(draw.uniform(math.log(2), math.log(15)))
        times = tuple(t + late * draw.lognormvariate(0, 0.15) for t in base.times_us)
        return Faulty(times, f"one rank comes {late:.0f} µs late")
    slow = draw.uniform(1.4, 2.2)
    return Faulty(tuple(t * slow for t in base.times_us), f"one rank at 1/{slow:.2f} of its clock")


def _chosen(base: Base) -> bool:
    return base.points[0].collective in RINGS and base.has_plateau


FAULTS = (
    Fault("P2P_DISABLED", 18, lambda b: one_node(b) and b.site.pcie_GBps < b.plateau_GBps, _p2p_disabled),
    Fault("NVLS_OFF", 10,
          lambda b: one_node(b) and b.ranks == 8 and b.plateau_GBps > 440
          and b.plateau_GBps < 520 and b.points[0].collective == "all_reduce", _nvls_off),
    Fault("SLOW_LINK", 7, lambda b: one_node(b) and b.site.nvls, _slow_link),
    Fault("NIC_HALF_WIDTH", 12, networked, _nic_half_width),
    Fault("FEWER_NICS_THAN_EXPECTED", 11, lambda b: networked(b) and b.site.nics >= 4, _fewer_nics),
    Fault("GDR_OFF", 13, networked, _gdr_off),
    Fault("ACS_IOMMU_DETOUR", 9, lambda b: networked(b) and b.site.nic_GBps >= 50, _acs),
    Fault("TCP_FALLBACK", 16, networked, _tcp),
    Fault("WRONG_NIC_OR_RAIL", 5, lambda b: networked(b) and b.site.nics >= 4, _wrong_nic),
    Fault("CONGESTION_OVERSUBSCRIPTION", 9, lambda b: networked(b) and b.nodes >= 4, _oversubscribed),
    Fault("ECMP_COLLISIONS", 5, networked, _ecmp),
    Fault("ALGO_FORCED", 12,
          lambda b: b.has_plateau and b.points[0].collective == "all_reduce" and b.ranks > 2, _algorithm),
    Fault("PROTO_FORCED", 18, _chosen, _protocol),
    Fault("TOO_FEW_CHANNELS", 13,
          lambda b: _chosen(b) and 0.7 * b.plateau_GBps >= b.site.channel_GBps, _channels),
    Fault("TOO_FEW_QPS", 3, lambda b: networked(b) and b.nodes >= 4, _qps),
    Fault("LIBRARY_BUG", 11, lambda b: len(set(b.sizes)) >= 16, _bug),
    Fault("COLD_START_OR_WARMUP", 9, lambda b: b.has_floor, _cold),
    Fault("HOST_OVERHEAD_SMALL", 12, lambda b: b.has_floor, _host_overhead),
    Fault("CPU_AFFINITY", 8, lambda b: b.has_floor and b.nodes > 1, _cpu_affinity),
    Fault("SLOW_RANK", 9, lambda b: b.has_floor, _slow_rank),
)  # fmt: skip
"""MISPLACED_RANKS is missing: one curve of one order of ranks has no sign of its own."""
