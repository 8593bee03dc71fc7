"""``clusterlab topo``: the fabrics that predictions are made on."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

app = typer.Typer(help="Fabrics: what connects the ranks.", no_args_is_help=True)


@app.command("list", epilog="Example: clusterlab topo list")
def list_fabrics() -> None:
    """Print the names of the designs that travel with clusterlab."""
    from clusterlab.topology.design import list_designs

    for name in list_designs():
        typer.echo(name)


@app.command("show", epilog="Example: clusterlab topo show hgx-h100")
def show(
    fabric: Annotated[str, typer.Argument(help="A name of `topo list`, or a YAML file.")],
    as_json: Annotated[bool, typer.Option("--json", help="The summary as JSON.")] = False,
) -> None:
    """Check a fabric and print what it holds: devices by kind, links by class and speed."""
    from clusterlab.topology.opening import open_fabric
    from clusterlab.topology.summary import summary

    data = summary(open_fabric(fabric))
    typer.echo(json.dumps(data) if as_json else _text(data))


def _text(data: dict[str, Any]) -> str:
    lines = [f"{data['name']}: {data['description']}"]
    lines += [f"  {count:6d} {kind}" for kind, count in data["devices"].items()]
    for link in data["links"]:
        speed = "unknown" if link["GBps"] is None else f"{link['GBps']:g} GB/s each way"
        lines.append(f"  {link['count']:6d} {link['class']} links, {speed}")
    return "\n".join(lines)


def register(root: typer.Typer) -> None:
    """Add this file's commands to the root command."""
    root.add_typer(app, name="topo")
