"""The helper itself: one rank equals the reference, and a difference is seen."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from clusterlab.trainers.step import Trainer
from tests.trainers.ranks import assert_equal_to_reference, assert_ledger_is_plan, small, train

pytestmark = pytest.mark.ranks


@pytest.mark.parametrize("experts", [0, 4])
@pytest.mark.parametrize("micro_batches", [1, 3])
def test_one_rank_is_the_reference_and_makes_no_calls(
    tmp_path: Path, experts: int, micro_batches: int
) -> None:
    ranks = train(small(experts=experts, micro_batches=micro_batches), tmp_path)
    assert_equal_to_reference(ranks)
    assert_ledger_is_plan(ranks, lambda _setup, _rank: ())


def test_a_parameter_that_differs_a_little_is_seen(tmp_path: Path) -> None:
    def spoil(_rank: int, trainer: Trainer) -> None:
        with torch.no_grad():
            trainer.parameters["blocks.1.qkv.weight"][0, 0, 0] += 1e-6

    ranks = train(small(), tmp_path, spoil=spoil)
    with pytest.raises(AssertionError, match="loss of step 0"):
        assert_equal_to_reference(ranks)
