"""Every algorithm run on small n: the data arrives, and the schedule counts what really moved."""

import math
from collections import Counter
from collections.abc import Callable, Iterable

import pytest

from clusterlab.cost.schedules import binomial, chain, direct, double_binary_tree, ring
from clusterlab.cost.schedules.rounds import Round
from clusterlab.cost.schedules.schedule import Phase, Schedule
from clusterlab.cost.schedules.trees import binary_tree, double_tree, tree_edges

RANKS = [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 33, 72]
S = 5040.0  # divides by many

Holding = dict[tuple[int, int], Counter[int]]
"""(rank, block) to whose contributions are summed there."""


def execute(steps: Iterable[Round], holding: Holding) -> list[Round]:
    """Run the rounds; what a round sends is what was there before it began."""
    done = []
    for transfers in steps:
        arriving = [(t, holding[t.src, t.block].copy()) for t in transfers]
        for t, data in arriving:
            if t.reduces:
                holding[t.dst, t.block] = holding.get((t.dst, t.block), Counter()) + data
            else:
                holding[t.dst, t.block] = data
        done.append(transfers)
    return done


def everyone(n: int) -> Counter[int]:
    return Counter(range(n))


def contributions(n: int, blocks: int) -> Holding:
    return {(r, b): Counter([r]) for r in range(n) for b in range(blocks)}


def assert_counts(schedule: Schedule, done: list[Round], block_bytes: float) -> None:
    """Rounds, sends, reductions and bytes of every rank as the schedule says."""
    n = schedule.world_size
    assert schedule.steps == len(done)
    assert schedule.sends == sum(len(r) for r in done)
    assert schedule.sent_bytes == pytest.approx(schedule.sends * block_bytes)
    reduced = sum(t.reduces for r in done for t in r)
    assert schedule.reduced_bytes == pytest.approx(reduced * block_bytes)
    sent = Counter(t.src for r in done for t in r)
    for rank in range(n):
        expected = sum(
            phase.sends / len(phase.flows) * f.size_bytes
            for phase in schedule.phases
            for f in phase.flows
            if f.src == rank
        )
        assert expected == pytest.approx(sent[rank] * block_bytes)


@pytest.mark.parametrize("n", RANKS)
def test_ring_all_reduce(n: int) -> None:
    holding = contributions(n, n)
    done = execute(ring.ring_all_reduce_rounds(n), holding)
    assert all(held == everyone(n) for held in holding.values())
    schedule = ring.ring_all_reduce(n, S)
    assert_counts(schedule, done, S / n)
    assert schedule.steps == 2 * (n - 1)
    assert schedule.sent_bytes / n == pytest.approx(2 * S * (n - 1) / n)


@pytest.mark.parametrize("n", RANKS)
def test_ring_reduce_scatter_leaves_block_r_with_rank_r(n: int) -> None:
    holding = contributions(n, n)
    done = execute(ring.ring_reduce_scatter_rounds(n), holding)
    assert all(holding[r, r] == everyone(n) for r in range(n))
    assert_counts(ring.ring_reduce_scatter(n, S), done, S / n)


@pytest.mark.parametrize("n", RANKS)
def test_ring_all_gather(n: int) -> None:
    holding: Holding = {(r, r): Counter([r]) for r in range(n)}
    done = execute(ring.ring_all_gather_rounds(n), holding)
    assert all(holding[r, b] == Counter([b]) for r in range(n) for b in range(n))
    assert_counts(ring.ring_all_gather(n, S), done, S / n)


@pytest.mark.parametrize("n", RANKS)
def test_direct_all_to_all(n: int) -> None:
    holding: Holding = {(r, r * n + d): Counter([r]) for r in range(n) for d in range(n)}
    done = execute(direct.direct_all_to_all_rounds(n), holding)
    assert all(holding[d, r * n + d] == Counter([r]) for r in range(n) for d in range(n))
    assert_counts(direct.direct_all_to_all(n, S), done, S / n)


@pytest.mark.parametrize("n", RANKS)
@pytest.mark.parametrize("root", [0, 1])
def test_binomial_broadcast(n: int, root: int) -> None:
    root %= n
    holding: Holding = {(root, 0): Counter([root])}
    done = execute(binomial.binomial_broadcast_rounds(n, root), holding)
    assert all(holding[r, 0] == Counter([root]) for r in range(n))
    schedule = binomial.binomial_broadcast(n, S, root=root)
    assert_counts(schedule, done, S)
    assert schedule.steps == math.ceil(math.log2(n))


@pytest.mark.parametrize("n", RANKS)
@pytest.mark.parametrize("root", [0, 2])
def test_ring_reduce_with_gather(n: int, root: int) -> None:
    root %= n
    holding = contributions(n, n)
    done = execute(ring.ring_reduce_gather_rounds(n, root), holding)
    assert all(holding[root, b] == everyone(n) for b in range(n))
    assert_counts(ring.ring_reduce_gather(n, S, root=root), done, S / n)


