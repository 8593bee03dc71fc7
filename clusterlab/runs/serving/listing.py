"""The runs of a folder, a line each: what they are, where they stand. What is as it was is not read again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from clusterlab.core.errors import ClusterlabError, UsageError
from clusterlab.records.lease import DEAD_S, sign_of_life
from clusterlab.records.lines import OVERLAP, SOAK, STEPS
from clusterlab.records.reading import open_regular
from clusterlab.records.run_dir import RUN, RunDir, open_run
from clusterlab.records.store import RECORDS
from clusterlab.report.served import ListedRun
from clusterlab.runs.serving.places import run_in
from clusterlab.runs.serving.wire import RefusedError
from clusterlab.runs.watching.kinds import kind_of
from clusterlab.runs.watching.pulse import meaning

_CHUNK = 1 << 20
_KEPT = 4096


def listed(root: Path, names: Sequence[str]) -> list[ListedRun]:
    """The runs ``names`` of ``root``, in that order; what is none, or has links in it, is left out."""
    found = []
    for name in names:
        try:
            folder = run_in(root, name)
        except RefusedError:
            continue
        info = (folder / RUN).stat()
        found.append(_now(_one(folder, info.st_mtime_ns, info.st_size), folder))
    return found


@lru_cache(maxsize=_KEPT)
def _one(folder: Path, _mtime_ns: int, _size: int) -> ListedRun:
    """By run.json alone."""
    try:
        run = open_run(folder)
    except ClusterlabError as error:
        return ListedRun(
            folder.name, folder.name, "", "", f"cannot be read: {error.message}", 0, None
        )
    kind = kind_of(run.info.configuration)
    state, live = _state(run)
    planned = run.info.planned_points if kind in ("sweep", "pairs", "groups") else None
    return ListedRun(
        folder.name, run.info.name, kind, run.info.created_utc, state, 0, planned, live
    )


def _state(run: RunDir) -> tuple[str, bool]:
    attempts = run.info.attempts
    if not attempts:
        return "not started", True
    last = attempts[-1]
    if last.ended_utc is None:
        return "running", True
    return ("ended" if last.exit_code is None else f"ended: {meaning(last.exit_code)}"), False


def _now(run: ListedRun, folder: Path) -> ListedRun:
    done = sum(_count(folder / name) for name in (RECORDS, STEPS, OVERLAP))
    done = _count(folder / SOAK) or done
    state, live = run.state, run.live
    if live and state == "running":
        sign = sign_of_life(folder)
        if sign is None or sign.lives is False:
            state, live = "dead: did not end, and nobody measures in it", False
        elif sign.lives is None and time.time() - sign.touched > 2 * DEAD_S:
            state = "silent"
    return replace(run, done=done, state=state, live=live)


def _count(file: Path) -> int:
    try:
        info = file.stat()
    except OSError:
        return 0
    return _lines(file, info.st_mtime_ns, info.st_size)


@lru_cache(maxsize=_KEPT)
def _lines(file: Path, _mtime_ns: int, _size: int) -> int:
    count = 0
    try:
        with open_regular(file) as opened:
            while chunk := opened.read(_CHUNK):
                count += chunk.count(b"\n")
    except (OSError, UsageError):  # its page says why
        return 0
    return count
