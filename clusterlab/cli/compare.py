"""``clusterlab compare``: runs beside each other."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from clusterlab.cli.output import output_file
from clusterlab.core.errors import ExitCode
from clusterlab.core.jsontext import json_text

_EXAMPLE = """Examples:

  clusterlab compare runs/20261130T123248Z-before-f4bed0 runs/20261130T123259Z-after-952380

  clusterlab compare before.log after.log

  clusterlab compare BEFORE AFTER --repeat BEFORE2 --repeat BEFORE3 --json | jq .verdict

  clusterlab compare rows.csv#table-1 rows.csv#table-2 --noise 2%

  clusterlab compare BEFORE AFTER --html compare.html

Each further run is compared with the first. Ratios are of times: above 1 is slower. A regression is a
slowdown of one collective in one band of sizes by more than runs differ by themselves, with 1 % chance of
error for all of them together; how far runs differ, and how that is known, is printed.

Whether a second run of the same sweep finds the same medians point by point: clusterlab runs reproduce.

Exit codes: 0 no regression, 1 regression or wrong data, 2 bad input, 3 cannot be compared, or not enough.
"""


def compare(
    first: Annotated[
        str,
        typer.Argument(
            metavar="A", help="Run, records.jsonl, CSV (#TABLE), nccl-tests' text or -J file."
        ),
    ],
    others: Annotated[list[str], typer.Argument(metavar="B…", help="What is compared with it.")],
    repeat: Annotated[
        list[str] | None,
        typer.Option("--repeat", help="Another run of what A ran: says how far such runs differ."),
    ] = None,
    noise: Annotated[
        str | None,
        typer.Option("--noise", help="How far runs differ (standard deviation of the ratio): 2%."),
    ] = None,
    allow_different: Annotated[
        str, typer.Option("--allow-different", help="fabric: compare different ones all the same.")
    ] = "",
    allow_missing: Annotated[
        bool,
        typer.Option("--allow-missing", help="Judge the points in common where rows are missing."),
    ] = False,
    points: Annotated[bool, typer.Option("--points", help="Every point, not the largest.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html",
            metavar="FILE",
            help="Write it as one self-contained page, too.",
            callback=output_file,
        ),
    ] = None,
) -> int:
    """Compare runs: what differs, how much faster or slower, and whether that is a regression."""
    from clusterlab.cli.compare_text import comparison_lines
    from clusterlab.cli.shown import shown_lines
    from clusterlab.runs.comparing.sides import read_side, read_sides
    from clusterlab.runs.words import percentage, words_of
    from clusterlab.verdict.against.comparison import against
    from clusterlab.verdict.against.pairing import ALLOWABLE
    from clusterlab.verdict.against.to_json import comparison_to_json

    allowed = words_of(allow_different, ALLOWABLE, where="--allow-different")
    stated = None if noise is None else percentage(noise, where="--noise")
    reference = read_side(first)
    repeats = read_sides(repeat or [])
    found = [
        against(
            reference,
            read_side(other),
            repeats=repeats,
            stated_noise=stated,
            allowed=allowed,
            allow_missing=allow_missing,
        )
        for other in others
    ]
    if html is not None:
        from clusterlab.cli.output import write_output
        from clusterlab.report.compared.page import compare_page

        sides = (first, *others)
        again = [word for one in repeat or [] for word in ("--repeat", one)]
        again += ["--noise", noise] if noise is not None else []
        again += ["--allow-different", allow_different] if allow_different else []
        again += ["--allow-missing"] if allow_missing else []
        command = shlex.join(("clusterlab", "compare", *sides, *again, "--html", str(html)))
        page = compare_page(found, sides, command)
        write_output(html, page, sources=map(Path, (*sides, *(repeat or []))))
    if as_json:
        comparisons = [comparison_to_json(one) for one in found]
        worst = min((one.outcome for one in found), key=_GRAVITY.index)
        typer.echo(json_text({"verdict": worst.value, "comparisons": comparisons}))
    else:
        for i, one in enumerate(found):
            lines = [*([""] if i else []), *comparison_lines(one, all_points=points)]
            typer.echo(shown_lines(lines))
    codes = {one.outcome.exit_code for one in found}
    return next(c for c in (ExitCode.FINDING, ExitCode.NO_VERDICT, ExitCode.OK) if c in codes)


_GRAVITY = ["invalid", "regression", "no_verdict", "improvement", "same"]


def register(app: typer.Typer) -> None:
    """Add this file's command to ``clusterlab``."""
    app.command("compare", epilog=_EXAMPLE)(compare)
