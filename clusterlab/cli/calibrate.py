"""``clusterlab calibrate``: a system's own constants, from what was measured on it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clusterlab.cli.output import output_file
from clusterlab.core.jsontext import json_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterlab.cost.calibrated.calibration import SystemCalibration
    from clusterlab.runs.calibrating.calibrate import CalibrateReport
    from clusterlab.runs.calibrating.hold_out import Errors

_EXAMPLE = """Examples:

  clusterlab import all_reduce.log all_gather.log --system mine --gpu H100-SXM -o mine.csv

  clusterlab calibrate mine.csv -o cal.yaml

  clusterlab predict --fabric hgx-h100 --calibration cal.yaml --timing library -b 8 -e 1G -f 8

  clusterlab calibrate mine.csv --hold-out n=4

  clusterlab calibrate mine.csv --system mine --hold-out nccl_version=2.27.3 --json

  clusterlab calibrate runs/20261130T115326Z-all_reduce-0d369c --hold-out half

Rows are CSV files as `predict score` reads them and `import` writes them, or run directories of NCCL. They
have to be of one machine: 8 or more of 4 or more sizes, better from 8 B to 1 GiB by factors of two, of each
collective, with all numbers of ranks and releases of NCCL that will be asked for. What was not measured is
predicted too, with a note and a wider interval.

--hold-out keeps rows from the fit and scores them (n, n_nodes, nccl_version, collective, dtype, table_id;
half: every second size of each collective, type and number of ranks; given several times: rows that meet
all). The file that -o names is then of the other rows.

Of a run's rows the constants are fitted to those of a CUDA graph, else direct calls, else eager ones
(--timing); the others, where the host could not issue them faster, give the least time between such calls.

Exit codes: 0 calibrated, 2 not readable, of several systems or machines, too few rows.
"""
_MOST_MOVED = 6


def calibrate(
    inputs: Annotated[
        list[Path],
        typer.Argument(help="CSV files of measurements (- for standard input) or run directories."),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="Write the calibration here (YAML).", callback=output_file
        ),
    ] = None,
    system: Annotated[
        str | None, typer.Option("--system", help="Of several systems in the files, this one.")
    ] = None,
    fabric: Annotated[
        str | None,
        typer.Option("--fabric", help="The machine, whatever the files say of it."),
    ] = None,
    hold_out: Annotated[
        list[str] | None,
        typer.Option(
            "--hold-out",
            metavar="KEY=VALUE|half",
            help="Keep these rows from the fit and score them; may be repeated.",
        ),
    ] = None,
    timing: Annotated[
        str | None,
        typer.Option("--timing", help="Fit rows of this timing: direct, graph or eager."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Fit NCCL's constants to one system's measurements; say how far off they are on rows left out."""
    from clusterlab.cli.output import write_output
    from clusterlab.cost.calibrated.file import to_yaml
    from clusterlab.runs.calibrating.calibrate import CalibrateOptions, report_data
    from clusterlab.runs.calibrating.calibrate import calibrate as run

    report = run(
        CalibrateOptions(tuple(inputs), system, fabric, tuple(hold_out or ()), timing),
        progress=lambda text: typer.echo(f"clusterlab: {text}", err=True),
    )
    if output is not None:
        write_output(output, to_yaml(report.calibration), sources=inputs)
    if as_json:
        typer.echo(json_text(report_data(report)))
        return
    for line in _lines(report):
        typer.echo(line)


def _lines(report: CalibrateReport) -> Iterator[str]:
    calibration = report.calibration
    yield f"{calibration.system}: {calibration.machine}; {report.rows} points"
    yield from _seen_lines(calibration)
    yield ""
    yield "constants that moved most from those of the class"
    yield from _constant_lines(calibration)
    yield ""
    yield from _score_lines(calibration)
    if report.held_out:
        yield ""
        yield from _held_lines(report)
    yield from (f"note: {note}" for note in report.notes)


def _seen_lines(calibration: SystemCalibration) -> Iterator[str]:
    from clusterlab.core.sizes import human_size

    for seen in calibration.seen:
        least, largest = map(human_size, seen.sizes_bytes)
        nodes = f" on {_listed(seen.nodes)} nodes" if seen.nodes != (1,) else ""
        yield (
            f"  {seen.collective:<15} {_listed(seen.ranks)} ranks{nodes}, {least} to {largest}, "
            f"{seen.rows} points"
        )
    for launch in calibration.launches:
        yield (
            f"  {launch.issue} calls: {launch.time_us:.3g} µs from one to the next at least "
            f"({launch.low_us:.3g} to {launch.high_us:.3g}, {launch.points} points)"
        )
    if calibration.versions:
        yield f"  {calibration.machine.library.upper()} {', '.join(calibration.versions)}"


def _listed(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))


def _constant_lines(calibration: SystemCalibration) -> Iterator[str]:
    def moved(value: float, class_value: float) -> float:
        return abs(math.log(value / class_value)) if value > 0 and class_value > 0 else 0.0

    ordered = sorted(calibration.constants, key=lambda c: -moved(c.value, c.class_value))
    for c in ordered[:_MOST_MOVED]:
        unit = "" if c.unit == "1" else f" {c.unit}"
        yield f"  {c.name:<22}{c.value:>11.4g}{unit:<5} class {c.class_value:.4g}"


_SCORE = "{:<26}{:>8}{:>9}{:>9}{:>9}{:>13}{:>12}{:>12}"


def _score_lines(calibration: SystemCalibration) -> Iterator[str]:
    titles = (
        "left out",
        "points",
        "MAPE",
        "median",
        "p90",
        "in interval",
        "alpha-beta",
        "NCCL's own",
    )
    yield _SCORE.format(*titles)
    names = {"sizes": "every fourth size", "ranks": "a number of ranks"}
    for s in calibration.scores:
        yield _SCORE.format(
            names[s.left_out], s.points, _pct(s.mape_pct), _pct(s.median_pct), _pct(s.p90_pct),
            _pct(100 * s.coverage), _pct(s.alpha_beta_mape_pct), _pct(s.library_mape_pct),
        )  # fmt: skip


_HELD = "{:<18}{:>6}{:>9}{:>9}{:>9}{:>13}{:>15}{:>16}{:>16}"


def _held_lines(report: CalibrateReport) -> Iterator[str]:
    titles = (
        "held out",
        "rows",
        "MAPE",
        "median",
        "p90",
        "in interval",
        "class alone",
        "alpha-beta",
        "NCCL's own",
    )
    yield _HELD.format(*titles)
    for s in report.held_out:
        ours = s.calibrated
        yield _HELD.format(
            s.group, s.n, _pct(ours.mape_pct if ours else None),
            _pct(ours.median_pct if ours else None), _pct(ours.p90_pct if ours else None),
            _pct(s.coverage_pct), _both(s.by_class), _both(s.alpha_beta), _both(s.library),
        )  # fmt: skip
    if report.held_out[0].unpredicted:
        yield f"note: {report.held_out[0].unpredicted} rows held out could not be predicted"


def _both(errors: Errors | None) -> str:
    """MAPE / p90."""
    return "-" if errors is None else f"{errors.mape_pct:.1f} / {errors.p90_pct:.1f}%"


def _pct(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}%"


def register(root: typer.Typer) -> None:
    """Add this file's command to the root command."""
    root.command("calibrate", epilog=_EXAMPLE)(calibrate)
