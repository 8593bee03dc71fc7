"""Tensor and sequence parallelism in one mesh with data, pipeline and expert parallelism."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusterlab.trainers.config import DATA_PARALLEL, Setup
from clusterlab.trainers.plans import dp, pp, sp, tp
from clusterlab.trainers.plans.plan import PlannedCall
from clusterlab.trainers.strategies.sp import PositionWays
from tests.trainers.ranks import assert_equal_to_reference, assert_ledger_is_plan, train
from tests.trainers.test_tensor_and_sequence import KINDS, nothing_is_summed, split

pytestmark = pytest.mark.ranks

SHORT = {"layers": 4, "steps": 3, "bucket_bytes": 4000}


def planned(setup: Setup, rank: int) -> Iterator[PlannedCall]:
    for part in (tp, sp, pp, dp):
        yield from part.calls(setup, rank)


@pytest.mark.parametrize("data_parallel", DATA_PARALLEL)
@pytest.mark.parametrize("sequence", KINDS)
def test_with_data_parallelism(tmp_path: Path, sequence: str | None, data_parallel: str) -> None:
    setup = split(sequence, **SHORT, dp=2, tp=2, micro_batches=2, data_parallel=data_parallel)
    ranks = train(setup, tmp_path)
    assert_equal_to_reference(ranks)
    assert_ledger_is_plan(ranks, planned)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zero_bubble"])
@pytest.mark.parametrize("sequence", KINDS)
def test_with_a_pipeline(tmp_path: Path, sequence: str | None, schedule: str) -> None:
    setup = split(sequence, **SHORT, tp=2, pp=2, micro_batches=3, schedule=schedule)
    ranks = train(setup, tmp_path)
    assert_equal_to_reference(ranks)
    assert_ledger_is_plan(ranks, planned)


@pytest.mark.parametrize(
    ("sequence", "changes"),
    [
        (None, {"data_parallel": "fsdp"}),
        ("tp", {"data_parallel": "zero1"}),
        ("tp", {"schedule": "interleaved", "chunks": 2}),
        ("ulysses", {"schedule": "zero_bubble"}),
    ],
    ids=str,
)
def test_in_three_dimensions(tmp_path: Path, sequence: str | None, changes: dict[str, Any]) -> None:
    setup = split(sequence, **SHORT, dp=2, tp=2, pp=2, micro_batches=2, **changes)
    ranks = train(setup, tmp_path)
    assert_equal_to_reference(ranks)
    assert_ledger_is_plan(ranks, planned)


@pytest.mark.parametrize("sequence", KINDS)
def test_with_experts_over_ranks(tmp_path: Path, sequence: str | None) -> None:
    setup = split(sequence, **SHORT, dp=2, ep=2, tp=2, experts=4, micro_batches=2)
    assert_equal_to_reference(train(setup, tmp_path))


def test_a_missing_sum_along_tp_is_seen_beside_data_parallelism(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PositionWays, "finish", nothing_is_summed)
    with pytest.raises(AssertionError, match=r"gradient"):
        assert_equal_to_reference(train(split("tp", **SHORT, dp=2, tp=2), tmp_path))
