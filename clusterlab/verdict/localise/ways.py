"""The ways that probes take over a fabric, how full they make them, and what each should get. Pure.

All probes of a round run at once. Every flow has a rate of its own end points' cables in mind; what a cable
is asked for over what it carries says how full it is, and a probe gets its share of the fullest on its way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clusterlab.core.errors import UsageError
from clusterlab.cost.flows.ends import ends_of
from clusterlab.cost.flows.patterns import host_pairs
from clusterlab.cost.flows.rates import carried
from clusterlab.topology.routing.fluid_load import fluid_load
from clusterlab.topology.routing.load import cable_load
from clusterlab.topology.routing.network import Network
from clusterlab.topology.routing.policy import policy_named
from clusterlab.topology.routing.updown import Routes, route_pairs
from clusterlab.verdict.localise.cabling import NONE, Field
from clusterlab.verdict.localise.crossed import DOWN, NEITHER, UP, Incidence
from clusterlab.verdict.localise.types import PORT_FULL, Floats, Longs, Probe

_DRAWS = 64
"""Packets, or hashes, drawn for each flow that has a choice: their counts are its shares."""


@dataclass(frozen=True, eq=False)
class Flows:
    """One way from node ``src`` to node ``dst`` each, ``amount`` of what its probe moves each way."""

    probe: Longs
    src: Longs
    dst: Longs
    amount: Floats


@dataclass(frozen=True, eq=False)
class Ways:
    """``incidence`` of a round; ``GBps`` [probes] each should get (nan: not known), and ``crowd`` [probes]
    how many times fuller its fullest cable is than its own bytes alone make it. ``part`` is the share of the
    probe's bytes on each cable of ``incidence``, which stand first in it.
    """

    incidence: Incidence
    GBps: Floats
    crowd: Floats
    part: Floats


def ways(field: Field, probes: Sequence[Probe], *, alone: bool = False) -> Ways:
    """Of probes that run at once. ``alone``: each as if there were no others, every cable full by it."""
    flows = flows_of(field, probes)
    network = field.network
    draws = 1 if field.routing == "pinned" else _DRAWS
    routes = _routes(field, flows, draws)
    lost = np.zeros(len(probes), dtype=bool)
    lost[flows.probe[~routes.reached[::draws]]] = True
    rate = np.repeat(flows.amount / draws, draws)
    resource, flow, weight = _steps(network, routes, rate)
    probe = np.repeat(flows.probe, draws)[flow]
    capacity = np.tile(carried(network), 2)
    if (
        field.routing == "adaptive" and not alone
    ):  # the shares themselves, not those of the packets drawn
        load = fluid_load(network, flows.src, flows.dst, flows.amount).load.ravel()
    else:
        load = cable_load(network, routes, rate).ravel()
    key, which = np.unique(probe * field.resources + resource, return_inverse=True)
    mine_probe, mine_at = key // field.resources, key % field.resources
    own_load = np.bincount(which, weights=weight, minlength=len(key)).astype(np.float64)
    share = part = own_load / _most(flows.probe, flows.amount, len(probes))[mine_probe]
    if field.routing == "adaptive":
        share = _of_choice(network, mine_probe, mine_at, own_load, share)
    with np.errstate(divide="ignore", invalid="ignore"):
        fullness = np.where(capacity[mine_at] > 0, load[mine_at] / capacity[mine_at], np.nan)
        alone_full = np.where(capacity[mine_at] > 0, own_load / capacity[mine_at], np.nan)
    top = _most(mine_probe, fullness, len(probes))
    top_alone = _most(mine_probe, alone_full, len(probes))
    relative = (
        np.ones(len(mine_at)) if alone else np.nan_to_num(fullness / top[mine_probe], nan=1.0)
    )
    incidence = Incidence(
        probe=mine_probe,
        resource=mine_at,
        full=np.clip(relative, 1e-3, 1.0),
        share=np.minimum(1.0, share),
        side=np.where(mine_at < field.cables, UP, DOWN),
        probes=len(probes),
        chance=field.routing == "hash",
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        wanted = np.where(lost, 0.0, 1 / (top_alone if alone else top))
        crowd = np.where(top_alone > 0, top / top_alone, 1.0)
    wanted[~np.isfinite(wanted)] = np.nan
    return Ways(_with_ends(field, probes, incidence), wanted, crowd, part)


def flows_of(field: Field, probes: Sequence[Probe]) -> Flows:
    """What goes over the network; probes within a host send nothing there."""
    probe: list[int] = []
    src: list[int] = []
    dst: list[int] = []
    amount: list[float] = []
    for i, one in enumerate(probes):
        if one.way == "ring":
            for a, b, part in _ring(field, one.ranks):
                probe.append(i)
                src.append(a)
                dst.append(b)
                amount.append(part)
        elif one.way in ("send", "send_recv"):
            a, b = (int(field.nodes[r]) for r in one.ranks)
            if field.host[one.ranks[0]] == field.host[one.ranks[1]] or NONE in (a, b):
                continue
            for x, y in ((a, b), (b, a))[: 1 if one.way == "send" else 2]:
                probe.append(i)
                src.append(x)
                dst.append(y)
                amount.append(1.0)
    return Flows(
        np.array(probe, dtype=np.int64),
        np.array(src, dtype=np.int64),
        np.array(dst, dtype=np.int64),
        np.array(amount, dtype=np.float64),
    )


def _ring(field: Field, ranks: Sequence[int]) -> list[tuple[int, int, float]]:
    """A ring over the hosts of a group, on each lane: (from, to, part of what a host sends)."""
    try:
        ends = ends_of(field.fabric, field.network, [field.devices[r] for r in ranks])
    except UsageError:
        return []
    if len(ends.hosts) < 2:
        return []
    pairs = host_pairs("ring", len(ends.hosts))
    found = []
    for a, b in zip(pairs.src.tolist(), pairs.dst.tolist(), strict=True):
        lanes = [
            (int(x), int(y))
            for x, y in zip(ends.nics[a], ends.nics[b], strict=True)
            if NONE not in (int(x), int(y))
        ]
        found += [(x, y, 1 / len(lanes)) for x, y in lanes]
    return found


def _routes(field: Field, flows: Flows, draws: int) -> Routes:
    return route_pairs(
        field.network,
        np.repeat(flows.src, draws).astype(np.int32),
        np.repeat(flows.dst, draws).astype(np.int32),
        policy_named(field.routing),
        labels=None if draws == 1 else np.tile(np.arange(draws), len(flows.src)),
    )


def _steps(network: Network, routes: Routes, rate: Floats) -> tuple[Longs, Longs, Floats]:
    """(resource, flow, amount) of every cable on every way."""
    flow, place = np.nonzero(routes.cables >= 0)
    cable = routes.cables[flow, place].astype(np.int64)
    resource = cable + len(network.low) * routes.back[flow, place]
    return resource, flow.astype(np.int64), rate[flow]


def _of_choice(network: Network, probe: Longs, at: Longs, load: Floats, share: Floats) -> Floats:
    """Where switches spread packets: upward among all equal ways, but a switch that sends down to another has
    only the cables between the two: what came to it must go there, and shares those alone.
    """
    cables = len(network.low)
    down = at >= cables
    ends = network.low.astype(np.int64) * len(network.nodes) + network.high
    bundle = np.unique(ends, return_inverse=True)[1].ravel()[at % cables]
    key = np.unique(probe * (bundle.max(initial=0) + 1) + bundle, return_inverse=True)[1]
    group = np.where(down, key.ravel() + 1, 0)
    total = np.bincount(group, weights=load)
    return np.where(down, load / np.maximum(total[group], 1e-12), share)


def _most(probe: Longs, value: Floats, probes: int) -> Floats:
    """[probes] the largest value of each; nan where it has none that is known."""
    found = np.full(probes, -1.0)
    known = ~np.isnan(value)
    np.maximum.at(found, probe[known], value[known])
    return np.where(found > 0, found, np.nan)


def _with_ends(field: Field, probes: Sequence[Probe], cables: Incidence) -> Incidence:
    """And the ranks that take part, and the hosts whose cores were looked at."""
    probe: list[int] = []
    resource: list[int] = []
    full: list[float] = []
    for i, one in enumerate(probes):
        if one.way in ("host", "clock"):
            host = int(field.host[one.ranks[0]])
            probe.append(i)
            resource.append(field.cores_of(host) if one.way == "host" else field.clock_of(host))
        elif one.way == "port":
            node = one.ranks[1]
            own = field.network.up[1][field.network.up[0][node] : field.network.up[0][node + 1]]
            probe += [i] * len(own)
            resource += own.tolist()
        else:
            probe += [i] * len(one.ranks)
            resource += [field.rank(r) for r in one.ranks]
        full += [PORT_FULL if one.way == "port" else 1.0] * (len(probe) - len(full))
    more = len(probe)
    return Incidence(
        probe=np.concatenate([cables.probe, np.array(probe, dtype=np.int64)]),
        resource=np.concatenate([cables.resource, np.array(resource, dtype=np.int64)]),
        full=np.concatenate([cables.full, np.array(full)]),
        share=np.concatenate([cables.share, np.ones(more)]),
        side=np.concatenate([cables.side, np.full(more, NEITHER)]),
        probes=cables.probes,
        chance=cables.chance,
    )
