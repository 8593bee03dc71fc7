"""What other tools read of a run: a training step's trace."""

from __future__ import annotations

import json
from pathlib import Path

from clusterlab.core.errors import UsageError
from clusterlab.core.stepping import StepLedger
from clusterlab.records.ledgers import ledger_ranks, read_ledger
from clusterlab.records.run_dir import RunDir
from clusterlab.records.target import check_target, write_target
from clusterlab.report.files.trace import trace_of


def write_trace(run: RunDir, target: Path, step: int | None = None) -> int:
    """Write the trace of ``step`` of ``run`` (None: the last that all ranks have); the step's number.

    Raises UsageError for a run without ledgers, for a step that a rank does not have, and for a ``target``
    that cannot be a file.
    """
    check_target(target)
    found = ledgers_of(run.path, step)
    text = json.dumps(trace_of(found), allow_nan=False, separators=(",", ":"))
    write_target(target, text.encode())
    return found[0].step


def ledgers_of(folder: Path, step: int | None = None) -> list[StepLedger]:
    """Every rank's ledger of one step; of a step that was done again the latest. As ``write_trace``."""
    kept = {
        rank: {one.step: one for one in read_ledger(folder, rank)} for rank in ledger_ranks(folder)
    }
    if not kept:
        raise UsageError(
            "holds no ledger", where=str(folder), expected="a run of `clusterlab train`"
        )
    common = sorted(set.intersection(*(set(steps) for steps in kept.values())))
    if not common or (step is not None and step not in common):
        known = f"{common[0]} to {common[-1]}" if common else "none"
        raise UsageError(
            f"no step {'of all ranks' if step is None else step}",
            where=str(folder),
            expected=f"a step that all {len(kept)} ranks have: {known}",
        )
    number = common[-1] if step is None else step
    return [steps[number] for _, steps in sorted(kept.items())]
