"""``clusterlab import``: other tools' measurements as rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clusterlab.cli.output import output_file
from clusterlab.core.errors import ExitCode
from clusterlab.core.jsontext import json_text

if TYPE_CHECKING:
    from clusterlab.formats.measured.file import MeasuredFile
    from clusterlab.runs.foreign import Foreign

_EXAMPLE = """Examples:

  mpirun -np 16 all_reduce_perf -b 8 -e 8G -f 2 | tee run.log; clusterlab import run.log

  clusterlab import run.log --system dgx-h100 --inter "8x400G IB NDR" --health healthy -o run.csv

  clusterlab import run.log -o - | clusterlab predict score -

  clusterlab import nccl-inspector-*/*.log --json | jq '.[] | select(.busbw_GBps < 300)'

What a file does not say stays empty; what follows from its figures says so (collective_from,
world_size_from).

A file that cannot be read, or holds no measurement, is named; the others' rows come out all the same. The
same content twice is read once. Rows with a time of 0 or figures that no measurement gives are left out and
named.

Exit codes: 0 all read, 1 a finding of severity error (wrong elements), 2 a file holds nothing measured or is
not readable.
"""


def import_measurements(
    files: Annotated[list[Path], typer.Argument(help="Files, or - for standard input.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="Write the rows here as CSV, for predict score; - is stdout.",
            callback=output_file,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The rows as a JSON list.")] = False,
    tuning: Annotated[
        bool,
        typer.Option(
            "--tuning", help="NCCL's table of algorithms and its choices instead, as JSON."
        ),
    ] = False,
    collective: Annotated[
        str | None,
        typer.Option("--collective", help="The collective, where a file does not say it."),
    ] = None,
    ranks: Annotated[
        int | None,
        typer.Option("--ranks", min=1, help="The ranks, where a file does not say them."),
    ] = None,
    system: Annotated[str | None, typer.Option("--system", help="What the machine is.")] = None,
    gpu: Annotated[
        str | None, typer.Option("--gpu", help="The GPU model; replaces the device's own name.")
    ] = None,
    nodes: Annotated[int | None, typer.Option("--nodes", min=1, help="The nodes.")] = None,
    gpus_per_node: Annotated[
        int | None, typer.Option("--gpus-per-node", min=1, help="The GPUs of each node.")
    ] = None,
    intra: Annotated[
        str | None, typer.Option("--intra", help="The fabric inside a node: nvswitch3-900.")
    ] = None,
    inter: Annotated[
        str | None, typer.Option("--inter", help="The fabric between nodes: 8x400G IB NDR; none.")
    ] = None,
    nccl_version: Annotated[
        str | None,
        typer.Option("--nccl-version", help="The release of NCCL, where a file does not say it."),
    ] = None,
    health: Annotated[
        str | None,
        typer.Option("--health", help="What the CSV says of the tables: healthy, unhealthy, …"),
    ] = None,
    table_id: Annotated[
        str | None,
        typer.Option("--table-id", help="Name of the tables in the CSV (the file's name)."),
    ] = None,
) -> int:
    """Read measurements of nccl-tests and rccl-tests (text of all vintages, -J), mscclpp-test, NCCL
    Inspector, and what NCCL's TUNING lines say of its choice.

    What each file is, is told from its content; the fabric in a log is for `topo import`.
    """
    from clusterlab.cli.import_text import findings_lines, summary_lines
    from clusterlab.core.collectives import collective as named
    from clusterlab.formats.measured.file import Given
    from clusterlab.runs.foreign import read_measured

    to_stdout = output is not None and str(output) == "-"
    if to_stdout and (as_json or tuning):
        raise _two_outputs("--json" if as_json else "--tuning")
    given = Given(
        system,
        gpu,
        named(collective).name if collective is not None else None,
        ranks,
        nodes,
        gpus_per_node,
        intra,
        inter,
        None if nccl_version is None else _release(nccl_version),
    )
    foreign = read_measured(files, given)
    _say(foreign)
    read = list(foreign.files)
    if not read:
        return ExitCode.USAGE
    findings = [finding for file in read for finding in file.findings]
    if output is not None:
        _write_csv(output, read, files, table_id, health)
    if tuning:
        _check_tuning(read)
        typer.echo(json_text([file.tuning_json() for file in read]))
    elif as_json:
        rows = (json_text(row.to_json()) for file in read for row in file.rows)
        typer.echo("[" + ",\n".join(rows) + "]")
    else:
        typer.echo("\n".join(summary_lines(read)), err=to_stdout)
    for line in findings_lines(findings):
        typer.echo(line, err=tuning or as_json or to_stdout)
    if foreign.refused:
        return ExitCode.USAGE
    bad = any(finding.severity in {"error", "fatal"} for finding in findings)
    return ExitCode.FINDING if bad else ExitCode.OK


def _release(text: str) -> str | None:
    from clusterlab.runs.typed import version_named

    return version_named(text)


def _two_outputs(option: str) -> Exception:
    from clusterlab.core.errors import UsageError

    return UsageError(
        f"both this and {option} on standard output", where="-o -", expected="one of the two"
    )


def _check_tuning(read: list[MeasuredFile]) -> None:
    """Raise UsageError where no file has a line of NCCL's table or choices."""
    from clusterlab.core.errors import UsageError

    if not any(file.tuning or file.choices for file in read):
        raise UsageError(
            "no TUNING lines",
            where=f"--tuning: {read[0].source}",
            expected="NCCL's log with its table of algorithms or its choices",
            fix="run with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING",
        )


def _say(foreign: Foreign) -> None:
    """Which files gave no rows, and why."""
    for error in foreign.refused:
        typer.echo(f"clusterlab: {error}", err=True)
    for name, first in foreign.repeats:
        typer.echo(f"clusterlab: {name}: the same as {first}, counted once", err=True)


def _write_csv(
    output: Path,
    read: list[MeasuredFile],
    files: list[Path],
    table_id: str | None,
    health: str | None,
) -> None:
    from clusterlab.cli.output import write_output
    from clusterlab.core.errors import UsageError
    from clusterlab.formats.measured.csv_table import (
        name_tables,
        scorable,
        to_csv,
        wrong_tables,
    )

    rows = [row for file in read for row in file.rows]
    kept = [row for row in rows if scorable(row)]
    if not kept:
        raise UsageError(
            f"none of {len(rows)} rows says collective, ranks, size and time",
            where=str(output),
            expected="rows that can be compared",
            fix="say the rest with --collective and --ranks",
        )
    names = name_tables(kept, prefix=table_id)
    text = to_csv(kept, table_ids=names, health=health)
    if str(output) == "-":
        typer.echo(text, nl=False)
    else:
        write_output(output, text, sources=files)
    if len(kept) < len(rows):
        typer.echo(
            f"clusterlab: {len(rows) - len(kept)} rows of size 0 or without collective, ranks or time "
            f"are not in the CSV",
            err=True,
        )
    tables = wrong_tables(kept)
    wrong = sum((row.source, row.table) in tables for row in kept)
    if wrong:
        typer.echo(
            f"clusterlab: {'all' if wrong == len(kept) else wrong} of {len(kept)} rows are of tables with "
            f"wrong elements: unhealthy in the CSV, and `predict score` leaves them out",
            err=True,
        )


def register(app: typer.Typer) -> None:
    """Add this file's command to ``clusterlab``."""
    app.command("import", epilog=_EXAMPLE)(import_measurements)
