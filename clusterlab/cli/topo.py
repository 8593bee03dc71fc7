"""``clusterlab topo``: what connects the ranks. One file per sub-command beside this one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clusterlab.cli import (
    topo_break,
    topo_check,
    topo_discover,
    topo_export,
    topo_import,
    topo_route,
)
from clusterlab.cli.output import output_file
from clusterlab.core.jsontext import json_text

app = typer.Typer(
    help="Fabrics: what connects the ranks, from a design, other tools' files or this machine.",
    no_args_is_help=True,
)


@app.command("list", epilog="Example: clusterlab topo list")
def list_fabrics(
    as_json: Annotated[
        bool, typer.Option("--json", help="Names and descriptions as JSON.")
    ] = False,
) -> None:
    """Print the designs that travel with clusterlab."""
    from clusterlab.topology.design.load import described_designs

    designs = described_designs()
    if as_json:
        typer.echo(json_text([{"name": n, "description": d} for n, d in designs.items()]))
        return
    width = max(map(len, designs))
    for name, description in designs.items():
        typer.echo(f"{name:{width}s}  {description}")


@app.command(
    "show",
    epilog="""Examples:

  clusterlab topo show hgx-h100

  clusterlab topo show broken.yaml --svg broken.svg

Exit codes: 0 shown, 2 not readable.
""",
)
def show(
    fabric: Annotated[str, typer.Argument(help="A name of `topo list`, or a file.")],
    as_json: Annotated[bool, typer.Option("--json", help="The summary as JSON.")] = False,
    svg: Annotated[
        Path | None,
        typer.Option("--svg", help="Draw it here, failures marked.", callback=output_file),
    ] = None,
) -> None:
    """Print what a fabric holds: devices, links by speed, rails, oversubscription; draw it."""
    from clusterlab.cli.topo_text import summary_text
    from clusterlab.topology.opening import open_fabric
    from clusterlab.topology.summary import summary

    found = open_fabric(fabric)
    if svg is not None:
        from clusterlab.cli.output import write_output
        from clusterlab.topology.drawing.svg import fabric_svg

        write_output(svg, fabric_svg(found))
    typer.echo(json_text(summary(found)) if as_json else summary_text(found))


for _command in (topo_import, topo_discover, topo_export, topo_check, topo_break, topo_route):
    _command.add(app)


def register(root: typer.Typer) -> None:
    """Add this file's commands to the root command."""
    root.add_typer(app, name="topo")
