"""The bubble of a pipeline on real ranks, its actions padded to a fixed time: simulated, formula, measured.

The ranks sleep, so two cores hold four of them, and what gloo takes is small beside an action. What else the
machine does can only make a rank later: of some steps the one with the least bubble counts, and on a busy
machine there may have to be more of them.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import torch

from clusterlab.trainers.plans.bubble import StageTimes, bubble_fraction, measured, simulate
from clusterlab.trainers.plans.schedules import Action, schedule_of
from clusterlab.trainers.strategies.stages import Stages
from tests.trainers.ranks import small, train

pytestmark = [pytest.mark.ranks, pytest.mark.alone]

SLOT_S = 0.1
PP = 4


class Padded:
    """Stages' actions take as long as ``times`` says; when each step began by the machine's clock."""

    def __init__(self, patch: pytest.MonkeyPatch, times: StageTimes, path: Path) -> None:
        self._times, self._path = times, path
        for kind, name in (("F", "forward"), ("B", "backward"), ("W", "weights")):
            self._pad(patch, Action(kind, 0, 0), name)  # type: ignore[arg-type]
        right = Stages.begin

        def begin(stages: Stages, step: int) -> None:
            right(stages, step)
            file = path / f"began-{stages.rank.place.pp}-{step}.json"
            file.write_text(json.dumps(time.perf_counter_ns() / 1e3))

        patch.setattr(Stages, "begin", begin)

    def _pad(self, patch: pytest.MonkeyPatch, action: Action, name: str) -> None:
        right, takes = getattr(Stages, name), self._times.of(action)

        def padded(stages: Stages, *given: object) -> torch.Tensor | None:
            until = time.perf_counter() + takes
            made: torch.Tensor | None = right(stages, *given)
            time.sleep(max(0.0, until - time.perf_counter()))
            return made

        patch.setattr(Stages, name, padded)

    def began(self, pp: int, step: int) -> float:
        """µs by the machine's clock."""
        return float(json.loads((self._path / f"began-{pp}-{step}.json").read_text()))


@pytest.mark.parametrize(
    ("name", "chunks", "times"),
    [
        ("gpipe", 1, StageTimes(SLOT_S, SLOT_S)),
        ("1f1b", 1, StageTimes(SLOT_S, SLOT_S)),
        ("interleaved", 2, StageTimes(SLOT_S, SLOT_S)),
        ("zero_bubble", 1, StageTimes(SLOT_S, SLOT_S, SLOT_S / 2)),
    ],
)
def test_measured_simulated_and_formula_agree_within_five_percent(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    chunks: int,
    times: StageTimes,
) -> None:
    padded = Padded(monkeypatch, times, tmp_path)
    setup = small(
        pp=PP, micro_batches=PP, layers=PP * chunks, schedule=name, chunks=chunks, steps=3
    )
    simulated = simulate(schedule_of(setup), [times] * setup.stages).fraction
    formula = bubble_fraction(name, PP, PP, chunks, times)
    assert simulated == pytest.approx(formula, rel=1e-9)
    found: list[float] = []
    while len(found) < 10 and min(found, default=1.0) > 1.05 * formula:
        ranks = train(setup, tmp_path)
        for step in range(1, setup.train.steps):
            spans = [[span for span in own if span.step == step] for own in ranks.spans]
            began = [padded.began(rank, step) for rank in range(PP)]
            found.append(sum(measured(spans, began)) / PP)
    assert min(found) == pytest.approx(formula, rel=0.05), found
