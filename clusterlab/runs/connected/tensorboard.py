"""A run's scalars as TensorBoard event files, by torch's own writer."""

from __future__ import annotations

from pathlib import Path

from clusterlab.core.errors import UsageError
from clusterlab.core.extras import extra
from clusterlab.records.files import storage_error
from clusterlab.records.run_dir import RunDir
from clusterlab.report.data import load
from clusterlab.runs.connected.scalars import scalars_of


def write_tensorboard(run: RunDir, out: Path) -> tuple[Path, int]:
    """Write ``out/<run id>/``, a run of TensorBoard's; the folder and the number of values.

    Raises UsageError without the extra, where the folder holds events of an earlier export, and for a run
    without figures; StorageError where the disk refuses.
    """
    extra("tensorboard", "tensorboard")
    scalars = scalars_of(load(run))
    folder = out / run.path.name  # not what run.json calls it: that may be a path
    if out.exists() and not out.is_dir():
        raise UsageError(
            "no folder", where=str(out), expected="a folder for TensorBoard's --logdir"
        )
    if any(folder.glob("events.*")):
        raise UsageError(
            "holds this run already: its curves would be drawn twice", where=str(folder),
            fix="remove that folder, or choose another",
        )  # fmt: skip
    from torch.utils.tensorboard import SummaryWriter

    try:
        writer = SummaryWriter(str(folder))
        for one in scalars:
            writer.add_scalar(one.tag, one.value, one.step, walltime=one.unix)
        writer.close()
    except OSError as error:
        raise storage_error(folder, error) from error
    return folder, len(scalars)
