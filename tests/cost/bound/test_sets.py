"""Hosts that look alike counted once give what all ranks counted one by one give."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clusterlab.cost.bound.sets import Partition, Ranks, Run
from clusterlab.cost.bound.skeleton import skeleton
from clusterlab.topology.fabric import Fabric
from tests.cost.fabrics import load_fabric

DESIGNS = ["dgx-h100-2node", "rail-only", "superpod-h100-1su", "superpod-gb200", "nvlink-pod-256"]
FABRICS = {design: load_fabric(design) for design in DESIGNS}


def degraded(fabric: Fabric, nic: str) -> Fabric:
    """One NIC's first cable at half its rate: its host is like no other."""
    from dataclasses import replace

    first = fabric.single_links_from(nic)[0]
    return fabric.with_links({(first.src, first.dst): [replace(first, health=0.5)]})


def one_by_one(ranks: Ranks) -> Ranks:
    """The same ranks, no host standing for another."""
    plain = Ranks(ranks.fabric, ranks.skeleton, ranks.devices)
    plain.__dict__["_alike"] = [(Run(None, 0, len(ranks.devices)),)]
    return plain


def looks(partition: Partition) -> object:
    """What the bound makes use of, whatever the order of the sides; ``first_rank`` names an example."""

    def look(at: int) -> tuple[int, int, float, float]:
        side = partition.sides[at][0]
        return side.ranks, side.hand_offs, side.out_GBps, side.into_GBps

    counts = Counter({look(at): count for at, (_, count) in enumerate(partition.sides)})
    return partition.level, counts, [look(at) for at in partition.side_of], partition.closed


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(design=st.sampled_from(DESIGNS), data=st.data())
def test_alike_hosts_stand_for_each_other(design: str, data: st.DataObject) -> None:
    fabric = FABRICS[design]
    gpus = [d.name for d in fabric.of_kind("gpu")]
    some = data.draw(st.lists(st.integers(0, len(gpus) - 1), min_size=2, max_size=40, unique=True))
    order = data.draw(st.sampled_from(["as drawn", "by host", "whole hosts"]))
    if order != "as drawn":
        some = sorted(some)
    if order == "whole hosts":
        hosts = dict.fromkeys(fabric.host_of(gpus[at]) for at in some)
        devices = tuple(d.name for h in hosts for d in fabric.on_host(h or "", "gpu"))
    else:
        devices = tuple(gpus[at] for at in some)
    ranks = Ranks(fabric, skeleton(fabric), devices)
    mine, plain = list(ranks.partitions()), list(one_by_one(ranks).partitions())
    assert [looks(p) for p in mine] == [looks(p) for p in plain]
    for partition in mine:
        for at, (side, _) in enumerate(partition.sides):
            assert partition.side_of[side.first_rank] == at


@pytest.mark.parametrize("design", ["rail-only", "superpod-h100-1su"])
def test_a_host_with_another_port_is_counted_apart(design: str) -> None:
    fabric = degraded(FABRICS[design], "n3/nic0")
    devices = tuple(d.name for d in fabric.of_kind("gpu"))
    ranks = Ranks(fabric, skeleton(fabric), devices)
    hosts = next(p for p in ranks.partitions() if p.level == "host")
    assert sorted(count for _, count in hosts.sides) == [1, len(fabric.hosts) - 1]
    assert [looks(p) for p in ranks.partitions()] == [
        looks(p) for p in one_by_one(ranks).partitions()
    ]
