"""``clusterlab soak``: the same points for hours, a small record of every pass, and what the passes say."""

from __future__ import annotations

import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from clusterlab.bench.options import BenchOptions
from clusterlab.bench.soak import measure_soak
from clusterlab.bench.spoiling import refuse_corrupt
from clusterlab.core.errors import ExitCode, UsageError
from clusterlab.core.findings import Verdict
from clusterlab.core.jsontext import json_text
from clusterlab.core.measurement import Measurement
from clusterlab.core.rows import Point, make_row
from clusterlab.core.soaking import SoakPass
from clusterlab.launch.identity import RankIdentity
from clusterlab.records.lines import SOAK, LineWriter, read_lines
from clusterlab.records.run_dir import utc_text
from clusterlab.report.console.soak import soak_lines
from clusterlab.runs.directory import given_or_new_run
from clusterlab.runs.finish import end_run
from clusterlab.runs.local_ranks import backend_here, check_typed
from clusterlab.runs.on_ranks import Work, run_on_ranks
from clusterlab.runs.opening import Opened, begin
from clusterlab.runs.sweeping.points import PointsTyped, refuse_unsupported
from clusterlab.runs.sweeping.trouble import aftermath_of
from clusterlab.verdict.soak import judge_soak, soaked

if TYPE_CHECKING:
    from torch.distributed import Store

_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LEAST_PASS_S, _MOST_SAID = 0.01, 20

_GRACE_S = 30.0
"""For the point in hand, before ranks that were asked to stop are ended."""


@dataclass(frozen=True, slots=True)
class SoakConfig:
    """One soak, fully resolved: what run.json keeps. ``pass_s``: how long one pass times calls for.

    ``tolerance``: a change of less than this share of the median does not matter.
    """

    typed: PointsTyped
    duration_s: float
    pass_s: float
    tolerance: float
    check: bool
    backend: str
    fabric: str | None
    deadline_s: float
    corrupt: tuple[int, int] | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data for run.json."""
        return {"measures": "soak", **asdict(self)}

    def points(self, world_size: int) -> list[Point]:
        """The points of a pass."""
        return [p for name in self.typed.collectives for p in self.typed.points(name, world_size)]

    def options(self, points: int) -> BenchOptions:
        """How each of so many points is measured: for its part of a pass, whatever its spread."""
        return BenchOptions(
            iterations=None,
            warmup=None,
            check=self.check,
            deadline_s=self.deadline_s,
            median_within=1e-9,
            budget_s=self.pass_s / points,
            corrupt=self.corrupt,
        )


def seconds(text: str, where: str) -> float:
    """A time as typed: 90, 90s, 15m, 1h30m, 2d. Raises UsageError naming ``where``."""
    parts = re.fullmatch(r"(?:\d+(?:\.\d+)?[smhd])+|\d+(?:\.\d+)?", text.strip().lower())
    total = 0.0
    if parts is not None:
        for number, unit in re.findall(r"(\d+(?:\.\d+)?)([smhd]?)", text.strip().lower()):
            total += float(number) * _UNITS_S[unit or "s"]
    if not 0 < total < 1e9:
        raise UsageError(f"{text!r}", where=where, expected="a time such as 90s, 15m, 1h30m or 2h")
    return total


def resolve_soak(
    typed: PointsTyped,
    *,
    duration: str,
    pass_text: str,
    tolerance: float,
    check: bool,
    backend: str,
    fabric: str | None,
    deadline_s: float,
    corrupt: tuple[int, int] | None,
) -> SoakConfig:
    """The soak that was typed. Raises UsageError naming the option."""
    check_typed(None, backend)
    if not 0 < tolerance < 1:
        raise UsageError(f"{tolerance:g}", where="--tolerance", expected="a share from 0 to 1")
    if not 0 < deadline_s < 1e9:
        raise UsageError(f"{deadline_s:g}", where="--deadline", expected="seconds above 0")
    duration_s, pass_s = seconds(duration, "--for"), seconds(pass_text, "--pass")
    if not _LEAST_PASS_S <= pass_s <= duration_s:
        raise UsageError(
            pass_text, where="--pass", expected=f"{_LEAST_PASS_S:g} s to the time of --for"
        )
    return SoakConfig(
        typed,
        duration_s,
        pass_s,
        tolerance,
        check,
        backend_here(backend),
        fabric,
        deadline_s,
        corrupt,
    )


def run_soak(config: SoakConfig, *, ranks: int | None, name: str | None, as_json: bool) -> int:
    """Soak; the exit code: 0 steady, 1 changed or wrong data, 3 too short or too noisy to say."""
    check_typed(ranks, config.backend)
    return run_on_ranks(
        Work(
            backend=config.backend,
            ranks=ranks,
            check=lambda size: _refuse(config, size),
            open_run=lambda: given_or_new_run(name or "soak"),
            rank_main=lambda identity, store, path: _rank(identity, store, path, config),
            tell_end=lambda path, code, message: _tell_end(path, code, message, config, as_json),
            grace_s=_GRACE_S,
        )
    )


def _refuse(config: SoakConfig, world_size: int) -> None:
    refuse_unsupported(config.typed, config.typed.collectives, config.backend, world_size)
    refuse_corrupt(config.corrupt, config.points(world_size), world_size)


def _tell_end(path: Path, code: int, message: str | None, config: SoakConfig, as_json: bool) -> int:
    """What the passes say; they decide where nothing failed, also when a signal ended the soak."""
    points = soaked(read_lines(path).passes, config.tolerance)
    judged = judge_soak(points)
    if points and (code in (ExitCode.OK, ExitCode.FINDING) or code > 128):
        code = _CODES.get(judged.verdict, ExitCode.FINDING)
    if as_json:
        told = {"verdict": judged.verdict.value, "reason": judged.reason}
        print(json_text({**told, "points": [point.to_json() for point in points]}))
    else:
        print("\n".join(soak_lines(points)), flush=True)
    end_run(path, code, message)
    return code


_CODES = {Verdict.PASS: ExitCode.OK, Verdict.NO_VERDICT: ExitCode.NO_VERDICT}


def _rank(identity: RankIdentity, store: Store, path: Path, config: SoakConfig) -> int:
    """One rank's part."""
    import torch.distributed as dist

    points = config.points(identity.world_size)
    with _stop_asked() as asked:
        opened = begin(identity, store, path, config, points, planned_points=len(points))
        done_s = _soaked_before(path) if opened is None else _soaked_before(opened.run.path)
        keeper = _Keeper(opened, config) if opened else None
        try:
            ended = measure_soak(
                identity,
                points,
                config.options(len(points)),
                keeper.take if keeper else _nothing,
                duration_s=max(0.0, config.duration_s - done_s),
                stop_asked=asked,
                store=store,
                aftermath=aftermath_of(identity, path),
            )
        finally:
            if keeper:
                keeper.close()
            # Not after a failure: destroying a group whose peers are gone can block.
            if sys.exc_info()[0] is None:
                dist.destroy_process_group()
    return ExitCode.FINDING if ended.why == "wrong" else ExitCode.OK


