"""How ranks begin a run that is no sweep: meet, and open the run together, its points predicted."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from clusterlab.bench.watchdog import Watchdog
from clusterlab.core.errors import ClusterlabError
from clusterlab.core.placement import Placement
from clusterlab.core.rows import Point, Predicted
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.rendezvous import init_process_group
from clusterlab.launch.roll_call import Record
from clusterlab.records.run_dir import RunDir, open_run, start_attempt
from clusterlab.runs.beginning import begin_attempt
from clusterlab.runs.calibrating.session_calibration import agreed_calibration
from clusterlab.runs.sweeping.job import JOIN_TIMEOUT_S, START_S
from clusterlab.runs.sweeping.predicting import choose_model, predict_points
from clusterlab.runs.whereabouts import call_whereabouts

if TYPE_CHECKING:
    from torch.distributed import Store


class Configuration(Protocol):
    """What a run is configured with."""

    @property
    def backend(self) -> str:
        """gloo or nccl."""

    @property
    def fabric(self) -> str | None:
        """A design that was named."""

    @property
    def deadline_s(self) -> float:
        """The longest one point may take, in s."""

    def to_json(self) -> dict[str, Any]:
        """Plain data for run.json."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What rank 0 has ready: the run with its new attempt, predictions, and where the ranks are."""

    run: RunDir
    predicted: Mapping[Point, Predicted]
    placement: Placement


def begin(
    identity: RankIdentity,
    store: Store,
    run_path: Path,
    config: Configuration,
    plain: Sequence[Point],
    *,
    planned_points: int,
) -> Opened | None:
    """Join the default process group and start an attempt; on rank 0 what was opened. Collective.

    ``plain`` are the points that are predicted: nothing predicts a point with something beside it.
    """
    start = Watchdog(identity, START_S, None, starting_on=lambda: store)
    with start as watchdog, watchdog.guard(0, "start of the run"):
        whereabouts = call_whereabouts(identity, store, config.backend, timeout_s=JOIN_TIMEOUT_S)
        # The watchdog speaks first: it can name the point and the ranks that did not arrive.
        timeout_s = max(JOIN_TIMEOUT_S, 2 * config.deadline_s)
        init_process_group(identity, store, config.backend, timeout_s=timeout_s)
        calibration = agreed_calibration(identity, store, config)
    opened: list[Opened] = []

    def open_or_refuse(_records: Sequence[Record]) -> ClusterlabError | None:
        assert whereabouts is not None, "rank 0 knows where all ranks are"
        placement = whereabouts.placement
        try:
            model = choose_model(placement, config.backend, config.fabric, calibration)
            predicted = predict_points(plain, model)
            if model.note:
                print(f"clusterlab: {model.note}", file=sys.stderr)
            run = start_attempt(
                open_run(run_path),
                configuration={**config.to_json(), "world_size": placement.world_size},
                planned_points=planned_points,
            )
            model.write(run.path)
        except ClusterlabError as error:
            return error
        opened.append(Opened(run, predicted, placement))
        return None

    begin_attempt(identity, store, open_or_refuse)
    return opened[0] if opened else None
