"""A run's scalars as a run of Weights & Biases, offline unless asked."""

from __future__ import annotations

import itertools
import os
import re
from pathlib import Path
from typing import Any

from clusterlab.core.errors import UsageError
from clusterlab.core.extras import extra
from clusterlab.records.run_dir import RunDir
from clusterlab.report.data import load
from clusterlab.report.files.prometheus import label_value
from clusterlab.runs.connected.scalars import Scalar, scalars_of

_OUTSIDE = re.compile(r"[^A-Za-z0-9_.-]+")
"""What wandb refuses in an id, and more."""


def write_wandb(run: RunDir, out: Path, *, project: str, online: bool = False) -> tuple[Path, int]:
    """Write ``out/wandb/offline-run-…`` (``online``: send it as the user who is logged in); the folder and
    the number of values.

    Only the run's own figures and configuration: no system metrics, console, code, packages or host. Raises
    UsageError without the extra, for a run without figures, and for what wandb refuses.
    """
    # Before it is imported: offline nothing leaves this host, its own telemetry neither.
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    wandb = extra("wandb", "wandb")
    data = load(run)
    scalars = scalars_of(data)
    if not out.is_dir():
        raise UsageError("no such folder", where=str(out), expected="an existing folder")
    judged = data.judged
    try:
        opened = wandb.init(
            project=project,
            id=_OUTSIDE.sub("-", run.path.name),
            name=label_value(run.path.name),
            dir=str(out),
            config=dict(run.info.configuration),
            settings=_settings(wandb, online=online),
        )
        for axis in dict.fromkeys(one.axis for one in scalars):
            opened.define_metric(axis)
            for group in dict.fromkeys(one.group for one in scalars if one.axis == axis):
                opened.define_metric(f"{group}/*", step_metric=axis)
        for logged in _together(scalars):
            opened.log(logged)
        opened.summary.update({"verdict": judged.verdict.value, "verdict_reason": judged.reason})
        folder = Path(opened.dir).parent
        opened.finish()
    except wandb.errors.Error as error:
        raise UsageError(str(error), where="wandb") from None
    finally:
        wandb.teardown()  # its helper process writes the file: only then is all of it there
    return folder, len(scalars)


def _settings(wandb: Any, *, online: bool) -> Any:
    return wandb.Settings(
        mode="online" if online else "offline",
        console="off",
        silent=True,
        disable_git=True,
        disable_code=True,
        save_code=False,
        disable_job_creation=True,
        x_disable_stats=True,
        x_disable_meta=True,
        x_disable_machine_info=True,
        x_save_requirements=False,
    )


def _together(scalars: list[Scalar]) -> list[dict[str, float]]:
    """What has a step in common is one line of wandb's history."""
    order = sorted(scalars, key=lambda one: (one.axis, one.step))
    return [
        {axis: step, **{one.tag: one.value for one in same}}
        for (axis, step), same in itertools.groupby(order, key=lambda one: (one.axis, one.step))
    ]
