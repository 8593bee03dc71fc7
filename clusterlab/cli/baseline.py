"""``clusterlab baseline``: reference figures of a machine, saved and checked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clusterlab.cli.output import output_file
from clusterlab.core.errors import ExitCode
from clusterlab.core.jsontext import json_text

if TYPE_CHECKING:
    from clusterlab.verdict.baseline.check import Checked, PointChecked
    from clusterlab.verdict.baseline.model import Baseline, Made

_SAVE_EXAMPLE = """Examples:

  clusterlab baseline save RUN1 RUN2 RUN3 -o baseline.yaml

  clusterlab baseline save nightly.log -o baseline.yaml --tolerance 5%

  clusterlab baseline save RUN1 RUN2 RUN3 --reframe reference.py --system daint:gpu

A tolerance is what one run in a hundred leaves at a point, from how far the runs differ; of one run, from how
far runs differ on two H200. Three runs or more say it for this machine. The file names who made it, when, and
of what.

A run that was noisy (a tenth of its points unsteady) and a point that was steady in no run are refused by
name, unless --allow-noisy.

Exit codes: 0 saved, 2 bad input, 3 the runs are not of one thing, or one of them is unfit or noisy.
"""
_CHECK_EXAMPLE = """Examples:

  clusterlab baseline check RUN baseline.yaml

  clusterlab baseline check nightly.log baseline.yaml --tolerance 10% --json | jq .verdict

  clusterlab baseline check RUN reference.py --system daint:gpu

With tolerances from the spread, a run is slow where a collective is in a band of sizes, and no verdict where
one point alone is far out (measure again). With stated ones it is slow where any point is outside.