@pytest.mark.parametrize("n", RANKS)
@pytest.mark.parametrize("chunks", [1, 3])
def test_pipelined_chains(n: int, chunks: int) -> None:
    root = 1 % n
    holding: Holding = {(root, b): Counter([root]) for b in range(chunks)}
    done = execute(chain.chain_broadcast_rounds(n, root, chunks), holding)
    assert all(holding[r, b] == Counter([root]) for r in range(n) for b in range(chunks))
    schedule = chain.chain_broadcast(n, S, chunks=chunks, root=root)
    assert_counts(schedule, done, S / chunks)
    assert schedule.steps == (n - 2 + chunks if n > 1 else 0)

    holding = contributions(n, chunks)
    done = execute(chain.chain_reduce_rounds(n, root, chunks), holding)
    assert all(holding[root, b] == everyone(n) for b in range(chunks))
    assert_counts(chain.chain_reduce(n, S, chunks=chunks, root=root), done, S / chunks)


@pytest.mark.parametrize("n", RANKS)
@pytest.mark.parametrize("chunks", [1, 2, 5])
def test_double_binary_tree(n: int, chunks: int) -> None:
    holding = contributions(n, 2 * chunks)
    done = execute(double_binary_tree.double_binary_tree_all_reduce_rounds(n, chunks), holding)
    assert all(held == everyone(n) for held in holding.values())
    schedule = double_binary_tree.double_binary_tree_all_reduce(n, S, chunks=chunks)
    assert_counts(schedule, done, S / (2 * chunks))
    sent = Counter(t.src for r in done for t in r)
    assert all(count * S / (2 * chunks) <= 2 * S for count in sent.values())


@pytest.mark.parametrize("n", RANKS)
def test_ring_shift(n: int) -> None:
    holding: Holding = {(r, r): Counter([r]) for r in range(n)}
    done = execute(direct.ring_shift_rounds(n), holding)
    if n > 1:
        assert all(holding[r, (r - 1) % n] for r in range(n))
    assert_counts(direct.ring_shift(n, S), done, S)


def test_a_schedule_that_forgets_a_step_is_caught() -> None:
    def one_short(n: int) -> list[Round]:
        return list(ring.ring_all_reduce_rounds(n))[:-1]

    holding = contributions(4, 4)
    done = execute(one_short(4), holding)
    assert not all(held == everyone(4) for held in holding.values())
    with pytest.raises(AssertionError):
        assert_counts(ring.ring_all_reduce(4, S), done, S / 4)


@pytest.mark.parametrize("n", range(2, 73))
def test_both_trees_are_trees_of_logarithmic_depth(n: int) -> None:
    inner = []
    for tree in double_tree(n):
        assert sum(p is None for p in tree.parents) == 1
        assert tree.depth <= math.ceil(math.log2(n))
        children = Counter(p for p, _ in tree_edges(tree))
        assert max(children.values()) <= 2
        inner.append(set(children))
    # nobody is an inner node of both, but for one rank when n is odd
    assert len(inner[0] & inner[1]) <= n % 2 + (n == 3)


def test_the_first_tree_is_the_one_nccl_draws() -> None:
    """The picture above ncclGetBtree in src/graph/trees.cc, 14 ranks."""
    parents = [None, 2, 4, 2, 8, 6, 4, 6, 0, 10, 12, 10, 8, 12]
    assert list(binary_tree(14).parents) == parents


@pytest.mark.parametrize(
    ("build", "chunks"),
    [(ring.ring_all_reduce, 4), (ring.ring_all_gather, 2)],
)
def test_cutting_a_ring_into_chunks_changes_messages_not_bytes(
    build: Callable[..., Schedule], chunks: int
) -> None:
    whole, cut = build(6, S), build(6, S, chunks=chunks)
    assert cut.sends == chunks * whole.sends
    assert cut.sent_bytes == pytest.approx(whole.sent_bytes)
    assert cut.reduced_bytes == pytest.approx(whole.reduced_bytes)


def test_the_best_number_of_chunks_is_best() -> None:
    def time_us(chunks: int) -> float:
        return (16 - 2 + chunks) * (5.0 + S * 1000 / chunks / (10 * 1e3))

    best = chain.best_chunks(16, S * 1000, step_us=5.0, GBps=10.0)
    assert time_us(best) <= min(time_us(best - 1), time_us(best + 1))
    assert chain.best_chunks(2, S, step_us=5.0, GBps=10.0) == 1


def test_a_phase_without_flows_sends_nothing() -> None:
    assert Phase("nothing", (), 3).sent_bytes == 0.0
