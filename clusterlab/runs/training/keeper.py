"""Rank 0's end of a training run: a line on the disk for every step, a table for people."""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime

from clusterlab.core.jsontext import json_text
from clusterlab.core.stepping import ExpertLoad, StepLedger, StepLine
from clusterlab.records.lines import EXPERTS, STEPS, LineWriter
from clusterlab.records.run_dir import RunDir, utc_text
from clusterlab.report.console.steps import step_head, step_text
from clusterlab.runs.training.step import Told
from clusterlab.trainers.config import Setup
from clusterlab.trainers.mesh import AXES, groups_of

_MOST_SHOWN = 100
"""Lines of a table; of more steps only some are shown, all are kept."""


def axes_of(setup: Setup) -> list[str]:
    """The axes along which ranks of ``setup`` talk; those of experts only where there are any."""
    talks = [axis for axis in AXES if max(map(len, groups_of(axis, setup.mesh))) > 1]
    return [axis for axis in talks if setup.model.experts or axis in ("dp", "tp", "pp")]


class StepKeeper:
    """Keeps and shows steps from ``first`` on."""

    def __init__(
        self,
        run: RunDir,
        setup: Setup,
        *,
        first: int,
        as_json: bool,
        predicted_us: float | None = None,
    ) -> None:
        self._run, self._as_json, self._predicted_us = run, as_json, predicted_us
        self._writer = LineWriter(run.path / STEPS)
        self._loads = LineWriter(run.path / EXPERTS) if setup.model.experts else None
        self._axes, self._pipeline = axes_of(setup), setup.mesh.pp > 1
        self._every = -(-max(1, setup.train.steps - first) // _MOST_SHOWN)
        self._last = setup.train.steps - 1
        self.recent: deque[StepLedger] = deque(maxlen=20)
        if not as_json and first <= self._last:
            print("\n".join(step_head(self._axes, pipeline=self._pipeline)), flush=True)

    def close(self) -> None:
        """Close the files."""
        self._writer.close()
        if self._loads is not None:
            self._loads.close()

    def take(
        self, number: int, told: Told, ledger: StepLedger, load: ExpertLoad | None = None
    ) -> None:
        """Keep one step, and what experts took in it: on the disk before on the screen."""
        parts = told.parts
        line = StepLine(
            step=number,
            attempt=self._run.attempt,
            time_utc=utc_text(datetime.now(UTC)),
            loss=told.loss,
            step_us=parts.step_us,
            slowest_rank=told.slowest_rank,
            data_us=parts.data_us,
            forward_us=parts.forward_us,
            backward_us=parts.backward_us,
            exposed_us=parts.exposed_us,
            bubble_us=parts.bubble_us,
            optimizer_us=parts.optimizer_us,
            other_us=parts.other_us,
            memory_bytes=told.memory_bytes,
            collectives=told.collectives,
            predicted_us=self._predicted_us,
        )
        if load is not None and self._loads is not None:
            self._loads.append(load)
        self._writer.append(line)
        self.recent.append(ledger)
        if self._as_json:
            more = {} if load is None else {"experts": load.to_json()}
            print(json_text({**line.to_json(), **more}), flush=True)
        elif number % self._every == 0 or number == self._last or told.stop or told.loss is None:
            print(step_text(line, self._axes, pipeline=self._pipeline), flush=True)
