"""What tensor and sequence parallelism send, by closed forms."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import pytest

from clusterlab.trainers.config import MeshConfig, ModelConfig, Setup, TrainConfig, check
from clusterlab.trainers.plans import sp, tp
from clusterlab.trainers.plans.plan import PlannedCall

MODEL = ModelConfig(layers=12, hidden=1024, heads=16, ffn=4096, vocab=50_000, sequence=2048)
X_BYTES = 2 * 2048 * 1024 * 2
"""x_BSH of two sequences in bfloat16."""


def setup_of(tensor: int, sequence: str | None, **changes: Any) -> Setup:
    mesh = MeshConfig(tp=tensor, sequence=sequence, **changes)
    train = TrainConfig(batch=8 * mesh.dp, micro_batches=4, dtype="bfloat16")
    return check(Setup(MODEL, mesh, train))


def counts(calls: tuple[PlannedCall, ...]) -> dict[tuple[str, str, int], int]:
    found: Counter[tuple[str, str, int]] = Counter()
    for call in calls:
        found[call.phase, call.op, call.size_bytes] += call.count
    return dict(found)


def test_tensor_parallelism_sums_x_twice_a_block_each_way() -> None:
    setup = setup_of(8, None)
    each = 2 * 12 * 4  # pairs of matrices, blocks, micro-batches
    assert counts(tp.calls(setup, 3)) == {
        ("forward", "all_reduce", X_BYTES): each,
        ("backward", "all_reduce", X_BYTES): each,
    }
    assert sp.calls(setup, 3) == ()


def test_sequence_parallelism_gathers_and_scatters_instead_and_once_around_the_blocks() -> None:
    setup = setup_of(8, "tp")
    each = 2 * 12 * 4
    H = MODEL.hidden
    assert counts(sp.calls(setup, 3)) == {
        ("forward", "all_gather", X_BYTES): each + 4,  # and before the head
        ("forward", "reduce_scatter", X_BYTES): each,
        ("backward", "all_gather", X_BYTES): each + 4,  # and of the embedding's gradient
        ("backward", "reduce_scatter", X_BYTES): each,
        # Two norms and two rows' biases a block, the last norm.
        ("reduce", "all_reduce", (12 * 6 + 2) * H * 2): 1,
    }
    assert tp.calls(setup, 3) == ()


def test_ulysses_trades_a_ranks_positions_four_times_a_block_each_way() -> None:
    setup = setup_of(8, "ulysses")
    found = counts(sp.calls(setup, 3))
    each = 4 * 12 * 4
    assert found["forward", "all_to_all", X_BYTES // 8] == each
    assert found["backward", "all_to_all", X_BYTES // 8] == each
    H, F = MODEL.hidden, MODEL.ffn
    block = 4 * H + 3 * H * H + 3 * H + H * H + H + F * H + F + H * F + H
    summed = {key: n for key, n in found.items() if key[0] == "reduce"}
    assert sum(size * n for (_, _, size), n in summed.items()) == (12 * block + 2 * H) * 2


ON_THE_WIRE = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}
"""Times (T − 1)/T of the bytes: what a rank sends."""


@pytest.mark.parametrize("tensor", [2, 4, 8, 16])
def test_in_the_blocks_sequence_parallelism_sends_as_much_as_tensor_parallelism(
    tensor: int,
) -> None:
    def sent(calls: tuple[PlannedCall, ...]) -> Fraction:
        inside = [call for call in calls if call.count > 4]
        share = Fraction(tensor - 1, tensor)
        return sum((ON_THE_WIRE[c.op] * c.count * c.size_bytes * share for c in inside), Fraction())

    beside = sent(sp.calls(setup_of(tensor, "tp"), 0))
    assert beside == sent(tp.calls(setup_of(tensor, None), 0)) > 0


@pytest.mark.parametrize("sequence", [None, "tp", "ulysses"])
def test_one_rank_sends_nothing(sequence: str | None) -> None:
    setup = setup_of(1, sequence)
    assert tp.calls(setup, 0) == sp.calls(setup, 0) == ()


@pytest.mark.parametrize("sequence", [None, "tp", "ulysses"])
def test_stages_share_the_calls_of_one_rank_out(sequence: str | None) -> None:
    """Over all stages the same calls as without a pipeline; only sums in fewer pieces are others."""
    alone, mesh = setup_of(2, sequence), MeshConfig(tp=2, sequence=sequence, pp=4)
    staged = check(Setup(alone.model, mesh, alone.train))

    def calls(setup: Setup, rank: int) -> tuple[PlannedCall, ...]:
        return tp.calls(setup, rank) + sp.calls(setup, rank)

    def total(found: Counter[str], of: tuple[PlannedCall, ...]) -> Counter[str]:
        for call in of:
            found[f"{call.phase} {call.op}"] += call.count * call.size_bytes
        return found

    together: Counter[str] = Counter()
    for rank in range(0, staged.mesh.world_size, 2):
        total(together, calls(staged, rank))
    assert together == total(Counter(), calls(alone, 0))


def test_groups_are_those_of_the_mesh() -> None:
    setup = setup_of(4, "tp", dp=2)
    assert {call.ranks for call in sp.calls(setup, 6)} == {(4, 5, 6, 7)}
