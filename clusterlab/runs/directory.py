"""Which run directory a sweep writes to: the one its job was given, or a new one."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from clusterlab.core.errors import UsageError
from clusterlab.records.lease import refuse_alive
from clusterlab.records.run_dir import RunDir, create_run, open_run, runs_root


def run_directory(name: str, *, job: str | None = None) -> RunDir:
    """The run directory of batch job ``job``: the one it made before, else a new one.

    A requeued job keeps its id, so it finds its rows and goes on. Raises UsageError for a job id that
    is no word, and when the directory cannot be made.
    """
    if job is None:
        return create_run(name)
    if not re.fullmatch(r"[A-Za-z0-9_.]+", job):
        raise UsageError(f"{job!r}", where="--job", expected="letters, digits, _ and .")
    label = f"{name}-job{job}"
    # Job ids are reused after years; the latest directory is this job's.
    mine = sorted(p for p in runs_root().glob(f"*Z-{label}-*") if p.is_dir())
    return open_run(mine[-1]) if mine else create_run(label)


def given_or_new_run(name: str) -> RunDir:
    """The run in CLUSTERLAB_RUN_DIR (a batch script made it), or a new one; its path goes to stderr.

    Raises UsageError where another process still measures in it.
    """
    given = given_run_path()
    return announced(open_run(given) if given else create_run(name))


def given_run_path() -> Path | None:
    """CLUSTERLAB_RUN_DIR, or None."""
    given = os.environ.get("CLUSTERLAB_RUN_DIR")
    return Path(given) if given else None


def announced(run: RunDir) -> RunDir:
    """``run``, its path said on stderr. Raises UsageError where another process measures in it."""
    refuse_alive(run.path)
    print(f"clusterlab: run directory {run.path}", file=sys.stderr, flush=True)
    return run
