"""Mistakes in data parallelism that a loss curve hides: each fails the comparison with one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from clusterlab.trainers import build, step
from clusterlab.trainers.axis import Axis, Pending
from clusterlab.trainers.config import DATA_PARALLEL, Setup
from clusterlab.trainers.mesh import Place
from clusterlab.trainers.plans import dp
from clusterlab.trainers.plans.plan import counted
from clusterlab.trainers.step import OnRank, samples_of
from clusterlab.trainers.strategies.flat import Flat
from tests.trainers.ranks import assert_equal_to_reference, small, train

pytestmark = pytest.mark.ranks

SEEN = r"(loss of step|gradient \S+ of|gradient \S+:|parameter \S+ of|parameter \S+:|losses of)"
"""What the comparison says; a rank that breaks down says something else."""

every_kind = pytest.mark.parametrize("kind", DATA_PARALLEL)


def setup_of(kind: str) -> Setup:
    return small(dp=2, layers=2, micro_batches=2, steps=2, data_parallel=kind, bucket_bytes=12000)


def assert_seen(setup: Setup, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=SEEN):
        assert_equal_to_reference(train(setup, tmp_path))


@every_kind
def test_an_average_instead_of_a_sum(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    summed = Flat.gradients
    monkeypatch.setattr(Flat, "gradients", lambda flat: summed(flat) / flat.axis.size)
    assert_seen(setup_of(kind), tmp_path)


@every_kind
def test_one_bucket_that_is_never_summed(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_reduce, reduce_scatter = Axis.start_all_reduce, Axis.start_reduce_scatter
    calls = {"all_reduce": 0, "reduce_scatter": 0}

    def first(op: str) -> bool:
        calls[op] += 1
        return calls[op] == 1

    def no_all_reduce(axis: Axis, tensor: torch.Tensor) -> Pending:
        return Pending(lambda: None) if first("all_reduce") else all_reduce(axis, tensor)

    def no_scatter(axis: Axis, part: torch.Tensor, whole: torch.Tensor) -> Pending:
        if not first("reduce_scatter"):
            return reduce_scatter(axis, part, whole)
        part.copy_(whole.chunk(axis.size)[axis.index])
        return Pending(lambda: None)

    monkeypatch.setattr(Axis, "start_all_reduce", no_all_reduce)
    monkeypatch.setattr(Axis, "start_reduce_scatter", no_scatter)
    assert_seen(setup_of(kind), tmp_path)


@every_kind
def test_a_rank_whose_micro_batches_are_shifted(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shifted(setup: Setup, place: Place, micro_batch: int) -> range:
        return samples_of(setup, place, micro_batch + place.dp)

    monkeypatch.setattr(step, "samples_of", shifted)
    assert_seen(setup_of(kind), tmp_path)


@pytest.mark.parametrize("kind", ["zero1", "zero2"])
def test_shares_that_nobody_gathers(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gather = Axis.start_all_gather

    def not_there(axis: Axis, whole: torch.Tensor, part: torch.Tensor) -> Pending:
        held = axis.ledger._phase != "optimizer"
        return gather(axis, whole, part) if held else Pending(lambda: None)

    monkeypatch.setattr(Axis, "start_all_gather", not_there)
    assert_seen(setup_of(kind), tmp_path)


@every_kind
@pytest.mark.parametrize("told", [True, False], ids=["told", "not told"])
def test_ranks_that_begin_apart_are_told_the_first_ones_values(
    tmp_path: Path, kind: str, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    alike = build.own_values

    def apart(own: OnRank) -> dict[str, torch.Tensor]:
        return {name: value + 0.01 * own.place.dp for name, value in alike(own).items()}

    monkeypatch.setattr(build, "own_values", apart)
    if not told:

        def silent(*_arguments: Any) -> None:
            return None

        monkeypatch.setattr(Axis, "broadcast", silent)
        assert_seen(setup_of(kind), tmp_path)
        return
    done = train(setup_of(kind), tmp_path)
    assert_equal_to_reference(done)
    for rank in (0, 1):
        assert done.calls(rank, -1) == counted(dp.start_calls(done.setup, rank))
