"""What a failure costs: at once, after local repair, after the whole network was routed anew.

Stages of a failure, in order:

    whole       before it
    unnoticed   every switch routes as before; what is sent over a dead cable is lost
    local       a switch avoids its own dead ports: fast link fault recovery (FLFR), or an ECMP group
                that shrinks. Helps where that switch has another cable that leads to the destination
    neighbours  switches also hear of destinations that others lost: fast link fault notification
                (FLFN), or a withdrawn route. In fat trees, whatever is connected is reached again
    rerouted    all tables are made anew (subnet manager, routing protocol); only now hashes and pinned
                routes of flows that were never cut may change

FLFR and FLFN are NVIDIA's SHIELD (docs.nvidia.com, InfiniBand cluster bring-up procedure). It covers
cables between switches; an end point whose only cable is lost stays cut off whatever the network does.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from clusterlab.core.errors import UsageError
from clusterlab.topology.routing.fluid_load import fluid_load
from clusterlab.topology.routing.load import cable_load
from clusterlab.topology.routing.network import Bools, Floats, Ints, Network
from clusterlab.topology.routing.policy import Adaptive, Policy
from clusterlab.topology.routing.reach import Reach, reach_of
from clusterlab.topology.routing.updown import Routes, route_pairs, widened

StageName = Literal["whole", "unnoticed", "local", "neighbours", "rerouted"]

Way = Literal["up", "down", "level"]

_REROUTE_S = (10.0, 20.0)
_REROUTE_SOURCE = "subnet manager on very large fabrics, 10-20 s (enterpriseai.news, 2017)"


@dataclass(frozen=True, slots=True)
class Stage:
    """``cut`` is the share of the traffic that does not arrive, ``moved`` the share of pairs whose path
    differs from before (adaptive: None, packets have no path). ``worst_GBps`` is the load of the fullest
    cable between switches (of the one with the highest load per capacity), ``worst_share`` that over
    the capacity left (None where unknown). ``seconds`` until this stage is reached, None: no source.
    """

    name: StageName
    cut: float
    moved: float | None
    worst_GBps: float
    worst_cable: str
    worst_share: float | None
    seconds: tuple[float, float] | None = None
    seconds_source: str = ""


@dataclass(frozen=True, slots=True)
class CapacityLoss:
    """Live cables and GB/s per direction of a switch towards the tier above (``up``), below (``down``) or
    other switches of its own (``level``).

    GB/s are None where a rate is unknown; ``left`` is the share left, by weight of ``Network.weight``.
    """

    switch: str
    way: Way
    cables_before: int
    cables_after: int
    GBps_before: float | None
    GBps_after: float | None
    left: float


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What the difference between two states of a network costs some traffic."""

    failed: tuple[str, ...]
    policy: str
    pairs: int
    losses: tuple[CapacityLoss, ...]
    cut_off: tuple[str, ...]
    stages: tuple[Stage, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data, in the order people read it."""
        return asdict(self)


def repair_report(
    before: Network,
    after: Network,
    src: NDArray[np.integer],
    dst: NDArray[np.integer],
    policy: Policy,
    *,
    GBps: Floats | float = 1.0,
    labels: NDArray[np.integer] | None = None,
) -> RepairReport:
    """What ``after`` costs the pairs ``src`` to ``dst`` (rates ``GBps``), stage by stage.

    ``after`` is the same network with less health. End points know at once which of their own and their
    peer's ports are down. Raises UsageError when the two are not the same network.
    """
    failed = failed_cables(before, after)
    ports = np.unique(before.low[failed[before.low[failed] >= before.switches]])
    cut_off = [before.nodes[n] for n in ports.tolist() if not after.live[after.at(n)].any()]
    rate = np.broadcast_to(np.asarray(GBps, dtype=np.float64), src.shape)
    if isinstance(policy, Adaptive):
        stages = _fluid_stages(before, after, src, dst, rate)
    else:
        stages = _path_stages(before, after, (src, dst, policy, labels), rate)
    return RepairReport(
        failed=tuple(before.cable_name(c) for c in failed.tolist()),
        policy=policy.name,
        pairs=len(src),
        losses=_losses(before, after, failed),
        cut_off=tuple(cut_off),
        stages=stages,
    )


def failed_cables(before: Network, after: Network) -> Ints:
    """Cables with less health than before. Raises UsageError unless both have the same cables."""
    same = before.nodes == after.nodes and all(
        np.array_equal(a, b) for a, b in ((before.low, after.low), (before.high, after.high))
    )
    if not same:
        raise UsageError(
            "two different networks",
            where=f"fabric {after.name}",
            expected=f"the switches and cables of {before.name}, some of them down",
        )
    return np.flatnonzero(after.health < before.health).astype(np.int32)


def random_pairs(network: Network, count: int, seed: int = 0) -> tuple[Ints, Ints]:
    """``count`` pairs of different end points, uniform and independent."""
    random = np.random.default_rng(seed)
    ends = network.end_points
    src = random.integers(0, len(ends), count)
    dst = (src + random.integers(1, max(2, len(ends)), count)) % len(ends)
    return ends[src], ends[dst]


def _fluid_stages(
    before: Network,
    after: Network,
    src: NDArray[np.integer],
    dst: NDArray[np.integer],
    rate: Floats,
) -> tuple[Stage, ...]:
    dead = before.live & ~after.live
    runs: tuple[tuple[StageName, Network, Reach, Bools | None], ...] = (
        ("whole", before, reach_of(before), None),
        ("unnoticed", before, reach_of(before), dead),
        ("local", after, reach_of(before), None),
        ("neighbours", after, reach_of(after), None),
        ("rerouted", after, reach_of(after), None),
    )
    total = rate[src != dst].sum()
    stages = []
    for name, network, tables, broken in runs:
        fluid = fluid_load(network, src, dst, rate, tables=tables, broken=broken)
        state = before if name == "whole" else after
        stages.append(_stage(name, state, fluid.load, fluid.lost / total if total else 0.0, None))
    return tuple(stages)


def _path_stages(
    before: Network,
    after: Network,
    asked: tuple[NDArray[np.integer], NDArray[np.integer], Policy, NDArray[np.integer] | None],
    rate: Floats,
) -> tuple[Stage, ...]:
    src, dst, policy, labels = asked
    whole = route_pairs(before, src, dst, policy, labels=labels)
    dead = np.flatnonzero(before.live & ~after.live)
    hit: Bools = np.asarray(np.isin(whole.cables, dead).any(axis=1))

    def repaired(tables: Reach) -> Routes:
        again = route_pairs(
            after,
            src[hit],
            dst[hit],
            policy,
            labels=None if labels is None else labels[hit],
            tables=tables,
        )
        return _replaced(whole, hit, again)

    runs: tuple[tuple[StageName, Routes], ...] = (
        ("whole", whole),
        ("unnoticed", _replaced(whole, hit, None)),
        ("local", repaired(reach_of(before))),
        ("neighbours", repaired(reach_of(after))),
        ("rerouted", route_pairs(after, src, dst, policy, labels=labels)),
    )
    total = rate[src != dst].sum()
    stages = []
    for name, routes in runs:
        lost = rate[~routes.reached].sum() / total if total else 0.0
        moved = routes.reached & _differ(routes.cables, whole.cables)
        load = cable_load(before, routes, rate)
        state = before if name == "whole" else after
        stages.append(
            _stage(name, state, load, float(lost), float(moved.mean()) if len(moved) else 0.0)
        )
    return tuple(stages)


def _differ(a: Ints, b: Ints) -> Bools:
    """[pairs] whether two paths differ; the shorter array lacks only empty places."""
    both = min(a.shape[1], b.shape[1])
    rest = (a if a.shape[1] > both else b)[:, both:]
    differ: Bools = (a[:, :both] != b[:, :both]).any(axis=1) | (rest >= 0).any(axis=1)
    return differ


def _replaced(routes: Routes, hit: Bools, other: Routes | None) -> Routes:
    """``routes`` with the hit pairs routed as in ``other``; None: not at all."""
    width = routes.cables.shape[1] if other is None else other.cables.shape[1]
    new = widened(routes, width)
    if other is None:
        new.cables[hit], new.reached[hit] = -1, False
        for values in (new.ups, new.ways, new.back, new.minimal):
            values[hit] = 0
        return new
    same = widened(other, new.cables.shape[1])
    for whole, part in (
        (new.cables, same.cables),
        (new.ups, same.ups),
        (new.ways, same.ways),
        (new.reached, same.reached),
        (new.back, same.back),
        (new.minimal, same.minimal),
    ):
        whole[hit] = part
    return new


def _stage(
    name: StageName, network: Network, load: Floats, cut: float, moved: float | None
) -> Stage:
    between = np.flatnonzero(network.live & (network.low < network.switches))
    worst, way = -1, 0
    if len(between):
        per_capacity = load[:, between] / network.weight[between]
        way, position = divmod(int(np.argmax(per_capacity)), len(between))
        worst = int(between[position])
    capacity = float(network.GBps[worst] * network.health[worst]) if worst >= 0 else np.nan
    GBps = float(load[way, worst]) if worst >= 0 else 0.0
    return Stage(
        name=name,
        cut=cut,
        moved=moved,
        worst_GBps=GBps,
        worst_cable=network.cable_name(worst) if worst >= 0 else "",
        worst_share=None if np.isnan(capacity) else GBps / capacity,
        seconds=_REROUTE_S if name == "rerouted" else None,
        seconds_source=_REROUTE_SOURCE if name == "rerouted" else "",
    )


def _losses(before: Network, after: Network, failed: Ints) -> tuple[CapacityLoss, ...]:
    """What every switch at a failed cable loses, the worst first."""
    found: list[CapacityLoss] = []
    level = failed[before.level[failed]]
    slanted = np.setdiff1d(failed, level)
    ways: tuple[tuple[Way, Ints], ...] = (
        ("up", before.low[slanted]),
        ("down", before.high[slanted]),
        ("level", np.concatenate((before.low[level], before.high[level]))),
    )
    for way, ends in ways:
        found += [
            _loss(before, after, switch, way, _cables_of(before, switch, way))
            for switch in np.unique(ends[ends < before.switches]).tolist()
        ]
    return tuple(sorted(found, key=lambda loss: loss.left))


def _cables_of(network: Network, switch: int, way: Way) -> Ints:
    if way == "level":
        mine = network.at(switch)
        return mine[network.level[mine]]
    start, cables = network.up if way == "up" else network.down
    return cables[start[switch] : start[switch + 1]]


def _loss(before: Network, after: Network, switch: int, way: Way, cables: Ints) -> CapacityLoss:
    def GBps(network: Network) -> float | None:
        known = (network.GBps * network.health)[cables]
        return None if np.isnan(known).any() else float(known.sum())

    whole = float(before.weight[cables].sum())
    return CapacityLoss(
        switch=before.nodes[switch],
        way=way,
        cables_before=int(before.live[cables].sum()),
        cables_after=int(after.live[cables].sum()),
        GBps_before=GBps(before),
        GBps_after=GBps(after),
        left=float(after.weight[cables].sum()) / whole if whole else 0.0,
    )
