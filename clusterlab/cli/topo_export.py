"""``clusterlab topo export``: a fabric as the file of another tool."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from clusterlab.cli.output import output_file

_EXAMPLE = """Examples:

  clusterlab topo export dgx-h100 --to nccl-xml -o topo.xml       then NCCL_TOPO_FILE=topo.xml

  clusterlab topo export fabric.yaml --to slurm-tree > topology.conf

  clusterlab topo export superpod-h100-1su --to dot | dot -Tsvg > su.svg

Exit codes: 0 written, 2 not readable, or a fabric that the format cannot hold.
"""


class Target(StrEnum):
    """What a fabric can be written as."""

    NCCL_XML = "nccl-xml"
    GRES = "gres"
    SLURM_TREE = "slurm-tree"
    SLURM_BLOCK = "slurm-block"
    SLURM_YAML = "slurm-yaml"
    ASTRA = "astra"
    INFRAGRAPH = "infragraph"
    DOT = "dot"


def export(
    fabric: Annotated[str, typer.Argument(help="A name of `topo list`, or a file.")],
    target: Annotated[Target, typer.Option("--to", help="The format to write.")],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Default: standard output.", callback=output_file),
    ] = None,
    host: Annotated[
        str | None, typer.Option(help="The host that nccl-xml describes. Default: the first.")
    ] = None,
) -> None:
    """Write a fabric for NCCL, Slurm, ASTRA-sim, InfraGraph or Graphviz."""
    from clusterlab.topology.exporting.registry import export_as
    from clusterlab.topology.opening import files_behind, open_fabric

    text = export_as(target.value, open_fabric(fabric), host=host)
    if output is None:
        typer.echo(text, nl=not text.endswith("\n"))
        return
    from clusterlab.cli.output import write_output

    write_output(output, text, sources=files_behind(fabric))


def add(topo: typer.Typer) -> None:
    """Add this file's command to ``clusterlab topo``."""
    topo.command("export", epilog=_EXAMPLE)(export)
