"""Torch's own tensor and sequence parallelism: equal to the reference, all its calls in the ledger."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from clusterlab.trainers.plans import sp, tp
from clusterlab.trainers.plans.plan import counted

# Imported before the ranks are forked, for it takes seconds.
from clusterlab.trainers.strategies.library import dtensor
from tests.trainers.ranks import (
    assert_equal_to_reference,
    assert_ledger_is_plan,
    small,
    train,
)
from tests.trainers.test_tensor_and_sequence import split
from tests.trainers.witness import assert_nothing_escaped, watching

pytestmark = pytest.mark.ranks


@pytest.mark.parametrize("sequence", [None, "tp"])
@pytest.mark.parametrize(
    "changes",
    [{"tp": 2, "micro_batches": 2}, {"tp": 4, "layers": 2}, {"tp": 2, "experts": 4, "layers": 2}],
    ids=lambda changes: "-".join(f"{name}{value}" for name, value in changes.items()),
)
def test_equals_the_reference_and_makes_the_planned_calls_and_no_others(
    tmp_path: Path, sequence: str | None, changes: dict[str, Any]
) -> None:
    setup = split(sequence, library=True, **changes)
    ranks = train(setup, tmp_path, spoil=watching(tmp_path, 0))
    assert_equal_to_reference(ranks)
    assert_ledger_is_plan(
        ranks, lambda setup, rank: [*tp.calls(setup, rank), *sp.calls(setup, rank)]
    )
    assert_nothing_escaped(ranks, tmp_path, 0)


def test_every_call_has_an_end_and_a_wait(tmp_path: Path) -> None:
    ranks = train(split("tp", tp=2, layers=2, library=True), tmp_path)
    entries = [entry for own in ranks.entries for entry in own]
    assert entries
    for entry in entries:
        assert entry.waited_us is not None and entry.issued_us is not None
        assert 0 <= entry.start_us <= entry.issued_us <= entry.waited_us <= entry.end_us


def test_gradients_equal_those_of_the_explicit_form(tmp_path: Path) -> None:
    explicit = train(split("tp", tp=2, layers=2), tmp_path).trained
    library = train(split("tp", tp=2, layers=2, library=True), tmp_path).trained
    for name, gradient in explicit.gradients.items():
        torch.testing.assert_close(library.gradients[name], gradient, rtol=0, atol=1e-10)


def test_a_missing_sum_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dtensor.TorchTensorWays, "finish", lambda _ways, _parameters: None)
    with pytest.raises(AssertionError, match=r"gradient|parameter"):
        assert_equal_to_reference(train(split("tp", tp=2, layers=2, library=True), tmp_path))


@pytest.mark.parametrize("data_parallel", ["ddp", "fsdp"])
def test_beside_torchs_data_parallelism_the_explicit_form_runs(
    tmp_path: Path, data_parallel: str
) -> None:
    setup = small(tp=2, dp=2, layers=2, library=True, data_parallel=data_parallel)
    ranks = train(setup, tmp_path)
    assert_equal_to_reference(ranks)
    along_tp = Counter({key: n for key, n in ranks.calls(0, 0).items() if key[1] == "tp"})
    assert along_tp == counted(tp.calls(setup, 0))
