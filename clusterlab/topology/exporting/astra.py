"""A symmetric fabric as ASTRA-sim's analytical network: one dimension inside hosts, one per network tier.

Dimension 0 is what joins the GPUs of a host. Dimension 1 joins GPU i of the hosts under common leaves,
dimension 2 those groups over spines, 3 over cores; each is a Switch at a GPU's share of the capacity there.
ASTRA-sim pays a Switch's latency twice, so it is that of the way up. What the fabric does not know is written
``tbd``, which ASTRA-sim refuses until a number stands there.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from clusterlab.core.errors import UsageError
from clusterlab.formats.astra_sim import Dimension, Shape
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.network_groups import (
    Network,
    network_of,
    scale_up_domains,
)
from clusterlab.topology.parts import Link
from clusterlab.topology.routing.fluid import path_latency_us, route

T = TypeVar("T")
R = TypeVar("R")

_UP = frozenset({"nvlink", "xgmi", "c2c"})


def astra(fabric: Fabric) -> str:
    """The YAML of ASTRA-sim's analytical back ends: GB/s (1e9) per direction, latencies in ns.

    Raises UsageError naming what is not symmetric, for a fabric that dimensions cannot describe.
    """
    dimensions = dimensions_of(fabric)
    rows: dict[str, list[str]] = {
        "topology": [d.shape for d in dimensions],
        "npus_count": [str(d.count) for d in dimensions],
        "bandwidth": [_figure(d.GBps) for d in dimensions],
        "latency": [
            _figure(None if d.latency_us is None else d.latency_us * 1000) for d in dimensions
        ],
    }
    units = {"bandwidth": "  # GB/s, per direction", "latency": "  # ns"}
    lines = [f"# {fabric.name}: innermost dimension first"]
    if any("tbd" in row for row in rows.values()):
        lines.append("# tbd: the fabric does not know it; ASTRA-sim wants a number there")
    lines += [f"{key}: [ {', '.join(row)} ]{units.get(key, '')}" for key, row in rows.items()]
    return "\n".join(lines) + "\n"


def dimensions_of(fabric: Fabric) -> list[Dimension]:
    """The dimensions of a symmetric fabric, innermost first. Raises UsageError for any other."""
    hosts = [host for host in fabric.hosts if fabric.on_host(host, "gpu")]
    if not hosts:
        raise _asymmetric(fabric, "no host has a GPU")
    units = _units(fabric, hosts)
    _same(fabric, "scale-up domains in size", units, len)
    if len(units[0]) == 1:
        dimensions = [_same(fabric, "hosts", hosts, lambda host: _inside(fabric, host))]
    else:
        dimensions = _scale_up(fabric, units)
    gpus = math.prod(d.count for d in dimensions)
    if gpus == 1 and len(units) > 1:
        dimensions = []
    if len(units) > 1:
        dimensions += _between(fabric, units, gpus)
    return dimensions


def _units(fabric: Fabric, hosts: Sequence[str]) -> list[tuple[str, ...]]:
    """Hosts in scale-up domains; a host in none is one of its own."""
    domains = scale_up_domains(fabric)
    inside = {host for domain in domains for host in domain}
    return [*domains, *((host,) for host in hosts if host not in inside)]


def _scale_up(fabric: Fabric, units: Sequence[tuple[str, ...]]) -> list[Dimension]:
    """A domain of several hosts: one switch of all GPUs, or one of hosts above that of each host."""
    out: defaultdict[str, list[Link]] = defaultdict(list)
    for link in fabric.network_links:
        if link.link_class in _UP and link.health > 0 and fabric.host_of(link.src):
            out[link.src].append(link)
    hosts = [host for unit in units for host in unit]
    gpus = [d.name for host in hosts for d in fabric.on_host(host, "gpu")]
    if all(out[gpu] for gpu in gpus):
        counts = [sum(len(fabric.on_host(host, "gpu")) for host in unit) for unit in units]
        count = _same(fabric, "GPUs of domains", counts, lambda count: count)
        links = [out[gpu] for gpu in gpus]
        rate = _same(fabric, "GPUs", links, lambda found: (_total(found), _slowest(found)))
        return [Dimension("Switch", count, *rate)]
    inside = _same(fabric, "hosts", hosts, lambda host: _inside(fabric, host))
    leaving = [[x for d in fabric.on_host(host) for x in out[d.name]] for host in hosts]
    shares = [_share(links, inside.count) for links in leaving]
    share = _same(fabric, "rates out of hosts", shares, lambda rate: rate)
    latency_us = _way_up(fabric, hosts[0], leaving[0])
    return [inside, Dimension("Switch", len(units[0]), share, latency_us)]


def _figure(value: float | None) -> str:
    return "tbd" if value is None else f"{value:.12g}"


def _asymmetric(fabric: Fabric, what: str) -> UsageError:
    return UsageError(
        what,
        where=f"fabric {fabric.name}",
        expected="a symmetric fabric: ASTRA-sim describes equal dimensions only",
    )


def _same(fabric: Fabric, what: str, items: Sequence[T], of: Callable[[T], R]) -> R:
    """What is the same of all items. Raises UsageError when it is not."""
    first = of(items[0])
    for item in items[1:]:
        found = of(item)
        if found != first:
            raise _asymmetric(fabric, f"{what} differ: {_short(found)} and {_short(first)}")
    return first


def _short(value: object) -> str:
    if isinstance(value, Dimension):
        return f"{value.shape} of {value.count} at {_figure(value.GBps)} GB/s"
    return str(value)[:60]


def _inside(fabric: Fabric, host: str) -> Dimension:
    """How the GPUs of one host are joined."""
    gpus = [d.name for d in fabric.on_host(host, "gpu")]
    if len(gpus) == 1:
        return Dimension("Ring", 1, None, None)
    names = set(gpus)
    up: dict[str, list[Link]] = {
        gpu: [link for link in fabric.links_from(gpu) if link.link_class in _UP and link.health > 0]
        for gpu in gpus
    }
    peers = {gpu: [link for link in up[gpu] if link.dst in names] for gpu in gpus}
    if any(peers.values()):
        return _mesh(fabric, host, gpus, peers)
    switched = {
        gpu: [link for link in up[gpu] if fabric.device(link.dst).kind == "nvswitch"]
        for gpu in gpus
    }
    if not all(switched.values()):
        switched = {gpu: _to_common(fabric, gpus, gpu) for gpu in gpus}
    if not all(switched.values()):
        raise _asymmetric(fabric, f"the GPUs of {host} share no switch and no links")
    return _same(
        fabric,
        f"GPUs of {host}",
        gpus,
        lambda gpu: Dimension("Switch", len(gpus), _total(switched[gpu]), _slowest(switched[gpu])),
    )


def _to_common(fabric: Fabric, gpus: Sequence[str], gpu: str) -> list[Link]:
    """Links to the one PCIe switch, bridge or CPU that all GPUs of a host hang on."""
    common = set.intersection(*({link.dst for link in fabric.links_from(g)} for g in gpus))
    return [link for link in fabric.links_from(gpu) if link.dst in common and link.health > 0]


def _mesh(
    fabric: Fabric, host: str, gpus: Sequence[str], peers: dict[str, list[Link]]
) -> Dimension:
    """GPUs linked to each other: all of them (FullyConnected) or in one ring."""
    links = [link for found in peers.values() for link in found]
    rate = _same(
        fabric, f"GPU links of {host}", links, lambda link: (link.capacity_GBps, link.latency_us)
    )
    shape = _shape_of(gpus, {gpu: {link.dst for link in found} for gpu, found in peers.items()})
    if shape is None:
        raise _asymmetric(fabric, f"the GPUs of {host} are neither fully connected nor a ring")
    return Dimension(shape, len(gpus), *rate)


def _shape_of(names: Sequence[str], near: dict[str, set[str]]) -> Shape | None:
    count = len(names)
    degrees = Counter(len(near[name]) for name in names)
    if degrees == {count - 1: count} and count != 3:
        # Two NPUs are both; a ring says it with one link.
        return "Ring" if count == 2 else "FullyConnected"
    if degrees != {2: count} or not _one_cycle(names[0], near, count):
        return None
    return "Ring"


def _one_cycle(start: str, near: dict[str, set[str]], count: int) -> bool:
    before, here, length = "", start, 0
    while length == 0 or here != start:
        onward = sorted(near[here] - {before})
        before, here = here, onward[0]
        length += 1
        if length > count:
            return False
    return length == count


def _total(links: Iterable[Link]) -> float | None:
    rates = [link.capacity_GBps for link in links]
    return None if None in rates else round(sum(rate or 0.0 for rate in rates), 9)


def _slowest(links: Iterable[Link]) -> float | None:
    latencies = [link.latency_us for link in links]
    return (
        None if None in latencies else max((latency or 0.0 for latency in latencies), default=None)
    )


def _between(fabric: Fabric, units: Sequence[tuple[str, ...]], gpus: int) -> list[Dimension]:
    """The dimensions outside ``units`` of ``gpus`` each: GPUs linked across, or one per network tier."""
    hosts = [host for unit in units for host in unit]
    if len(units[0]) == 1 and any(fabric.device(x.src).kind == "gpu" for x in _across(fabric)):
        return [_direct(fabric, hosts)]
    network = network_of(fabric)
    if not network.tiers or set(network.loose) & set(hosts):
        raise _asymmetric(fabric, "some hosts hang on no network switch")
    dimensions = []
    counts = [_units_in(fabric, group.hosts, units) for group in network.tiers[0]]
    below = [count * gpus for count in counts]
    for level, tier in enumerate(network.tiers):
        if level:
            below = [sum(below[child] for child in group.below) for group in tier]
        arriving = _arriving(fabric, network, level)
        sizes = [len(group.below) for group in tier] if level else counts
        count = _same(fabric, f"groups of tier {level + 1} in size", sizes, lambda size: size)
        shares = [_share(links, npus) for links, npus in zip(arriving, below, strict=True)]
        share = _same(fabric, f"rates into tier {level + 1}", shares, lambda rate: rate)
        if count > 1:
            latency_us = _way_up(fabric, hosts[0], arriving[0])
            dimensions.append(Dimension("Switch", count, share, latency_us))
    if len(network.tiers[-1]) > 1:
        raise _asymmetric(fabric, f"nothing joins {len(network.tiers[-1])} groups of hosts")
    return dimensions


def _units_in(fabric: Fabric, hosts: Sequence[str], units: Sequence[tuple[str, ...]]) -> int:
    """How many units the hosts under common leaves are."""
    under = set(hosts)
    count = sum(unit[0] in under for unit in units)
    if count * len(units[0]) != len(under & {host for unit in units for host in unit}):
        raise _asymmetric(fabric, "a scale-up domain hangs on leaves of several groups")
    return count


def _across(fabric: Fabric) -> list[Link]:
    """Links between devices of two hosts."""
    return [
        link
        for link in fabric.network_links
        if link.health > 0 and fabric.host_of(link.src) and fabric.host_of(link.dst)
    ]


def _direct(fabric: Fabric, hosts: Sequence[str]) -> Dimension:
    """GPU i of every host linked to GPU i of others: all of them, or in a ring."""
    links = _across(fabric)
    rate = _same(
        fabric, "links between hosts", links, lambda link: (link.capacity_GBps, link.latency_us)
    )
    order = {d.name: i for host in hosts for i, d in enumerate(fabric.on_host(host, "gpu"))}
    near: defaultdict[int, dict[str, set[str]]] = defaultdict(
        lambda: {host: set() for host in hosts}
    )
    for link in links:
        number = order.get(link.src)
        if number is None or order.get(link.dst) != number:
            raise _asymmetric(fabric, f"{link.name} joins GPUs of different positions")
        near[number][fabric.host_of(link.src) or ""].add(fabric.host_of(link.dst) or "")
    shapes = [_shape_of(hosts, near[number]) for number in sorted(set(order.values()))]
    shape = _same(fabric, "positions of GPUs", shapes, lambda shape: shape)
    if shape is None:
        raise _asymmetric(fabric, "the hosts are neither fully connected nor in one ring")
    return Dimension(shape, len(hosts), *rate)


def _arriving(fabric: Fabric, network: Network, level: int) -> list[list[Link]]:
    """For each group of a tier, the links that come up into it."""
    tier = network.tiers[level]
    group_of = {name: i for i, group in enumerate(tier) for name in group.switches}
    under = (
        {name for group in network.tiers[level - 1] for name in group.switches} if level else None
    )
    found: list[list[Link]] = [[] for _ in tier]
    for link in fabric.network_links:
        group = group_of.get(link.dst)
        if group is None or link.health <= 0:
            continue
        from_below = link.src in under if under is not None else fabric.host_of(link.src)
        if from_below:
            found[group].append(link)
    return found


def _share(links: Iterable[Link], npus: int) -> float | None:
    total = _total(links)
    return None if total is None else round(total / npus, 9)


def _way_up(fabric: Fabric, host: str, links: Sequence[Link]) -> float | None:
    """The latency from a GPU of ``host`` to the switches that ``links`` lead to; None: not all known."""
    if any(link.latency_us is None for link in links):
        return None
    gpu = fabric.on_host(host, "gpu")[0].name
    crossings = route(fabric, gpu, links[0].dst)
    if any(c.link.latency_us is None for c in crossings):
        return None
    return path_latency_us(crossings)
