"""Over random small fabrics: no schedule beats the bound, and it moves only one way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clusterlab.core.collectives import SWEPT
from clusterlab.core.errors import UsageError
from clusterlab.core.uneven import parts
from clusterlab.cost.bound import lower_bound
from clusterlab.cost.schedules.binomial import binomial_broadcast
from clusterlab.cost.schedules.chain import chain_broadcast, chain_reduce
from clusterlab.cost.schedules.direct import (
    direct_all_to_all,
    direct_all_to_all_v,
    direct_gather,
    direct_scatter,
    ring_shift,
)
from clusterlab.cost.schedules.double_binary_tree import double_binary_tree_all_reduce
from clusterlab.cost.schedules.ring import (
    ring_all_gather,
    ring_all_reduce,
    ring_reduce_gather,
    ring_reduce_scatter,
)
from clusterlab.cost.schedules.schedule import Schedule, step_load
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Device, Link
from clusterlab.topology.routing.fluid import route

S = 1e8
EXACT = 1 + 1e-9
rates = st.floats(0.5, 500)
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

SCHEDULES: dict[str, list[Callable[[int], Schedule]]] = {
    "all_reduce": [
        lambda n: ring_all_reduce(n, S),
        lambda n: ring_all_reduce(n, S, chunks=3),
        lambda n: double_binary_tree_all_reduce(n, S, chunks=5),
    ],
    "reduce_scatter": [lambda n: ring_reduce_scatter(n, S)],
    "all_gather": [lambda n: ring_all_gather(n, S)],
    "all_to_all": [lambda n: direct_all_to_all(n, S)],
    "all_to_all_v": [lambda n: direct_all_to_all(n, S)],
    "gather": [lambda n: direct_gather(n, S)],
    "scatter": [lambda n: direct_scatter(n, S)],
    "broadcast": [lambda n: binomial_broadcast(n, S), lambda n: chain_broadcast(n, S, chunks=7)],
    "reduce": [lambda n: chain_reduce(n, S, chunks=7), lambda n: ring_reduce_gather(n, S)],
    "send_recv": [lambda n: ring_shift(n, S)],
}


def both(draw: st.DrawFn, a: str, b: str, kind: str) -> list[Link]:
    """A connection whose ways may differ in rate, of a latency that may be unknown."""
    latency = draw(st.one_of(st.none(), st.floats(0, 20)))
    return [
        Link(x, y, kind, draw(rates), latency)  # type: ignore[arg-type]
        for x, y in ((a, b), (b, a))
    ]


@st.composite
def clusters(draw: st.DrawFn) -> Fabric:
    """Hosts of 1 to 3 GPUs on an NVSwitch, a mesh or PCIe only; NICs on leaves, leaves on a spine."""
    devices: list[Device] = [Device("spine0", "spine")]
    links: list[Link] = []
    leaves = draw(st.integers(1, 2))
    for leaf in range(leaves):
        devices.append(Device(f"leaf{leaf}", "leaf"))
        links += both(draw, f"leaf{leaf}", "spine0", "ib")
    for h in range(draw(st.integers(2, 3))):
        host, count = f"h{h}", draw(st.integers(1, 3))
        gpus = [f"{host}/gpu{g}" for g in range(count)]
        devices += [Device(g, "gpu", host=host) for g in gpus]
        devices += [
            Device(f"{host}/cpu0", "cpu", host=host),
            Device(f"{host}/nic0", "nic", host=host),
        ]
        inside = draw(st.sampled_from(["switch", "mesh", "none"]))
        if inside == "switch":
            devices.append(Device(f"{host}/nvs", "nvswitch", host=host))
        for g in gpus:
            links += both(draw, g, f"{host}/cpu0", "pcie")
            if inside == "switch":
                links += both(draw, g, f"{host}/nvs", "nvlink")
        if inside == "mesh":
            pairs = [(a, b) for i, a in enumerate(gpus) for b in gpus[i + 1 :]]
            links += [link for a, b in pairs for link in both(draw, a, b, "nvlink")]
        links += both(draw, f"{host}/cpu0", f"{host}/nic0", "pcie")
        links += both(draw, f"{host}/nic0", f"leaf{draw(st.integers(0, leaves - 1))}", "ib")
    return Fabric("random", tuple(devices), tuple(links))


def gpus(fabric: Fabric) -> list[str]:
    return [d.name for d in fabric.of_kind("gpu")]


@st.composite
def groups(draw: st.DrawFn) -> tuple[Fabric, list[str]]:
    """A cluster and some of its GPUs, in any order."""
    fabric = draw(clusters())
    order = draw(st.permutations(gpus(fabric)))
    return fabric, list(order[: draw(st.integers(2, len(order)))])


def time_us(fabric: Fabric, ends: list[str], schedule: Schedule) -> float:
    """The schedule on the fabric's links, step after step."""
    total = 0.0
    for phase in schedule.phases:
        load = step_load(phase, lambda a, b: route(fabric, ends[a], ends[b]))
        total += phase.steps * (load.latency_us + load.time_us)
    return total


def bound_us(fabric: Fabric, ends: list[str], collective: str, size: float = S) -> float:
    return lower_bound(fabric, ends, collective, size).time_us