Exit codes: 0 pass or faster, 1 slow or wrong data, 2 bad input, 3 no verdict (another fabric, ranks, timing
mode or version; rows missing or unsteady).
"""
_MOST_SHOWN = 12

app = typer.Typer(help="Reference figures of a machine.", no_args_is_help=True)


@app.command("save", epilog=_SAVE_EXAMPLE)
def save(
    runs: Annotated[
        list[str], typer.Argument(help="Runs, records.jsonl, CSV, nccl-tests' text or -J files.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The baseline's file (YAML).", callback=output_file),
    ] = None,
    tolerance: Annotated[
        str | None, typer.Option("--tolerance", help="For every point, instead of the spread: 5%.")
    ] = None,
    allow_noisy: Annotated[
        bool,
        typer.Option("--allow-noisy", help="Take points that were unsteady while measured, too."),
    ] = False,
    reframe: Annotated[
        Path | None,
        typer.Option(
            "--reframe",
            help="Write ReFrame's references here (Python, or .json).",
            callback=output_file,
        ),
    ] = None,
    system: Annotated[
        str, typer.Option("--system", help="ReFrame's system:partition; * is any.")
    ] = "*",
    as_json: Annotated[bool, typer.Option("--json", help="What was saved, as JSON.")] = False,
) -> int:
    """Save what each point takes, as the median of runs, with a tolerance and where it is from."""
    from dataclasses import asdict

    from clusterlab.cli.output import write_output
    from clusterlab.core.errors import UsageError
    from clusterlab.runs.comparing.baseline_file import baseline_text
    from clusterlab.runs.comparing.baselines import baseline_of, reframe_text
    from clusterlab.runs.words import percentage

    if output is None and reframe is None:
        raise UsageError("no file to write", where="-o", expected="-o FILE, --reframe FILE or both")
    stated = None if tolerance is None else percentage(tolerance, where="--tolerance")
    made = baseline_of(
        str(output or reframe),
        runs,
        tolerance=stated,
        allow_noisy=allow_noisy,
        told=lambda note: typer.echo(f"note: {note}", err=True),
    )
    sources = [Path(run) for run in runs if Path(run).is_file()]
    if output is not None:
        write_output(output, baseline_text(made), sources=sources)
    if reframe is not None:
        write_output(reframe, reframe_text(made, reframe, system=system), sources=sources)
    if as_json:
        typer.echo(json_text(asdict(made)))
    else:
        typer.echo(f"{len(made.points)} points, {_made(made.made)}")
        typer.echo("\n".join(_tolerance(made, None)))
    return ExitCode.OK


@app.command("check", epilog=_CHECK_EXAMPLE)
def check(
    run: Annotated[str, typer.Argument(help="A run, or a file as for save.")],
    baseline: Annotated[
        str, typer.Argument(help="A baseline, ReFrame's references, or another run or file.")
    ],
    tolerance: Annotated[
        str | None, typer.Option("--tolerance", help="For every point, instead of the file's: 5%.")
    ] = None,
    allow_different: Annotated[
        str,
        typer.Option("--allow-different", help="versions, fabric, or both: judge all the same."),
    ] = "",
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Judge what there is where rows are missing.")
    ] = False,
    system: Annotated[
        str | None, typer.Option("--system", help="Which system of ReFrame's references.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> int:
    """Judge a run by a baseline: every point, and the run."""
    from clusterlab.cli.shown import shown_lines
    from clusterlab.core.findings import Verdict
    from clusterlab.runs.comparing.baselines import open_baseline
    from clusterlab.runs.comparing.sides import read_side
    from clusterlab.runs.words import percentage, words_of
    from clusterlab.verdict.baseline.check import ALLOWABLE, checked_to_json
    from clusterlab.verdict.baseline.check import check as judge

    stated = None if tolerance is None else percentage(tolerance, where="--tolerance")
    allowed = words_of(allow_different, ALLOWABLE, where="--allow-different")
    side = read_side(run)
    found = judge(
        open_baseline(baseline, side, system=system),
        side,
        tolerance=stated,
        allowed=allowed,
        allow_missing=allow_missing,
    )
    if as_json:
        typer.echo(json_text(checked_to_json(found)))
    else:
        typer.echo(shown_lines(_lines(found, stated)))
    if found.verdict in {Verdict.SLOW, Verdict.INVALID}:
        return ExitCode.FINDING
    return ExitCode.NO_VERDICT if found.verdict is Verdict.NO_VERDICT else ExitCode.OK


def _lines(found: Checked, stated: float | None) -> Iterator[str]:
    from clusterlab.core.findings import Verdict
    from clusterlab.verdict.against.side import label

    made = found.baseline.made
    yield f"{found.verdict.value}: {'; '.join(found.reasons)}"
    yield f"run      {found.side.name}"
    of = f", {_made(made)}" if made.runs else ""
    yield f"baseline {found.baseline.name}{of}"
    yield from _tolerance(found.baseline, stated)
    for note in found.notes:
        yield f"note: {note}"
    counts = {v: sum(p.verdict is v for p in found.points) for v in Verdict}
    if found.points:
        yield "points: " + ", ".join(f"{n} {v.value}" for v, n in counts.items() if n)
    told = [p for p in found.points if p.verdict is not Verdict.PASS and p.ratio is not None]
    for one in sorted(told, key=_gravity)[:_MOST_SHOWN]:
        times = "" if one.reference_us is None else f"{one.reference_us:.4g} → "
        yield f"  {one.verdict.value}: {label(one.point)}: {times}{one.time_us:.4g} µs, {one.reason}"
    if len(told) > _MOST_SHOWN:
        yield f"  and {len(told) - _MOST_SHOWN} more (--json)"


def _made(made: Made) -> str:
    count = f"{len(made.runs)} run" + ("s" if len(made.runs) > 1 else "")
    return (
        f"made {made.when_utc} by {made.by} of {count}" if made.when_utc != "?" else f"of {count}"
    )


def _tolerance(baseline: Baseline, stated: float | None) -> Iterator[str]:
    if stated is not None:
        yield f"tolerance: {stated:.1%} of every point, as stated now"
        return
    yield f"tolerance: {baseline.tolerance}"
    for name, noise in baseline.noise.items():
        yield f"  {name}: {noise.source}"


def _gravity(one: PointChecked) -> tuple[int, float]:
    order = ("invalid", "slow", "fast_unexpected", "no_verdict")
    return order.index(one.verdict.value), -(one.ratio or 0.0)


def register(root: typer.Typer) -> None:
    """Add this file's commands to the root command."""
    root.add_typer(app, name="baseline")
