"""gloo's all_to_all played out: what it may take, and what it takes where that can be told by hand."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.cost.gloo.exchange import Path, calls_us_per_byte
from clusterlab.cost.gloo.exchange_time import exchange_us
from clusterlab.cost.gloo.ways import gloo_ways
from clusterlab.topology.opening import open_fabric

Paths = dict[tuple[int, int], Path]


def star(host_of: list[int]) -> Paths:
    """Ranks on hosts with a NIC each way (ports 2h out, 2h + 1 in) around one switch."""
    return {
        (a, b): () if host_of[a] == host_of[b] else (2 * host_of[a], 2 * host_of[b] + 1)
        for a, b in itertools.permutations(range(len(host_of)), 2)
    }


def busiest_us(paths: Paths, GBps: list[float]) -> float:
    """What the fullest port takes for a byte of each message."""
    return (
        max(sum(port in path for path in paths.values()) / rate for port, rate in enumerate(GBps))
        / 1e3
    )


@pytest.mark.parametrize("pieces", [1, 4, 16])
def test_of_two_ranks_the_second_answers_when_it_has_the_first_ones_message(pieces: int) -> None:
    """Measured on lab-flat-4x2, 8 MiB: 332 ms, where 4 MiB each way at once would take 171."""
    found = calls_us_per_byte([[0, 1]], star([0, 1]), [1.0] * 4, pieces, 2)
    assert found == pytest.approx(2 * busiest_us(star([0, 1]), [1.0] * 4), rel=0.05)


@st.composite
def networks(draw: st.DrawFn) -> tuple[Paths, list[float], int]:
    hosts = draw(st.integers(2, 4))
    per_host = draw(st.integers(1, 2))
    host_of = [rank // per_host for rank in range(hosts * per_host)]
    GBps = draw(st.lists(st.floats(0.1, 10.0), min_size=2 * hosts, max_size=2 * hosts))
    return star(host_of), GBps, len(host_of)


@settings(max_examples=25, deadline=None)
@given(networks(), st.integers(1, 4))
def test_it_takes_no_less_than_the_fullest_port_and_no_more_than_one_message_at_a_time(
    network: tuple[Paths, list[float], int], pieces: int
) -> None:
    paths, GBps, n = network
    found = calls_us_per_byte([list(range(n))], paths, GBps, pieces, 1)
    alone = sum(max(1e-3 / GBps[port] for port in path) for path in paths.values() if path)
    # The first and the last call counted need not be as late as each other.
    assert busiest_us(paths, GBps) * 0.9 <= found <= alone * 1.1


@settings(max_examples=10, deadline=None)
@given(networks(), st.floats(0.1, 10.0))
def test_times_fall_as_rates_rise(network: tuple[Paths, list[float], int], factor: float) -> None:
    paths, GBps, n = network
    ranks = [list(range(n))]
    slow = calls_us_per_byte(ranks, paths, GBps, 2, 1)
    fast = calls_us_per_byte(ranks, paths, [rate * factor for rate in GBps], 2, 1)
    assert slow == pytest.approx(fast * factor, rel=1e-6)


def test_groups_on_networks_of_their_own_do_not_notice_each_other() -> None:
    paths = star([0, 1, 2])
    other = {(a + 3, b + 3): tuple(port + 6 for port in path) for (a, b), path in paths.items()}
    alone = calls_us_per_byte([[0, 1, 2]], paths, [1.0] * 6, 4, 8)
    both = calls_us_per_byte([[0, 1, 2], [3, 4, 5]], paths | other, [1.0] * 12, 4, 8)
    assert both == pytest.approx(alone, rel=0.15)  # they begin in other orders


def test_groups_on_the_same_nics_share_them() -> None:
    paths = star([0, 1, 2])
    other = {(a + 3, b + 3): path for (a, b), path in paths.items()}
    alone = calls_us_per_byte([[0, 1, 2]], paths, [1.0] * 6, 4, 4)
    both = calls_us_per_byte([[0, 1, 2], [3, 4, 5]], paths | other, [1.0] * 6, 4, 4)
    assert both > 1.3 * alone
    assert both >= 0.9 * busiest_us(paths | other, [1.0] * 6)


def test_within_one_host_nothing_is_played_out() -> None:
    assert calls_us_per_byte([[0, 1, 2]], star([0, 0, 0]), [], 4, 1) == 0
    fabric = open_fabric("lab-rails-4x2")
    devices = ("n0/gpu0", "n0/gpu1")
    ways = gloo_ways(fabric, list(itertools.permutations(devices, 2)), "pinned")
    assert exchange_us(fabric, [devices], ways, 1 << 20, "pinned") == 0
    assert exchange_us(fabric, [("n0/gpu0",)], {}, 1 << 20, "pinned") == 0


def test_a_call_takes_longer_the_more_is_sent() -> None:
    fabric = open_fabric("lab-2to1-4x2")
    devices = tuple(f"n{node}/gpu{i}" for node in range(4) for i in range(2))
    ways = gloo_ways(fabric, list(itertools.permutations(devices, 2)), "pinned")
    times = [exchange_us(fabric, [devices], ways, 1 << k, "pinned") for k in range(12, 26)]
    assert all(math.isfinite(t) and t > 0 for t in times)
    assert all(1.5 < b / a < 2.5 for a, b in itertools.pairwise(times))
