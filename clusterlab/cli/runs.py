"""``clusterlab runs``: the run directories themselves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clusterlab.cli import runs_history
from clusterlab.core.errors import ExitCode
from clusterlab.core.jsontext import json_text

if TYPE_CHECKING:
    from clusterlab.core.rows import Row
    from clusterlab.verdict.accuracy import Accuracy
    from clusterlab.verdict.reproduce import Between, Reproduction

_SCORE_EXAMPLE = """Examples:

  clusterlab runs score runs/20261130T115326Z-all_reduce-0d369c

  clusterlab runs score RUN --json | jq '.[0].mape_pct'

How far the predictions that the run kept, made before each point was measured, were from the measurement:
|predicted / measured - 1|. In interval is the share of points whose time lies in the prediction's interval,
nominal the share that such intervals claim to hold. By a calibration, on points that it has not seen:
clusterlab calibrate RUN --hold-out half.

Exit codes: 0 scored, 2 not a run directory, 3 no point has a prediction.
"""
_REPRODUCE_EXAMPLE = """Examples:

  clusterlab runs reproduce FIRST SECOND

  clusterlab runs reproduce FIRST SECOND --json | jq .share_within

The medians of a point agree when they differ by no more than the 95 % intervals that both state, joined, and
2 % more. One point in twenty may miss. What differs in points that were unsteady, or in a noisy run, is no
verdict: repeat it on a quiet machine. Nor is agreement one where most medians may differ by more than 10 %.

Exit codes: 0 reproduced, 1 different and the machine quiet, or wrong data, 2 not two runs, 3 noisy, no
point in common, one run twice, or rows missing.
"""
_MOST_SHOWN = 12

app = typer.Typer(help="Run directories.", no_args_is_help=True)


@app.command("create", epilog='Example: clusterlab runs create --name sweep --job "$SLURM_JOB_ID"')
def create(
    name: Annotated[str, typer.Option("--name", help="Name of the run.")],
    job: Annotated[
        str | None,
        typer.Option("--job", help="Batch job: the directory this job made before is used again."),
    ] = None,
) -> None:
    """Make a run directory before the ranks start, and print its path (for CLUSTERLAB_RUN_DIR)."""
    from clusterlab.runs.directory import run_directory

    typer.echo(run_directory(name, job=job).path)


@app.command("ended", epilog="Example: clusterlab runs ended RUN && echo complete")
def ended(
    run: Annotated[
        Path, typer.Argument(help="A run directory, or its name under $CLUSTERLAB_RUNS.")
    ],
) -> int:
    """Say how a run's latest attempt ended, and exit with its code; 4 when it did not end."""
    from clusterlab.records.run_dir import open_run

    opened = open_run(run)
    attempts = opened.info.attempts
    if not attempts or attempts[-1].exit_code is None:
        what = "no attempt was started" if not attempts else f"attempt {len(attempts)} did not end"
        typer.echo(f"{opened.path}: {what}")
        return ExitCode.DEADLINE
    typer.echo(f"{opened.path}: attempt {len(attempts)} ended with {attempts[-1].exit_code}")
    return attempts[-1].exit_code