shapes = st.one_of(
    st.just("linear"),
    st.integers(0, 10).map(lambda f: f"hot:{f / 10:g}"),
    st.integers(0, 99).map(lambda s: f"random:{s}"),
    st.just("matrix:" + "/".join(9 * ["1 0 7 2 0 3 0 0 5"])),
)


@quick
@given(group=groups(), uneven=shapes, size=st.integers(1, 10**9))
def test_nor_where_parts_differ(group: tuple[Fabric, list[str]], uneven: str, size: int) -> None:
    fabric, ends = group
    schedule = direct_all_to_all_v(parts(uneven, len(ends), size), size)
    bound = lower_bound(fabric, ends, "all_to_all_v", size, uneven=uneven).time_us
    # The bound is of exact shares; each of the parts that are sent may be a byte less than its share.
    slowest_GBps = min(link.GBps for link in fabric.links if link.GBps)
    rounding_us = len(ends) ** 2 / slowest_GBps / 1e3
    assert bound <= time_us(fabric, ends, schedule) * EXACT + rounding_us


@quick
@given(group=groups())
def test_equal_parts_by_a_matrix_are_bounded_by_what_leaves_devices_and_hosts(
    group: tuple[Fabric, list[str]],
) -> None:
    fabric, ends = group
    even = "matrix:" + "/".join(len(ends) * [" ".join("1" * len(ends))])
    found = lower_bound(fabric, ends, "all_to_all_v", S, uneven=even)
    assert 0 < found.time_us <= bound_us(fabric, ends, "all_to_all_v") * EXACT
    out = min(
        sum(link.GBps or 0 for link in fabric.links if link.src == end) for end in ends
    )  # a device's own links: what it has for the others must leave by them
    least = S * (len(ends) - 1) / len(ends) / out / 1e3
    assert found.time_us >= least * (1 - 1e-6)


@pytest.mark.parametrize("collective", sorted(SWEPT))
@quick
@given(group=groups())
def test_no_schedule_beats_the_bound(collective: str, group: tuple[Fabric, list[str]]) -> None:
    fabric, ends = group
    bound = bound_us(fabric, ends, collective)
    for schedule in SCHEDULES[collective]:
        assert bound <= time_us(fabric, ends, schedule(len(ends))) * EXACT


@quick
@given(group=groups(), collective=st.sampled_from(sorted(SWEPT)), data=st.data())
def test_more_bytes_never_take_less(
    group: tuple[Fabric, list[str]], collective: str, data: st.DataObject
) -> None:
    fabric, ends = group
    small, large = sorted(data.draw(st.tuples(st.floats(1, 1e10), st.floats(1, 1e10))))
    assert bound_us(fabric, ends, collective, small) <= bound_us(fabric, ends, collective, large)


@quick
@given(
    group=groups(),
    collective=st.sampled_from(sorted(SWEPT)),
    factor=st.floats(1, 10),
    data=st.data(),
)
def test_a_faster_link_never_raises_it(
    group: tuple[Fabric, list[str]], collective: str, factor: float, data: st.DataObject
) -> None:
    fabric, ends = group
    at = data.draw(st.integers(0, len(fabric.links) - 1))
    links = list(fabric.links)
    links[at] = replace(links[at], GBps=(links[at].GBps or 1) * factor)
    faster = replace(fabric, links=tuple(links))
    assert bound_us(faster, ends, collective) <= bound_us(fabric, ends, collective) * EXACT


@quick
@given(group=groups(), collective=st.sampled_from(sorted(SWEPT)), data=st.data())
def test_damage_never_lowers_it(
    group: tuple[Fabric, list[str]], collective: str, data: st.DataObject
) -> None:
    fabric, ends = group
    gone = data.draw(st.sets(st.integers(0, len(fabric.links) - 1), max_size=4))
    left = tuple(link for i, link in enumerate(fabric.links) if i not in gone)
    try:
        damaged = bound_us(replace(fabric, links=left), ends, collective)
    except UsageError as cut_off:
        assert "no path" in str(cut_off)
        return
    assert damaged >= bound_us(fabric, ends, collective) / EXACT


@quick
@given(group=groups(), data=st.data())
def test_the_order_of_the_ranks_does_not_matter(
    group: tuple[Fabric, list[str]], data: st.DataObject
) -> None:
    fabric, ends = group
    other = data.draw(st.permutations(ends))
    for collective in ("all_reduce", "reduce_scatter", "all_gather", "all_to_all"):
        assert bound_us(fabric, ends, collective) == pytest.approx(
            bound_us(fabric, list(other), collective)
        )


@quick
@given(group=groups(), collective=st.sampled_from(sorted(SWEPT)))
def test_other_names_do_not_matter(group: tuple[Fabric, list[str]], collective: str) -> None:
    fabric, ends = group
    new = {d.name: f"x{i}" for i, d in enumerate(reversed(fabric.devices))}
    hosts = {d.host: f"y{i}" if d.host else None for i, d in enumerate(fabric.devices)}
    renamed = Fabric(
        "renamed",
        tuple(replace(d, name=new[d.name], host=hosts[d.host]) for d in fabric.devices),
        tuple(replace(k, src=new[k.src], dst=new[k.dst]) for k in fabric.links),
    )
    assert bound_us(renamed, [new[e] for e in ends], collective) == pytest.approx(
        bound_us(fabric, ends, collective)
    )
