"""Torch's own tensor and sequence parallelism: equal to the reference, with the explicit form's calls."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from clusterlab.trainers.plans import sp, tp
from clusterlab.trainers.plans.plan import counted
from clusterlab.trainers.step import Trainer

# Imported before the ranks are forked, for it takes seconds.
from clusterlab.trainers.strategies.library import dtensor
from tests.trainers.ranks import assert_equal_to_reference, small, train
from tests.trainers.test_tensor_and_sequence import split

pytestmark = pytest.mark.ranks

OPS = {
    "all_reduce": "all_reduce",
    "all_gather_into_tensor": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
}
"""DTensor's calls and ours."""


class Calls(TorchDispatchMode):
    """Counts (operation, bytes) of DTensor's collectives, in the ledger's convention."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[tuple[str, int]] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        if dtensor.DTensor in types:
            return NotImplemented  # seen again, on the ranks' parts
        out = func(*args, **(kwargs or {}))
        namespace, _, name = str(func).partition(".")
        if namespace == "_c10d_functional" and name.partition(".")[0] in OPS:
            size = max(t.numel() * t.element_size() for t in (args[0], out))
            self.seen[OPS[name.partition(".")[0]], size] += 1
        return out


@pytest.mark.parametrize("sequence", [None, "tp"])
@pytest.mark.parametrize(
    "changes",
    [{"tp": 2, "micro_batches": 2}, {"tp": 4, "layers": 2}, {"tp": 2, "experts": 4, "layers": 2}],
    ids=lambda changes: "-".join(f"{name}{value}" for name, value in changes.items()),
)
def test_equals_the_reference_with_the_calls_of_the_explicit_form(
    tmp_path: Path, sequence: str | None, changes: dict[str, Any]
) -> None:
    setup = split(sequence, library=True, **changes)
    seen = tmp_path / "seen.pickle"

    def count(rank: int, trainer: Trainer) -> None:
        step = trainer.step

        def counted(number: int) -> float:
            if number > 0 or rank > 0:
                return step(number)
            with Calls() as calls:
                loss = step(number)
            seen.write_bytes(pickle.dumps(calls.seen))
            return loss

        trainer.step = counted  # type: ignore[method-assign]

    ranks = train(setup, tmp_path, spoil=count)
    assert_equal_to_reference(ranks)
    planned: Counter[tuple[str, int]] = Counter()
    for call in (*tp.calls(setup, 0), *sp.calls(setup, 0)):
        if call.phase != "reduce":
            planned[call.op, call.size_bytes] += call.count
    norm = setup.model.hidden * torch.float64.itemsize
    if sequence == "tp":
        # DTensor sums gradients of norms' weights and biases one by one.
        planned["all_reduce", norm] += 2 * (2 * setup.model.layers + 1)
    assert pickle.loads(seen.read_bytes()) == planned


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
