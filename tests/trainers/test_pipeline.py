"""Pipelines on real ranks: as one process, with the planned calls; waits and transfers; mistakes are seen."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.pipelining  # before ranks are forked: it takes seconds

from clusterlab.core.errors import UsageError
from clusterlab.trainers.axis import Axis
from clusterlab.trainers.config import SCHEDULES, Setup, check
from clusterlab.trainers.model import loss_of as right_loss
from clusterlab.trainers.plans.compose import calls_of
from clusterlab.trainers.plans.schedules import Action
from clusterlab.trainers.step import samples_of as right_samples
from clusterlab.trainers.strategies.library.pipelining import check_rounds
from clusterlab.trainers.strategies.pp import PipelineTrainer
from clusterlab.trainers.strategies.split import SplitBackward
from clusterlab.trainers.strategies.stages import Stages
from tests.trainers.ranks import assert_equal_to_reference, assert_ledger_is_plan, small, train
from tests.trainers.witness import assert_nothing_escaped, watching

pytestmark = pytest.mark.ranks

ALONE: list[dict[str, Any]] = [
    {"pp": 2, "micro_batches": 2},
    {"pp": 2, "micro_batches": 5},
    {"pp": 4, "micro_batches": 6},
]
COMBINED: list[dict[str, Any]] = [
    {"pp": 2, "dp": 2, "micro_batches": 3, "bucket_bytes": 4000},
    {"pp": 2, "tp": 2, "micro_batches": 2},
    {"pp": 2, "tp": 2, "positions": "tp", "micro_batches": 2},
    {"pp": 2, "tp": 2, "positions": "ulysses", "micro_batches": 2},
    {"pp": 2, "dp": 2, "ep": 2, "experts": 4, "routing": "hot_expert", "micro_batches": 2},
    {"pp": 2, "dp": 2, "tp": 2, "positions": "tp", "micro_batches": 2},
]


def named(changes: dict[str, Any]) -> str:
    return "-".join(f"{name}{value}" for name, value in changes.items())


def scheduled(name: str, changes: dict[str, Any]) -> Setup:
    """A small setup of that schedule; ``positions``: how they are split (the mesh's ``sequence``)."""
    changes = {"layers": 8 if changes["pp"] == 4 else 4, "schedule": name, **changes}
    positions = changes.pop("positions", None)
    setup = small(chunks=2 if name == "interleaved" else 1, **changes)
    return check(replace(setup, mesh=replace(setup.mesh, sequence=positions)))


@pytest.mark.parametrize("changes", [*ALONE, *COMBINED], ids=named)
@pytest.mark.parametrize("name", SCHEDULES)
def test_trains_as_one_process_does_and_makes_the_planned_calls(
    tmp_path: Path, name: str, changes: dict[str, Any]
) -> None:
    ranks = train(scheduled(name, changes), tmp_path)
    assert_equal_to_reference(ranks)
    assert_ledger_is_plan(ranks, calls_of)


@pytest.mark.parametrize("changes", [ALONE[0], ALONE[2], COMBINED[0], COMBINED[1]], ids=named)
@pytest.mark.parametrize("name", SCHEDULES)
def test_torchs_own_schedules_train_the_same_with_the_planned_calls_and_no_others(
    tmp_path: Path, name: str, changes: dict[str, Any]
) -> None:
    if name in ("interleaved", "zero_bubble") and changes["micro_batches"] == 3:
        changes = {**changes, "micro_batches": 4}
    setup = scheduled(name, {**changes, "library": True})
    ranks = train(setup, tmp_path, spoil=watching(tmp_path, 1))
    assert_equal_to_reference(ranks)
    assert_ledger_is_plan(ranks, calls_of, first_step=1)
    assert_nothing_escaped(ranks, tmp_path, 1)


@pytest.mark.parametrize("name", ["interleaved", "zero_bubble"])
def test_uneven_rounds_are_refused_for_torchs_schedules(name: str) -> None:
    check_rounds(name, 4, 6)
    check_rounds("1f1b", 3, 7)
    with pytest.raises(UsageError, match="--micro-batches 6, --micro-batches 8"):
        check_rounds(name, 3, 7)


def test_chunks_are_for_interleaved_pipelines() -> None:
    with pytest.raises(UsageError, match="--schedule interleaved"):
        small(pp=2, micro_batches=2, chunks=2, schedule="1f1b")


Spoil = Callable[[pytest.MonkeyPatch], None]


def own_tokens_only(patch: pytest.MonkeyPatch) -> None:
    """Each micro-batch's loss is a mean over its own tokens; the loss reported is put right, as peers do."""
    M = 3

    def loss_of(logits: torch.Tensor, targets: torch.Tensor, tokens: int) -> torch.Tensor:
        loss = right_loss(logits, targets, tokens)
        return loss.detach() + (loss - loss.detach()) * M

    patch.setattr(f"{Stages.__module__}.loss_of", loss_of)


def next_micro_batch(patch: pytest.MonkeyPatch) -> None:
    """A stage's backward takes the gradient of the micro-batch after."""
    right = PipelineTrainer._take

    def take(self: PipelineTrainer, action: Action) -> torch.Tensor | None:
        taken = right(self, action)
        if taken is not None and action.kind == "B":
            kept = getattr(self, "kept", taken)
            self.kept = taken  # type: ignore[attr-defined]
            return kept
        return taken

    patch.setattr(PipelineTrainer, "_take", take)


def targets_of_the_next(patch: pytest.MonkeyPatch) -> None:
    """The last stage compares with the targets of another micro-batch."""

    def samples_of(setup: Any, place: Any, micro_batch: int) -> range:
        shift = place.pp == setup.mesh.pp - 1
        return right_samples(setup, place, (micro_batch + shift) % setup.train.micro_batches)

    patch.setattr(f"{Stages.__module__}.samples_of", samples_of)


def only_the_last_counts(patch: pytest.MonkeyPatch) -> None:
    """Gradients of micro-batches do not add up: each replaces the one before."""
    right = Stages.backward

    def backward(self: Stages, action: Action, grad: torch.Tensor | None) -> torch.Tensor | None:
        self.model.zero_grad()
        return right(self, action, grad)

    patch.setattr(Stages, "backward", backward)


def not_summed(patch: pytest.MonkeyPatch) -> None:
    """Data parallel ranks keep their own gradients."""
    right = Axis.start_all_reduce

    def start_all_reduce(self: Axis, tensor: torch.Tensor) -> Any:
        of_loss = tensor.dim() == 0
        return right(self, tensor if of_loss or self.name != "dp" else tensor.clone())

    patch.setattr(Axis, "start_all_reduce", start_all_reduce)


def a_loss_of_its_own(patch: pytest.MonkeyPatch) -> None:
    """The last stage's loss stays there."""
    right = Axis.all_reduce

    def all_reduce(self: Axis, tensor: torch.Tensor) -> torch.Tensor:
        return tensor if self.name == "pp" else right(self, tensor)

    patch.setattr(Axis, "all_reduce", all_reduce)


@pytest.mark.parametrize(
    ("mistake", "seen"),
    [
        (own_tokens_only, "loss of step 1"),  # that of step 0 is right: gradients are not
        (next_micro_batch, "loss of step 1"),
        (targets_of_the_next, "loss of step 0"),
        (only_the_last_counts, "loss of step 1"),
        (not_summed, "of ranks 0 and 1"),
        (a_loss_of_its_own, "losses of rank 2 and of rank 0"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_mistake_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: Spoil, seen: str
) -> None:
    mistake(monkeypatch)
    with pytest.raises(AssertionError, match=seen):
        assert_equal_to_reference(train(small(pp=2, dp=2, micro_batches=3), tmp_path))


def test_a_gradient_scale_alone_is_seen_in_the_gradients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One step: its loss is right, as where loss curves are all that is compared."""
    own_tokens_only(monkeypatch)
    with pytest.raises(AssertionError, match="gradient"):
        assert_equal_to_reference(train(small(pp=2, micro_batches=3, steps=1), tmp_path))


def test_a_w_that_is_left_out_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = SplitBackward.of_weights
    done: list[SplitBackward] = []

    def of_weights(self: SplitBackward) -> None:
        done.append(self)
        if len(done) != 2:
            right(self)

    monkeypatch.setattr(SplitBackward, "of_weights", of_weights)
    with pytest.raises(AssertionError, match="gradient"):
        setup = small(pp=2, micro_batches=3, steps=1, schedule="zero_bubble")
        assert_equal_to_reference(train(setup, tmp_path))


class Doubled(torch.autograd.Function):
    """2 x; notes each time its backward runs."""

    runs = 0

    @staticmethod
    def forward(_ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    @staticmethod
    def backward(_ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        Doubled.runs += 1
        return 2 * grad


@pytest.mark.parametrize("leaf", [True, False], ids=["leaf", "embedded"])
@pytest.mark.parametrize("loss", [True, False])
def test_both_parts_of_a_backward_are_the_whole_and_share_no_work(leaf: bool, loss: bool) -> None:
    """A weight with two uses beside each other, two of one node, one without; x a leaf, or made of one."""
    generator = torch.Generator().manual_seed(1)

    def weight(*shape: int) -> torch.nn.Parameter:
        return torch.nn.Parameter(torch.randn(*shape, dtype=torch.float64, generator=generator))

    shapes = [(4, 4), (4,), (2, 4, 4), (4,), (5, 4), (4,), (4,), (1,)]
    w, bias, stacked, gain, first, scale, shift, _ = parameters = [weight(*s) for s in shapes]
    x0 = torch.randn(5, 4, dtype=torch.float64, generator=generator)
    grad_y = None if loss else torch.randn(5, 4, dtype=torch.float64, generator=generator)

    def run() -> tuple[torch.Tensor, torch.Tensor]:
        x = x0.clone().requires_grad_() if leaf else x0 * first
        h = torch.nn.functional.linear(x * gain, w, bias)
        h = torch.relu(h @ stacked[0]) + h @ stacked[1]
        y = torch.nn.functional.layer_norm(x + h, (4,), scale, shift) + Doubled.apply(h)  # type: ignore[no-untyped-call]
        return x, y.square().sum() if loss else y

    def expected() -> list[torch.Tensor | None]:
        x, y = run()
        if not leaf:
            x.retain_grad()
        torch.autograd.backward(y, grad_y)
        found = [x.grad, *(p.grad for p in parameters)]
        for p in parameters:
            p.grad = None
        return found

    want = expected()
    x, y = run()
    split = SplitBackward(y, x, parameters)
    Doubled.runs = 0
    grad_x = split.of_input(grad_y)
    assert all(p.grad is None for p in parameters)
    assert Doubled.runs == 1
    split.of_weights()
    assert Doubled.runs == 1, "what lies on the way to x is gone through once"
    for found, one in zip([grad_x, *(p.grad for p in parameters)], want, strict=True):
        assert (found is None) == (one is None)
        assert found is None or one is None or torch.allclose(found, one, rtol=1e-12, atol=1e-12)


def test_waiting_is_told_apart_from_transfer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow first stage: the second one's time is in handshakes, not in what it receives."""
    slow_s = 0.05

    right = Stages.forward

    def forward(self: Stages, action: Action, x: torch.Tensor | None) -> torch.Tensor | None:
        time.sleep(slow_s if action.stage == 0 else 0.0)
        return right(self, action, x)

    monkeypatch.setattr(Stages, "forward", forward)
    ranks = train(small(pp=2, micro_batches=4, schedule="gpipe", steps=3), tmp_path)
    spans = [span for span in ranks.spans[1] if span.step == 2]
    took = {
        name: sum(s.end_us - s.start_us for s in spans if s.name == name) / 1e6
        for name in ("wait", "transfer")
    }
    assert took["wait"] > 0.7 * 4 * slow_s
    assert took["transfer"] < 0.3 * took["wait"]
    messages = [e for e in ranks.entries[1] if e.step == 2 and e.op == "recv"]
    assert {e.phase for e in messages} == {"handshake", "forward"}
    assert [e.micro_batch for e in messages if e.phase == "forward"] == [0, 1, 2, 3]