@app.command("score", epilog=_SCORE_EXAMPLE)
def score(
    run: Annotated[
        Path, typer.Argument(help="A run directory, or its name under $CLUSTERLAB_RUNS.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="A JSON list on stdout.")] = False,
) -> int:
    """Score the predictions of a run against what it measured: MAPE, median, p90, share in interval."""
    from dataclasses import asdict

    from clusterlab.verdict.accuracy import accuracy

    found = accuracy(_rows(run))
    if as_json:
        typer.echo(json_text([asdict(one) for one in found]))
    else:
        for line in _score_lines(found):
            typer.echo(line)
    if not found:
        typer.echo(f"clusterlab: {run}: no point has a prediction", err=True)
        return ExitCode.NO_VERDICT
    return ExitCode.OK


@app.command("reproduce", epilog=_REPRODUCE_EXAMPLE)
def reproduce(
    first: Annotated[Path, typer.Argument(help="A run directory.")],
    second: Annotated[Path, typer.Argument(help="Another run of the same sweep.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> int:
    """Say whether a second run found what the first one did, within the intervals that they state."""
    from clusterlab.cli.shown import shown_lines
    from clusterlab.runs.comparing.reproducing import reproduced
    from clusterlab.verdict.reproduce import Outcome

    found = reproduced(first, second)
    if as_json:
        typer.echo(json_text(_reproduction_data(found)))
    else:
        for line in _reproduction_lines(found):
            typer.echo(shown_lines([line]))
    codes = {
        Outcome.REPRODUCED: ExitCode.OK,
        Outcome.DIFFERENT: ExitCode.FINDING,
        Outcome.INVALID: ExitCode.FINDING,
    }
    return codes.get(found.outcome, ExitCode.NO_VERDICT)


def _rows(run: Path) -> tuple[Row, ...]:
    from clusterlab.records.run_dir import open_run
    from clusterlab.records.store import latest_rows

    return latest_rows(open_run(run).records().rows).rows


_SCORE = "{:<16}{:>8}{:>9}{:>9}{:>9}{:>13}{:>10}{:>14}"


def _score_lines(found: tuple[Accuracy, ...]) -> Iterator[str]:
    if not found:
        return
    yield _SCORE.format(
        *(
            "predicted",
            "points",
            "MAPE",
            "median",
            "p90",
            "in interval",
            "nominal",
            "library's own",
        )
    )
    for one in found:
        yield _SCORE.format(
            one.group, one.points, _pct(one.mape_pct), _pct(one.median_pct), _pct(one.p90_pct),
            _pct(one.in_interval_pct), _pct(one.nominal_pct), _pct(one.library_mape_pct),
        )  # fmt: skip


def _pct(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}%"


def _reproduction_lines(found: Reproduction) -> Iterator[str]:
    from clusterlab.core.sizes import human_size

    yield f"{found.outcome.replace('_', ' ')}: {found.reason}"
    for name, count in zip(("first", "second"), found.alone, strict=True):
        if count:
            yield f"note: {count} points are in the {name} run only"
    if unstated := sum(not point.stated for point in found.points):
        yield f"note: {unstated} points state no interval of their median"
    for name, one in zip(("first", "second"), found.quiet, strict=True):
        word = "too short" if one.few else "noisy"
        if one.reasons:
            yield f"{name} run {word}: {'; '.join(one.reasons)}"
    outside = sorted(
        (point for point in found.points if not point.within),
        key=lambda point: -abs(point.difference),
    )
    for point in outside[:_MOST_SHOWN]:
        row = point.first
        place = "in place" if row.in_place else "out of place"
        yield (
            f"  {row.collective} {row.dtype} {human_size(row.size_bytes)} {place} {row.timing}: "
            f"{row.time_us_p50:.4g} and {point.second.time_us_p50:.4g} µs ({point.difference:+.1%}, "
            f"{point.allowed:.1%} allowed){'' if point.steady else ', unsteady'}"
        )
    if len(outside) > _MOST_SHOWN:
        yield f"  and {len(outside) - _MOST_SHOWN} more"


def _reproduction_data(found: Reproduction) -> dict[str, object]:
    return {
        "outcome": found.outcome.value,
        "reason": found.reason,
        "points_in_common": len(found.points),
        "share_within": found.share_within,
        "alone": list(found.alone),
        "noisy": [list(one.reasons) for one in found.quiet],
        "points": [_between_data(point) for point in found.points],
    }


def _between_data(point: Between) -> dict[str, object]:
    row = point.first
    return {
        "collective": row.collective,
        "dtype": row.dtype,
        "size_bytes": row.size_bytes,
        "in_place": row.in_place,
        "timing": row.timing,
        "ranks": row.ranks,
        "first_us": row.time_us_p50,
        "second_us": point.second.time_us_p50,
        "difference": point.difference,
        "allowed": point.allowed,
        "within": point.within,
        "steady": point.steady,
    }


def register(root: typer.Typer) -> None:
    """Add this file's commands to the root command."""
    runs_history.register(app)
    root.add_typer(app, name="runs")