def _soaked_before(path: Path) -> float:
    """Seconds that earlier attempts of this run soaked."""
    spans: dict[int, list[float]] = {}
    for one in read_lines(path).passes:
        spans.setdefault(one.attempt, []).append(one.elapsed_s)
    return sum(max(times) - min(times) for times in spans.values())


def _nothing(_number: int, _measured: Sequence[tuple[Point, Measurement]]) -> None:
    """Ranks other than 0 keep nothing."""


@contextmanager
def _stop_asked() -> Iterator[Callable[[], bool]]:
    """Whether SIGTERM or SIGINT came, while the block runs: they ask, the second one ends."""
    came: list[int] = []

    def ask(number: int, _frame: object) -> None:
        if came:
            _end(number)
        came.append(number)

    heeded = [
        number
        for number in (signal.SIGTERM, signal.SIGINT)
        if signal.getsignal(number) is not signal.SIG_IGN
    ]
    before = {number: signal.signal(number, ask) for number in heeded}
    try:
        yield lambda: bool(came)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int) -> NoReturn:
    raise SystemExit(128 + number)


class _Keeper:
    """Rank 0's end: a record of every pass, a row of the first, and a line now and then."""

    def __init__(self, opened: Opened, config: SoakConfig) -> None:
        self._opened = opened
        self._config = config
        self._rows = opened.run.writer()
        self._lines = LineWriter(opened.run.path / SOAK)
        self._kept = {row.point for row in opened.run.records().rows}
        first = datetime.fromisoformat(opened.run.info.attempts[0].started_utc)
        self._before_s = max(0.0, (datetime.now(UTC) - first).total_seconds())
        self._began = time.monotonic()
        self._said_at = self._began

    def close(self) -> None:
        """Close both files."""
        self._rows.close()
        self._lines.close()

    def take(self, number: int, measured: Sequence[tuple[Point, Measurement]]) -> None:
        """Keep one pass."""
        now = utc_text(datetime.now(UTC))
        elapsed_s = round(self._before_s + time.monotonic() - self._began, 3)
        attempt = self._opened.run.attempt
        self._lines.append_all(
            [
                _pass_of(p, m, number=number, attempt=attempt, elapsed_s=elapsed_s, now=now)
                for p, m in measured
            ]
        )
        for point, measurement in measured:
            if point not in self._kept or measurement.wrong:
                self._kept.add(point)
                self._rows.append(
                    make_row(
                        point,
                        measurement,
                        self._opened.predicted.get(point),
                        backend=self._config.backend,
                        attempt=attempt,
                        time_utc=now,
                    )
                )
        self._say(number, measured)

    def _say(self, number: int, measured: Sequence[tuple[Point, Measurement]]) -> None:
        now = time.monotonic()
        if now - self._said_at < max(5.0, self._config.duration_s / _MOST_SAID):
            return
        self._said_at = now
        share = min(1.0, (now - self._began) / self._config.duration_s)
        medians = ", ".join(f"{m.time_us_p50:.4g} us" for _, m in measured[:4])
        print(f"clusterlab: {share:.0%}, pass {number}: {medians}", file=sys.stderr, flush=True)


def _pass_of(
    point: Point, measured: Measurement, *, number: int, attempt: int, elapsed_s: float, now: str
) -> SoakPass:
    conditions = measured.conditions
    return SoakPass(
        number=number,
        attempt=attempt,
        elapsed_s=elapsed_s,
        time_utc=now,
        collective=point.collective,
        dtype=point.dtype,
        op=point.op,
        in_place=point.in_place,
        requested_bytes=point.requested_bytes,
        size_bytes=point.size_bytes,
        iterations=measured.samples or measured.iterations,
        time_us_loop=measured.time_us_loop,
        time_us_p50=measured.time_us_p50,
        time_us_min=measured.time_us_min,
        time_us_max=measured.time_us_max,
        time_us_p95=measured.time_us_p95,
        wrong=measured.wrong,
        gpu_clock_mhz=conditions.gpu_clock_mhz,
        gpu_temp_c=conditions.gpu_temp_c,
        throttled=conditions.throttled,
    )
