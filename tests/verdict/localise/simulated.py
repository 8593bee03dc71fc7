"""Measurements of a damaged fabric: its flows on its cables, not what the inference thinks of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from clusterlab.cost.flows.crossing import Routing
from clusterlab.cost.flows.rates import carried
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.failures.breaking import break_fabric
from clusterlab.topology.place import place_on
from clusterlab.topology.routing.fluid_load import fluid_load
from clusterlab.topology.routing.load import cable_load
from clusterlab.topology.routing.network import Network, network_of
from clusterlab.topology.routing.policy import policy_named
from clusterlab.topology.routing.updown import route_pairs
from clusterlab.verdict.localise.cabling import Field, field_of
from clusterlab.verdict.localise.types import Probe, Round, Seen

DRAWS = 64
"""Packets that stand for a flow that spreads."""


def whole_field(fabric: Fabric, routing: Routing = "pinned", *, one_way: bool = False) -> Field:
    """All of its GPUs, a rank each."""
    return field_of(fabric, place_on(fabric, len(fabric.of_kind("gpu"))), routing, one_way=one_way)


def damaged(fabric: Fabric, broken: Sequence[str]) -> Fabric:
    return break_fabric(fabric, broken) if broken else fabric


def simulated(
    field: Field,
    broken: Sequence[str],
    *,
    noise: float,
    seed: int,
    cores: dict[str, float] | None = None,
) -> Callable[[Round], list[Seen]]:
    """What rounds of messages get on ``field``'s fabric with ``broken`` in the words of `topo break`, each
    with a normal relative ``noise``. ``cores``: the share of a host's that is free.
    """
    network = network_of(damaged(field.fabric, broken))
    draw = np.random.default_rng(seed)

    def measure(probes: Round) -> list[Seen]:
        rates = message_GBps(field, network, [p for p in probes if len(p.ranks) == 2])
        of_messages = iter(rates * np.exp(draw.normal(0.0, noise, len(rates))))
        return [
            Seen(float(next(of_messages))) if len(p.ranks) == 2 else _of_host(field, p, cores or {})
            for p in probes
        ]

    return measure


def _of_host(field: Field, probe: Probe, cores: dict[str, float]) -> Seen:
    return Seen(cores.get(field.hosts[int(field.host[probe.ranks[0]])], 1.0), 1.0)


def message_GBps(field: Field, network: Network, probes: Sequence[Probe]) -> np.ndarray:
    """GB/s of messages that all run at once; 0 where no way leads."""
    a = np.array([field.nodes[p.ranks[0]] for p in probes], dtype=np.int32)
    b = np.array([field.nodes[p.ranks[1]] for p in probes], dtype=np.int32)
    both = np.flatnonzero([p.way == "send_recv" for p in probes])
    number = np.concatenate([np.arange(len(probes)), both])
    src, dst = np.concatenate([a, b[both]]), np.concatenate([b, a[both]])
    draws = 1 if field.routing == "pinned" else DRAWS
    routes = route_pairs(
        network,
        np.repeat(src, draws),
        np.repeat(dst, draws),
        policy_named(field.routing),
        labels=None if draws == 1 else np.tile(np.arange(draws), len(src)),
    )
    if field.routing == "adaptive":
        load = fluid_load(network, src, dst, 1.0).load.ravel()
    else:
        load = cable_load(network, routes, np.full(len(src) * draws, 1 / draws)).ravel()
    capacity = np.tile(carried(network), 2)
    full = np.divide(load, capacity, out=np.full(len(load), np.inf), where=capacity > 0)
    at = routes.cables + len(network.low) * routes.back
    worst = np.where(routes.cables >= 0, full[np.where(routes.cables >= 0, at, 0)], 0.0).max(axis=1)
    worst[~routes.reached] = np.inf
    found = np.zeros(len(probes))
    np.maximum.at(found, np.repeat(number, draws), worst)
    return 1 / found
