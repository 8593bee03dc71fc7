"""The bound of every shipped design, and what limits the well-known ones."""

from __future__ import annotations

import math

import pytest

from clusterlab.core.collectives import SWEPT
from clusterlab.cost.bound import bound_limits, lower_bound
from clusterlab.topology.design.load import list_designs, load_fabric
from clusterlab.topology.fabric import Fabric

GIB = 1 << 30


def gpus(fabric: Fabric) -> tuple[str, ...]:
    return tuple(d.name for d in fabric.of_kind("gpu"))


@pytest.mark.parametrize("design", list_designs())
def test_every_design_bounds_every_collective_and_says_by_what(design: str) -> None:
    fabric = load_fabric(design)
    ends = gpus(fabric)
    inside_unknown = design.startswith("lab-")  # its hosts' own links have no rates
    for n in {2, 3, len(ends)}:
        if not 2 <= n <= len(ends) or (inside_unknown and n < len(ends)):
            continue
        for collective in SWEPT:
            bound = lower_bound(fabric, ends[:n], collective, GIB)
            assert 0 < bound.time_us < math.inf
            assert "links" in bound.limited_by
            assert bound.limited_by.endswith(" GB/s")


def test_without_nvls_a_gpu_sends_twice_what_with_it_it_does() -> None:
    with_it, without = load_fabric("hgx-h100"), load_fabric("hgx-a100")
    assert lower_bound(with_it, gpus(with_it), "all_reduce", GIB).time_us == pytest.approx(
        GIB / 513e3
    )
    assert lower_bound(without, gpus(without), "all_reduce", GIB).time_us == pytest.approx(
        2 * 7 / 8 * GIB / 331.5e3
    )


def test_nvls_inside_hosts_and_no_sharp_between_them_leaves_a_host_to_send_nearly_twice() -> None:
    fabric = load_fabric("superpod-h100-1su")
    for hosts in (4, 31):
        bound = lower_bound(fabric, gpus(fabric)[: 8 * hosts], "all_reduce", GIB)
        assert bound.time_us == pytest.approx(2 * (hosts - 1) / hosts * GIB / 400e3)
        assert bound.limited_by.startswith(f"all links out of the {hosts} hosts, ")


def test_a_taper_shows_where_it_is() -> None:
    fabric = load_fabric("meta-roce-24k")
    bound = lower_bound(fabric, gpus(fabric), "all_to_all", GIB)
    assert bound.limited_by == "links out of the spine group of n0 (3072 ranks), 22400 GB/s"
    assert bound.time_us == pytest.approx(GIB * 3072 * (24576 - 3072) / 24576 / 22400e3)


def test_an_nvlink_domain_over_several_hosts_bounds_them_together() -> None:
    fabric = load_fabric("superpod-gb200")
    bound = lower_bound(fabric, gpus(fabric), "all_to_all", GIB)
    assert bound.limited_by == "links out of the NVLink domain of n0 (72 ranks), 3600 GB/s"


def test_ranks_on_some_gpus_of_a_host_may_use_all_its_nics() -> None:
    fabric = load_fabric("dgx-h100-2node")
    ends = ["n0/gpu0", "n0/gpu1", "n1/gpu0", "n1/gpu1"]
    assert lower_bound(fabric, ends, "all_to_all", GIB).time_us == pytest.approx(
        max(GIB * 2 * 2 / 4 / 400e3, GIB * 3 / 4 / 513e3)
    )


def test_a_sweep_asks_once_and_scales() -> None:
    fabric = load_fabric("dgx-h100-2node")
    ends = gpus(fabric)
    limits = bound_limits(fabric, ends, "all_gather")
    assert bound_limits(fabric, list(ends), "all_gather") is limits
    assert limits.at(2 * GIB).time_us == pytest.approx(2 * limits.at(GIB).time_us)


def test_a_socket_constant_of_software_limits_nothing() -> None:
    """NCCL reckons with 22 GB/s between sockets; hardware may carry more."""
    fabric = load_fabric("hgx-h100")
    bound = lower_bound(fabric, ["n0/gpu0", "n0/gpu7"], "send_recv", GIB)
    assert bound.limited_by == "links out of n0/gpu0, 513 GB/s"
