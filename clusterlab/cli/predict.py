"""``clusterlab predict``: what a collective should take on a fabric, without measuring anything."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clusterlab.cli import predict_score
from clusterlab.core.sizes import human_size

if TYPE_CHECKING:
    from clusterlab.core.rows import Point
    from clusterlab.cost.types import Prediction

_EXAMPLE = """Examples:

  clusterlab predict --fabric hgx-h100 --collective all_reduce --ranks 8 -b 8 -e 8G -f 16

  clusterlab predict --fabric h200-2 --collective all_to_all --ranks 2 -b 1G --explain

  clusterlab predict --fabric hgx-h100 --collective all --ranks 8 -b 1M --json

  clusterlab predict score nccl_tests.csv
"""


def predict(
    ctx: typer.Context,
    fabric: Annotated[
        str | None,
        typer.Option(
            "--fabric", help="A name of `topo list`, a file (`topo import` reads which), or `host`."
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
    explain: Annotated[
        bool, typer.Option("--explain", help="Also what limits, the alternatives, every constant.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON list on stdout.")] = False,
) -> None:
    """Predict time, algbw and busbw, the bound no schedule beats, and what limits."""
    if ctx.invoked_subcommand is not None:
        return
    if fabric is None:
        raise _no_fabric()
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
        )
    )
    if as_json:
        typer.echo(json.dumps([_data(point, prediction) for point, prediction in found]))
        return
    for line in (*_table(found), *_notes(found)):
        typer.echo(line)
    if explain:
        for line in _explanation(found):
            typer.echo(line)


def _no_fabric() -> Exception:
    """Only `predict` itself needs a fabric: its sub-commands say what they need."""
    from clusterlab.core.errors import UsageError

    return UsageError(
        "missing option '--fabric'",
        where="predict",
        expected="a name of `topo list`, a file, or host",
    )


def _data(point: Point, prediction: Prediction) -> dict[str, Any]:
    from dataclasses import asdict

    return {**asdict(point), **_finite(asdict(prediction))}


def _finite(value: Any) -> Any:
    """JSON has no Infinity: a bandwidth that nothing limits is null."""
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


_COLUMNS = "{:<15}{:>9}{:>11}{:>9}{:>9}{:>9}  {:<18}{}"


def _table(found: list[tuple[Point, Prediction]]) -> list[str]:
    titles = ("collective", "size", "time", "algbw", "busbw", "bound", "how", "limited by")
    units = ("", "", "(us)", "(GB/s)", "(GB/s)", "(GB/s)", "", "")
    lines = [_COLUMNS.format(*titles).rstrip(), _COLUMNS.format(*units).rstrip()]
    for point, p in found:
        lines.append(
            _COLUMNS.format(
                point.collective,
                human_size(point.size_bytes),
                f"{p.time_us:.1f}",
                f"{p.algbw_GBps:.2f}",
                f"{p.busbw_GBps:.2f}",
                f"{p.bound.busbw_GBps:.2f}",
                "/".join(w for w in (p.algorithm, p.protocol) if w),
                f"{p.bottleneck.name} ({p.bottleneck.utilisation:.0%})",
            )
        )
    return lines


def _notes(found: list[tuple[Point, Prediction]]) -> list[str]:
    """What the reader must know of the figures above, each once."""
    return [f"note: {note}" for note in dict.fromkeys(n for _, p in found for n in p.notes)]


def _explanation(found: list[tuple[Point, Prediction]]) -> list[str]:
    point, p = found[-1]
    lines = [
        "",
        f"{point.collective} of {human_size(point.size_bytes)}:",
        f"  bound: {p.bound.time_us:.1f} us, limited by {p.bound.limited_by}",
    ]
    lines += [
        f"  also possible: {'/'.join(w for w in (a.algorithm, a.protocol) if w)}, {a.time_us:.1f} us"
        for a in p.alternatives
    ]
    lines += [f"  {c.name} = {c.value:g} {c.unit}  ({c.source})" for c in p.provenance]
    return lines


def register(root: typer.Typer) -> None:
    """Add this file's command, and those below it, to the root command."""
    app = typer.Typer()
    app.callback(invoke_without_command=True, epilog=_EXAMPLE)(predict)
    app.command("score", epilog=predict_score.EPILOG)(predict_score.score)
    root.add_typer(app, name="predict")
