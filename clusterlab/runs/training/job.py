"""What every rank of a training run is told before it starts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from clusterlab.runs.training.setup import TrainTyped, setup_of
from clusterlab.trainers.config import Setup

CHECKPOINTS = "checkpoints"


@dataclass(frozen=True, slots=True)
class TrainJob:
    """One training run. A checkpoint every ``checkpoint_every`` steps (0: only when a signal asks).

    ``deadline_s`` a step may take at most. ``trace``: where rank 0 writes the last step's trace.
    ``fabric``: a design to predict the step on, whose ranks compute like ``compute`` (see train_whatif).
    """

    typed: TrainTyped
    backend: str
    checkpoint_every: int
    deadline_s: float
    as_json: bool
    trace: Path | None = None
    fabric: str | None = None
    compute: str | None = None

    def setup(self, world_size: int) -> Setup:
        """On so many ranks."""
        return setup_of(self.typed, world_size, self.backend)

    def to_json(self, world_size: int) -> dict[str, Any]:
        """Plain data for run.json: what must be the same when the run is gone on with."""
        return {
            "measures": "training",
            "strategy": self.typed.strategy,
            "backend": self.backend,
            "world_size": world_size,
            **asdict(self.setup(world_size)),
        }
