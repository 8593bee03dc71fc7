"""``clusterlab predict``: what a collective should take on a fabric, without measuring anything."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clusterlab.cli import predict_score
from clusterlab.core.jsontext import json_text

if TYPE_CHECKING:
    from clusterlab.cost.nccl.explain import Explanation
    from clusterlab.cost.nccl.variable_effects import VariableEffect
    from clusterlab.runs.whatif import PredictedPoint

_EXAMPLE = """Examples:

  clusterlab predict --fabric hgx-h100 --collective all_reduce --ranks 8 -b 8 -e 8G -f 16

  clusterlab predict --fabric superpod-h100-4su --ranks 64 -b 1G --explain

  clusterlab predict --fabric dgx-h100-2node -b 8 -e 1G -f 4 -x NCCL_ALGO=ring --nccl-version 2.27.5

  clusterlab predict --fabric hgx-h100 --collective all --ranks 8 -b 1M --json

  clusterlab calibrate mine.csv -o cal.yaml; clusterlab predict --fabric hgx-h100 --calibration cal.yaml

  clusterlab predict score nccl_tests.csv

NCCL_* variables of this shell's environment are not read: what is predicted is what stands on the command
line. Say -x NCCL_ALGO=ring for what `mpirun -x NCCL_ALGO=ring` would do.

Exit codes: 0 predicted, 2 not possible (more ranks than GPUs, an unknown name, a size of 0).
"""


def predict(
    ctx: typer.Context,
    fabric: Annotated[
        str | None,
        typer.Option(
            "--fabric",
            envvar="CLUSTERLAB_FABRIC",
            help="A name of `topo list`, a file (`topo import` reads which), or `host`.",
        ),
    ] = None,
    collective: Annotated[
        str, typer.Option("--collective", help="One, several with commas, or all.")
    ] = "all_reduce",
    ranks: Annotated[
        int | None, typer.Option("--ranks", "-g", help="Ranks (default: all GPUs of the fabric).")
    ] = None,
    begin: Annotated[str | None, typer.Option("-b", "--minbytes", help="Smallest size.")] = None,
    end: Annotated[str | None, typer.Option("-e", "--maxbytes", help="Largest size.")] = None,
    factor: Annotated[float | None, typer.Option("-f", "--stepfactor", help="Factor.")] = None,
    step: Annotated[str | None, typer.Option("-i", "--stepbytes", help="Or step in bytes.")] = None,
    dtype: Annotated[str, typer.Option("-d", "--datatype", help="Element type.")] = "float",
    op: Annotated[str, typer.Option("-o", "--op", help="Reduction operator.")] = "sum",
    backend: Annotated[
        str, typer.Option("--backend", help="auto (nccl where the fabric has GPUs), nccl or gloo.")
    ] = "auto",
    ranks_per_node: Annotated[
        int | None,
        typer.Option("--ranks-per-node", help="Ranks on each host (default: one a GPU)."),
    ] = None,
    variables: Annotated[
        list[str] | None,
        typer.Option(
            "-x",
            "--env",
            metavar="NAME=VALUE",
            help="A variable of NCCL, as mpirun's -x; may be repeated. The environment is not read.",
        ),
    ] = None,
    nccl_version: Annotated[
        str | None,
        typer.Option(
            "--nccl-version", help="Choose as this NCCL (or RCCL) does (default: newest)."
        ),
    ] = None,
    timing: Annotated[
        str | None,
        typer.Option(
            "--timing",
            help="How calls are issued: eager (torch), graph (captured) or library (nccl-tests). "
            "Default: library.",
        ),
    ] = None,
    routing: Annotated[
        str | None,
        typer.Option(
            "--routing",
            help="How switches choose among equal ways: adaptive (default for NCCL), hash (ECMP) or "
            "pinned (default for gloo). A lab's file says its own.",
        ),
    ] = None,
    calibration: Annotated[
        Path | None,
        typer.Option(
            "--calibration",
            help="Use this system's own constants (a file of `calibrate`), and give an interval.",
        ),
    ] = None,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Of the last point: where the time goes, what limits, why NCCL goes this way, all "
            "other ways, every constant.",
        ),
    ] = False,
    tuning: Annotated[
        bool,
        typer.Option("--tuning", help="NCCL's whole tuning table, as its TUNING log prints it."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON list on stdout.")] = False,
) -> None:
    """Predict time, algbw and busbw, the bound no schedule beats, and what limits."""
    if ctx.invoked_subcommand is not None:
        return
    if fabric is None:
        raise _no_fabric()
    from clusterlab.cli.predict_table import as_data, note_lines, table_lines
    from clusterlab.runs.whatif import PredictOptions, predict_sweep

    found = predict_sweep(
        PredictOptions(
            fabric=fabric,
            collective_text=collective,
            ranks=ranks,
            begin=begin,
            end=end,
            factor=factor,
            step=step,
            dtype_text=dtype,
            op_text=op,
            backend=backend,
            ranks_per_node=ranks_per_node,
            variables=tuple(variables or ()),
            nccl_version=nccl_version,
            timing=timing,
            routing=routing,
            calibration=calibration,
        )
    )
    why = _explained(found[-1]) if explain else None
    effects = _variable_effects(found[-1]) if explain else ()
    table = _tuning_lines(found[-1]) if tuning else []
    if as_json:
        typer.echo(json_text(as_data(found, why, effects, table)))
        return
    lines = [*table_lines(found), *note_lines(found)]
    if explain:
        from clusterlab.cli.predict_explain import explanation_lines

        lines += explanation_lines(found[-1], why, effects)
    for line in (*lines, *([""] if table else []), *table):
        typer.echo(line)


def _explained(found: PredictedPoint) -> Explanation | None:
    """What only NCCL's model has to say."""
    from clusterlab.cost.nccl.explain import explain

    return explain(found.request) if found.request.backend == "nccl" else None


def _variable_effects(found: PredictedPoint) -> tuple[VariableEffect, ...]:
    from clusterlab.cost.nccl.variable_effects import variable_effects

    return variable_effects(found.request, found.prediction)


def _tuning_lines(found: PredictedPoint) -> list[str]:
    from clusterlab.core.errors import UsageError
    from clusterlab.cost.nccl.case import case_of
    from clusterlab.cost.nccl.tuning import format_tuning_table

    if found.request.backend != "nccl":
        raise UsageError(
            "gloo has no tuning table", where="--tuning", expected="--backend nccl and GPUs"
        )
    case = case_of(found.request)
    if case.comm.ranks == 1:
        raise UsageError(
            "one rank: NCCL makes no table", where="--tuning", expected="at least 2 ranks"
        )
    return format_tuning_table(case.comm, case.overrides).splitlines()


def _no_fabric() -> Exception:
    """Only `predict` itself needs a fabric: its sub-commands say what they need."""
    from clusterlab.core.errors import UsageError

    return UsageError(
        "missing option '--fabric'",
        where="predict",
        expected="a name of `topo list`, a file, or host",
    )


def register(root: typer.Typer) -> None:
    """Add this file's command, and those below it, to the root command."""
    app = typer.Typer()
    app.callback(invoke_without_command=True, epilog=_EXAMPLE)(predict)
    app.command("score", epilog=predict_score.EPILOG)(predict_score.score)
    root.add_typer(app, name="predict")
