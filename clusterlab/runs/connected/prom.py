"""Several runs as one snapshot for Prometheus: of every label set the latest run's, how often slow."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from clusterlab.core.errors import UsageError
from clusterlab.core.findings import Verdict
from clusterlab.records.run_dir import RUN, open_run, runs_root
from clusterlab.records.target import check_name, check_target, write_target
from clusterlab.report.data import load
from clusterlab.report.files.prometheus import Sample, openmetrics_text, prom_text
from clusterlab.runs.connected.prom_run import RunSeries, Series, run_series

MOST_POINTS = 2000
"""Points in one file, a dozen series each. A server takes millions; one node's textfile should not."""

PROM_SUFFIX = ".prom"
"""Node exporter reads files of this name and no other."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """``samples``; of ``runs`` kinds of run; ``left_out``: points beyond the limit."""

    samples: tuple[Sample, ...]
    runs: int
    points: int
    left_out: int


def latest_runs(count: int) -> list[Path]:
    """The ``count`` youngest run directories under ``$CLUSTERLAB_RUNS``: their names begin with their time.

    Raises UsageError where there are none.
    """
    root = runs_root()
    found = sorted(path.parent for path in root.glob(f"[!.]*/{RUN}")) if root.is_dir() else []
    if not found:
        raise UsageError(
            "holds no run", where=str(root), fix="set $CLUSTERLAB_RUNS, or name the runs"
        )
    return found[-count:]


def read_series(
    runs: Sequence[Path], *, cluster: str | None = None
) -> tuple[list[RunSeries], list[UsageError]]:
    """What each run says, and what is wrong with those that cannot be read.

    A run that was named twice counts once. One whose ranks were not started yet has nothing to say.
    """
    read: dict[Path, RunSeries] = {}
    refused: list[UsageError] = []
    for index, path in enumerate(runs):
        _progress(index, len(runs))
        try:
            run = open_run(path)
            if run.info.attempts and run.path not in read:
                read[run.path] = run_series(load(run), cluster=cluster)
        except UsageError as error:
            refused.append(error)
    _progress(len(runs), len(runs))
    return list(read.values()), refused


def _progress(done: int, whole: int) -> None:
    if whole > 20 and sys.stderr.isatty():
        end = "\n" if done == whole else ""
        print(f"\rclusterlab: {done} of {whole} runs read", end=end, file=sys.stderr, flush=True)


def snapshot(runs: Iterable[RunSeries], *, most_points: int = MOST_POINTS) -> Snapshot:
    """The samples of ``runs``: of each label set those of the run that ended last."""
    ordered = sorted(runs, key=lambda run: (run.ended, run.run_id))
    points = [
        _with_streak(one, "clusterlab_point_slow_runs", slow)
        for one, slow in _latest(run.points for run in ordered)
    ]
    kept = _most_telling(points, most_points)
    collectives = [
        _with_streak(one, "clusterlab_collective_slow_runs", slow)
        for one, slow in _latest(run.collectives for run in ordered)
    ]
    training = [one for one, _ in _latest(run.training for run in ordered)]
    newest = {run.run.key: run for run in ordered}
    good = {run.run.key: run for run in ordered if run.succeeded}
    successes = [
        Sample("clusterlab_run_success_timestamp_seconds", run.run.labels, run.ended)
        for run in good.values()
    ]
    left_out = len(points) - len(kept)
    told = [run.run for run in newest.values()]
    samples = [s for one in (*kept, *collectives, *training, *told) for s in one.samples]
    clusters = sorted({run.run.labels["cluster"] for run in ordered})
    samples += successes
    samples += [
        Sample("clusterlab_export_left_out_points", {"cluster": name}, _of(points, name) - _of(kept, name))
        for name in clusters
    ]  # fmt: skip
    return Snapshot(tuple(samples), len(newest), len(kept), left_out)


def _of(points: Sequence[Series], cluster: str) -> int:
    return sum(one.labels["cluster"] == cluster for one in points)


def _latest(parts: Iterable[Iterable[Series]]) -> list[tuple[Series, int]]:
    """The latest of each label set, and how many of the latest in a row were slow.

    A run that could not tell, or whose data was wrong, neither adds to a row of slow ones nor ends it.
    """
    latest: dict[frozenset[tuple[str, str]], tuple[Series, int]] = {}
    for run in parts:
        for one in run:
            slow = latest[one.key][1] if one.key in latest else 0
            if one.verdict == Verdict.SLOW:
                slow += 1
            elif one.verdict in (Verdict.PASS, Verdict.FAST_UNEXPECTED):
                slow = 0
            latest[one.key] = (one, slow)
    return list(latest.values())


def _with_streak(one: Series, name: str, slow: int) -> Series:
    return replace(one, samples=(*one.samples, Sample(name, one.labels, float(slow))))


def _most_telling(points: Sequence[Series], most: int) -> list[Series]:
    """At most so many: wrong and slow points first, then sizes thinned evenly, the largest kept longest."""
    if len(points) <= most:
        return list(points)
    same: dict[frozenset[tuple[str, str]], list[Series]] = {}
    for one in points:
        key = frozenset((k, v) for k, v in one.labels.items() if k != "size_bytes")
        same.setdefault(key, []).append(one)
    ranked: list[tuple[tuple[bool, bool, int], Series]] = []
    for series in same.values():
        for index, one in enumerate(sorted(series, key=lambda s: -s.size_bytes)):
            coarse = 64 if index == 0 else (index & -index).bit_length()
            ranked.append(((not one.wrong, one.verdict != Verdict.SLOW, -coarse), one))
    ranked.sort(key=lambda pair: pair[0])
    chosen = {one.key for _, one in ranked[:most]}
    return [one for one in points if one.key in chosen]


def text_of(found: Snapshot, *, openmetrics: bool) -> bytes:
    """The file's content."""
    return (openmetrics_text if openmetrics else prom_text)(found.samples)


def target_of(out: Path, *, openmetrics: bool) -> Path:
    """The file that ``out`` means, a folder or a file. Raises UsageError for one that nobody would read."""
    check_name(out, where="--out")
    target = (
        (out / ("clusterlab.om" if openmetrics else "clusterlab.prom")) if out.is_dir() else out
    )
    check_target(target, where="--out")
    if openmetrics and target.suffix == PROM_SUFFIX:
        raise UsageError(
            "node exporter would read it, and knows no OpenMetrics",
            where=str(target), fix="name it clusterlab.om",
        )  # fmt: skip
    if not openmetrics and target.suffix != PROM_SUFFIX:
        raise UsageError(
            "node exporter reads only *.prom", where=str(target), fix=f"name it {target.name}.prom"
        )
    return target


def write_prom(target: Path, text: bytes) -> None:
    """Replace ``target`` at once, readable by all whatever the umask. Raises StorageError."""
    write_target(target, text, mode=0o644)
