"""``clusterlab topo import``: other tools' files as one fabric."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clusterlab.cli.output import output_file
from clusterlab.core.errors import ExitCode
from clusterlab.core.jsontext import json_text

_EXAMPLE = """Examples:

  nvidia-smi topo -m > node.txt; nvidia-smi nvlink -s > nvlink.txt

  clusterlab topo import node.txt nvlink.txt -o node.yaml; clusterlab predict --fabric node.yaml

  clusterlab topo import node.txt --gpu H100 -o node.yaml

  clusterlab topo import node.xml ibnetdiscover.out topology.conf -o fabric.yaml

  clusterlab topo import ibnetdiscover.out --json | jq .findings

Some findings only the files show (a listing's odd lines, Slurm against the cables): they are printed here.

Exit codes: 0 imported, whatever was found (`topo check` exits by it), 2 no fabric or not readable.
"""


def import_files(
    files: Annotated[list[Path], typer.Argument(help="Files, or - for standard input.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="Write the fabric here, for --fabric and the like.",
            callback=output_file,
        ),
    ] = None,
    system: Annotated[
        bool,
        typer.Option(
            "--system", help="Take NCCL's system section of logs that hold tables as well."
        ),
    ] = False,
    gpu: Annotated[
        str | None,
        typer.Option("--gpu", metavar="MODEL", help="The GPUs' model, for files that name none."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="What was found as JSON.")] = False,
) -> int:
    """Read NCCL/RCCL XML, nvidia-smi topo -m/-p2p, nvlink -s, ibnetdiscover, ibstat, Slurm's
    topology.conf/yaml, lstopo XML, rocm-smi, topograph, InfraGraph, ASTRA-sim or NCCL_DEBUG=INFO logs.

    What each file is, is told from its content. Parts merge: a node, the network, Slurm's placement.
    """
    from clusterlab.cli.output import write_output
    from clusterlab.cli.topo_text import findings_text, summary_text
    from clusterlab.topology.design.saving import fabric_to_yaml
    from clusterlab.topology.importing.files import read_files, with_checks
    from clusterlab.topology.importing.imported import NotAFabricError

    try:
        imported = with_checks(read_files(files, system=system, gpu=gpu))
    except NotAFabricError as refusal:
        if as_json:
            typer.echo(json_text(refusal.to_json()))
        typer.echo(f"clusterlab: {refusal}", err=True)
        return ExitCode.USAGE
    if output is not None:
        write_output(output, fabric_to_yaml(imported.fabric), sources=files)
    if as_json:
        typer.echo(json_text(imported.to_json()))
    else:
        typer.echo(summary_text(imported.fabric))
        typer.echo(findings_text(imported.findings))
    return ExitCode.OK


def add(topo: typer.Typer) -> None:
    """Add this file's command to ``clusterlab topo``."""
    topo.command("import", epilog=_EXAMPLE)(import_files)
