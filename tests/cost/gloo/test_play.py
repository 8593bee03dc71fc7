"""gloo's calls played out: what they may take, and what they take where that can be told by hand."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.cost.gloo.play import RECEIVE, SEND, WAIT, Path, Program, Wires, us_per_call
from clusterlab.cost.gloo.programs import (
    PLAYED,
    all_to_all,
    broadcast,
    gather,
    reduce,
    scatter,
    send_recv,
)
from clusterlab.cost.gloo.schedule import gloo_schedule
from clusterlab.cost.predict import predict
from clusterlab.topology.failures.breaking import break_fabric
from clusterlab.topology.opening import open_fabric
from tests.cost.examples import request

Paths = dict[tuple[int, int], Path]
names = st.sampled_from(sorted(PLAYED))


def star(host_of: list[int]) -> Paths:
    """Ranks on hosts with a NIC each way (ports 2h out, 2h + 1 in) around one switch."""
    return {
        (a, b): () if host_of[a] == host_of[b] else (2 * host_of[a], 2 * host_of[b] + 1)
        for a, b in itertools.permutations(range(len(host_of)), 2)
    }


def numbered(programs: list[Program]) -> dict[int, Program]:
    return dict(enumerate(programs))


def pieces_of(programs: dict[int, Program]) -> Counter[tuple[int, int]]:
    """By pair of ranks, in a call."""
    sent: Counter[tuple[int, int]] = Counter()
    for rank, program in programs.items():
        for kind, peer, pieces in program:
            if kind == SEND:
                sent[rank, peer] += pieces
    return sent


def busiest_us(programs: dict[int, Program], paths: Paths, GBps: list[float]) -> float:
    """What the fullest port takes for all pieces of a call, of a byte each."""
    load = [0.0] * len(GBps)
    for pair, pieces in pieces_of(programs).items():
        for port in paths[pair]:
            load[port] += pieces
    return max(each / rate for each, rate in zip(load, GBps, strict=True)) / 1e3


@pytest.mark.parametrize("pieces", [1, 4, 16])
def test_of_two_ranks_the_second_answers_when_it_has_the_first_ones_message(pieces: int) -> None:
    """Measured on lab-flat-4x2, 8 MiB: 332 ms, where 4 MiB each way at once would take 171."""
    found = us_per_call(numbered(all_to_all(2, pieces)), Wires(star([0, 1]), [1.0] * 4, 99), 2)
    assert found == pytest.approx(2 * pieces / 1e3, rel=0.35 if pieces == 1 else 0.1)


def test_a_chain_of_messages_takes_one_after_the_other() -> None:
    """Rank 0 sends to 1, which sends to 2, which sends to 0; each waits for its own."""
    programs: dict[int, Program] = {
        0: ((SEND, 1, 8), (RECEIVE, 2, 0), (WAIT, 0, 0)),
        1: ((RECEIVE, 0, 0), (WAIT, 0, 0), (SEND, 2, 8), (WAIT, 0, 0)),
        2: ((RECEIVE, 1, 0), (WAIT, 0, 0), (SEND, 0, 8), (WAIT, 0, 0)),
    }
    found = us_per_call(programs, Wires(star([0, 1, 2]), [1.0] * 6, 99), 2)
    assert found == pytest.approx(3 * 8 / 1e3, rel=0.1)


def ring(n: int, messages: int, pieces: int) -> list[Program]:
    """As gloo/allgather.cc: two messages under way to rank + 1."""
    post = ((SEND, 1, pieces), (RECEIVE, -1, 0))
    steps = [*post * 2, *((WAIT, 1, 1), *post) * (messages - 2), (WAIT, 0, 0)]
    return [
        tuple((k, a if k == WAIT else (rank + a) % n, b) for k, a, b in steps) for rank in range(n)
    ]


@pytest.mark.parametrize("host_of", [[0, 1, 2, 3], [0, 0, 1, 1, 2, 2]])
@pytest.mark.parametrize("slow", [1.0, 0.5])
def test_a_ring_played_out_takes_what_its_steps_take(host_of: list[int], slow: float) -> None:
    """Rings are predicted in closed form: bytes over the slowest link."""
    n, messages, pieces = len(host_of), 12, 8
    GBps = [slow, *[1.0] * (2 * max(host_of) + 1)]
    found = us_per_call(numbered(ring(n, messages, pieces)), Wires(star(host_of), GBps, 99), 2)
    assert found == pytest.approx(messages * pieces / slow / 1e3, rel=0.05)


@st.composite
def networks(draw: st.DrawFn) -> tuple[Paths, list[float], int]:
    hosts = draw(st.integers(2, 4))
    per_host = draw(st.integers(1, 2))
    host_of = [rank // per_host for rank in range(hosts * per_host)]
    GBps = draw(st.lists(st.floats(0.1, 10.0), min_size=2 * hosts, max_size=2 * hosts))
    return star(host_of), GBps, len(host_of)


@settings(max_examples=40, deadline=None)
@given(networks(), names, st.integers(1, 4), st.integers(2, 3), st.data())
def test_a_call_takes_no_less_than_the_fullest_port_and_no_more_than_one_piece_at_a_time(
    network: tuple[Paths, list[float], int],
    name: str,
    pieces: int,
    segments: int,
    data: st.DataObject,
) -> None:
    paths, GBps, n = network
    programs = numbered(PLAYED[name](n, segments, pieces, data.draw(st.integers(0, n - 1))))
    found = us_per_call(programs, Wires(paths, GBps, data.draw(st.integers(2, 99))), 1)
    alone = sum(
        pieces / min(GBps[port] for port in paths[pair]) / 1e3
        for pair, pieces in pieces_of(programs).items()
        if paths[pair]
    )
    # The first and the last call counted need not be as late as each other.
    assert busiest_us(programs, paths, GBps) * 0.85 <= found <= alone * 1.1 + 1e-3 / min(GBps)


@settings(max_examples=10, deadline=None)
@given(networks(), names, st.floats(0.1, 10.0))
def test_times_fall_as_rates_rise(
    network: tuple[Paths, list[float], int], name: str, factor: float
) -> None:
    paths, GBps, n = network
    programs = numbered(PLAYED[name](n, 2, 2, 0))
    slow = us_per_call(programs, Wires(paths, GBps, 99), 1)
    fast = us_per_call(programs, Wires(paths, [rate * factor for rate in GBps], 99), 1)
    assert slow == pytest.approx(fast * factor, rel=1e-6)


@pytest.mark.parametrize("n", [2, 3, 5, 8])
@pytest.mark.parametrize("root", [0, 1])
def test_programs_send_what_the_schedule_says(n: int, root: int) -> None:
    """Bytes by pair of ranks, and every message has its receive."""
    for name, programs, whole in (
        ("all_to_all", all_to_all(n, 1), n),
        ("gather", gather(n, 1, root), n),
        ("scatter", scatter(n, 1, root), n),
        ("broadcast", broadcast(n, 1, root), 1),
        ("reduce", reduce(n, 2, 1, root), 2 * n),
        ("send_recv", send_recv(n, 1), 1),
    ):
        expected: defaultdict[tuple[int, int], float] = defaultdict(float)
        for phase in gloo_schedule(name, n, whole, root=root).phases:
            for flow in phase.flows:
                expected[flow.src, flow.dst] += flow.size_bytes * phase.sends / len(phase.flows)
        assert pieces_of(numbered(programs)) == pytest.approx(dict(expected)), name
        posts = Counter(
            (rank, peer, kind)
            for rank, program in enumerate(programs)
            for kind, peer, _ in program
            if kind != WAIT
        )
        for (rank, peer, kind), count in posts.items():
            assert posts[peer, rank, RECEIVE if kind == SEND else SEND] == count, name


def test_groups_on_networks_of_their_own_do_not_notice_each_other() -> None:
    paths = star([0, 1, 2])
    other = {(a + 3, b + 3): tuple(port + 6 for port in path) for (a, b), path in paths.items()}
    one = numbered(all_to_all(3, 4))
    two = {
        rank + 3: tuple((k, a if k == WAIT else a + 3, b) for k, a, b in program)
        for rank, program in one.items()
    }
    alone = us_per_call(one, Wires(paths, [1.0] * 6, 99), 8)
    both = us_per_call(one | two, Wires(paths | other, [1.0] * 12, 99), 8)
    assert both == pytest.approx(alone, rel=0.15)  # they begin in other orders
    shared = {(a + 3, b + 3): path for (a, b), path in paths.items()}
    assert us_per_call(one | two, Wires(paths | shared, [1.0] * 6, 99), 8) > 1.3 * alone


def test_within_one_host_nothing_is_played_out() -> None:
    assert us_per_call(numbered(all_to_all(3, 4)), Wires(star([0, 0, 0]), [], 99), 1) == 0


@pytest.mark.parametrize(("shared", "expected"), [(True, 1.14), (False, 1.02)])
def test_a_word_waits_behind_the_bytes_that_leave_by_the_same_nic(
    shared: bool, expected: float
) -> None:
    """Measured with 1 MiB on lab-flat-4x2, whose two ranks of a host share a NIC: 19.5 to 22.4 MB/s of 24.5;
    on lab-rails-4x2, where one of them sends bytes out and the other words: 24.8 to 25.1.
    """
    n, pieces = 8, 16
    paths = star([rank // 2 for rank in range(n)])
    if not shared:
        paths = {(a, b): (2 * a, 2 * b + 1) if path else () for (a, b), path in paths.items()}
    found = us_per_call(numbered(send_recv(n, pieces)), Wires(paths, [1.0] * 2 * n, 99), 2)
    assert found * 1e3 / pieces == pytest.approx(expected, abs=0.03)


@pytest.mark.parametrize("name", sorted(PLAYED))
def test_predictions_grow_with_the_size_and_say_who_waits(name: str) -> None:
    fabric = open_fabric("lab-2to1-4x2")
    found = [predict(request(fabric, 8, name, 1 << k, routing="pinned")) for k in range(12, 26)]
    assert all(1.4 < b.time_us / a.time_us < 2.6 for a, b in itertools.pairwise(found))
    assert all(p.time_us >= p.bound.time_us for p in found)
    busy = found[-1].bottleneck.utilisation
    assert any("wait for each other" in note for note in found[-1].notes) == (busy < 0.95)


@pytest.mark.parametrize("name", sorted(PLAYED))
def test_a_slower_network_is_never_predicted_much_faster(name: str) -> None:
    whole = open_fabric("lab-rails-4x2")
    for broken in ("leaf0/spine0:half", "leaf0/spine0", "n1/nic0:half", "n1/nic0"):
        slow = break_fabric(whole, [broken])
        times = [
            predict(request(fabric, 8, name, 8 << 20, routing="pinned")).time_us
            for fabric in (whole, slow)
        ]
        assert times[1] > 0.95 * times[0], broken
