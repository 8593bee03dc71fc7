"""A lower bound on time: what no schedule can beat on this fabric.

Three arguments, each valid on its own; the largest counts.

* Cuts. For a set of ranks some bytes must leave it and some must enter it whatever the algorithm; they
  pass the links out of and into the devices that hold those ranks. Checked for every end point and for
  every host. For all_reduce this is S each way, which also holds with reduction and multicast inside
  the network (NVLS, SHARP).
* Volume. Where nothing in the network reduces or multicasts, every element needs a number of transfers
  between ranks (all_reduce: n-1 to meet, n-1 to be known everywhere), and all ranks' exits together
  carry only so much.
* Latency. A byte needs the time of its path. Unknown latencies count as 0.

Links count with their wire rate: software may fall short of it, nothing exceeds it. A cut that an
unknown bandwidth crosses says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from clusterlab.core.collectives import busbw_factor
from clusterlab.cost.types import Bound
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Link
from clusterlab.topology.routing.fluid import path_latency_us, route


@dataclass(frozen=True, slots=True)
class _Limit:
    """One argument: no less than ``time_us``, because of ``reason``."""

    time_us: float
    reason: str


@dataclass(frozen=True, slots=True)
class _Question:
    fabric: Fabric
    devices: tuple[str, ...]
    collective: str
    size_bytes: float
    root: int


def lower_bound(
    fabric: Fabric,
    devices: Sequence[str],
    collective: str,
    size_bytes: float,
    *,
    root: int = 0,
    copy_GBps: float | None = None,
) -> Bound:
    """The bound for one group whose ranks are at ``devices``, in rank order; ``root`` indexes them.

    ``copy_GBps`` is what one core copies at best, for memory links whose rate the fabric leaves open.
    """
    n = len(devices)
    limits = [_Limit(0.0, "nothing known limits it")]
    if n > 1:
        question = _Question(fabric, tuple(devices), collective, 1.0, root)
        per_byte, latency = _limits(question, copy_GBps)
        limits += [_Limit(per_byte.time_us * size_bytes, per_byte.reason), latency]
    worst = max(limits, key=lambda limit: limit.time_us)
    busbw = (
        size_bytes / (worst.time_us * 1e3) * busbw_factor(collective, n)
        if worst.time_us > 0
        else float("inf")
    )
    return Bound(worst.time_us, busbw, worst.reason)


def _limits(question: _Question, copy_GBps: float | None) -> tuple[_Limit, _Limit]:
    """The tightest limit per byte (cuts and volume grow with size alike), and the latency. Kept by the
    fabric: a sweep asks for many sizes.
    """
    key = ("bound", question.devices, question.collective, question.root, copy_GBps)
    memo = question.fabric.memo
    if key not in memo:
        by_size = [*_cuts(question), *_volume(question, copy_GBps), _Limit(0.0, "")]
        memo[key] = (max(by_size, key=lambda limit: limit.time_us), _latency(question))
    found: tuple[_Limit, _Limit] = memo[key]
    return found


def bytes_across(
    collective: str, size_bytes: float, inside: Sequence[bool], root: int
) -> tuple[float, float]:
    """Bytes that must leave and that must enter a set of ranks, whatever the algorithm.

    ``inside[r]`` says whether rank r is in the set; it holds some but not all of the ranks.
    """
    n, k = len(inside), sum(inside)
    S = float(size_bytes)
    if collective == "send_recv":
        across = S * sum(inside[r] and not inside[(r + 1) % n] for r in range(n))
        return across, across
    from_root, to_root = (S, 0.0), (0.0, S)
    return {
        # Each element is finished inside (then the result leaves) or outside (then a partial leaves).
        "all_reduce": (S, S),
        "reduce_scatter": (S * (n - k) / n, S * k / n),
        "all_gather": (S * k / n, S * (n - k) / n),
        "all_to_all": (S * k * (n - k) / n, S * k * (n - k) / n),
        "send": from_root if inside[0] else to_root,
        "broadcast": from_root if inside[root] else to_root,
        "reduce": to_root if inside[root] else from_root,
    }[collective]


def transfers(collective: str, size_bytes: float, n: int) -> float:
    """Bytes that must move between n ranks in total when nothing in the network reduces or multicasts."""
    S = float(size_bytes)
    return {"all_reduce": 2 * (n - 1) * S, "send_recv": n * S}.get(collective, (n - 1) * S)


def _cuts(question: _Question) -> list[_Limit]:
    """Around every end point, and around every host."""
    fabric = question.fabric
    limits = []
    for device in dict.fromkeys(question.devices):
        limits += _cut(question, {device}, device)
    for host in _hosts(question):
        limits += _cut(question, {d.name for d in fabric.on_host(host)}, host)
    return limits


def _hosts(question: _Question) -> list[str]:
    hosts = dict.fromkeys(question.fabric.device(d).host for d in question.devices)
    return [h for h in hosts if h is not None]


def _cut(question: _Question, members: set[str], name: str) -> list[_Limit]:
    inside = [d in members for d in question.devices]
    if all(inside):
        return []
    leaving, entering = bytes_across(
        question.collective, question.size_bytes, inside, question.root
    )
    limits = []
    for size, links, way in (
        (leaving, _leaving(question.fabric, members), "out of"),
        (entering, _entering(question.fabric, members), "into"),
    ):
        capacity = _wire_GBps(links)
        if size and capacity:
            limits.append(_Limit(size / (capacity * 1e3), f"links {way} {name}"))
    return limits


def _leaving(fabric: Fabric, members: set[str]) -> list[Link]:
    return [link for m in members for link in fabric.links_from(m) if link.dst not in members]


def _entering(fabric: Fabric, members: set[str]) -> list[Link]:
    return [link for m in members for link in fabric.links_to(m) if link.src not in members]


def _wire_GBps(links: Iterable[Link], copy_GBps: float | None = None) -> float | None:
    """Wire capacity of all of them together; None when one is unknown."""
    total = 0.0
    for link in links:
        capacity = link.wire_capacity_GBps
        if capacity is None and link.link_class == "memory" and copy_GBps is not None:
            capacity = copy_GBps * link.multiplicity * link.health
        if capacity is None:
            return None
        total += capacity
    return total


def _volume(question: _Question, copy_GBps: float | None) -> list[_Limit]:
    """All transfers over all exits: of the ranks' end points, and of the hosts."""
    fabric = question.fabric
    if any(d.in_network for d in fabric.devices):
        return []
    limits = []
    ends = list(dict.fromkeys(question.devices))
    exits = _wire_GBps((link for d in ends for link in fabric.links_from(d)), copy_GBps)
    if exits:
        total = transfers(question.collective, question.size_bytes, len(question.devices))
        shared = len(ends) < len(question.devices)
        reason = "copies by the cores" if shared else "all links out of the ranks' devices"
        limits.append(_Limit(total / (exits * 1e3), reason))
    hosts = _hosts(question)
    if question.collective == "all_reduce" and len(hosts) > 1:
        between = _wire_GBps(
            link for h in hosts for link in _leaving(fabric, {d.name for d in fabric.on_host(h)})
        )
        if between:
            total = transfers("all_reduce", question.size_bytes, len(hosts))
            limits.append(_Limit(total / (between * 1e3), "all links out of the hosts"))
    return limits


def _latency(question: _Question) -> _Limit:
    """The longest of the paths a result depends on; those from or to one rank are enough."""
    n, root = len(question.devices), question.root
    pairs = {
        "send_recv": [(r, (r + 1) % n) for r in range(n)],
        "reduce": [(r, root) for r in range(n)],
    }.get(question.collective, [(root, r) for r in range(n)])
    longest_us = max(
        path_latency_us(route(question.fabric, question.devices[a], question.devices[b]))
        for a, b in pairs
    )
    return _Limit(longest_us, "latency of the longest path")
