"""``clusterlab topo discover``: the machine it runs on, or a job's nodes, as one fabric."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clusterlab.cli.output import output_file
from clusterlab.core.jsontext import json_text

if TYPE_CHECKING:
    from clusterlab.topology.importing.imported import Imported

_EXAMPLE = """Examples:

  clusterlab topo discover --matrix                        this machine, as nvidia-smi topo -m has it

  srun --ntasks-per-node=1 clusterlab topo discover -o fabric.yaml

  srun --ntasks-per-node=1 clusterlab topo discover --ibnetdiscover ib.out -o fabric.yaml

Exit codes: 0 seen, 1 a finding of severity error or above, 4 nodes are missing (written without them).
"""


def discover(
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="Write the fabric here, for --fabric and the like.",
            callback=output_file,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="What was found as JSON.")] = False,
    matrix: Annotated[
        bool, typer.Option("--matrix", help="Also each host's matrix, as nvidia-smi topo -m.")
    ] = False,
    ibnetdiscover: Annotated[
        Path | None,
        typer.Option("--ibnetdiscover", help="The switches: a file with ibnetdiscover's output."),
    ] = None,
    facts: Annotated[
        Path | None,
        typer.Option(
            "--facts",
            help="Write what this machine's /sys and NVML say, as JSON.",
            callback=output_file,
        ),
    ] = None,
    deadline_s: Annotated[
        float,
        typer.Option("--deadline", "-T", min=1, help="Seconds that nodes wait for each other."),
    ] = 60.0,
) -> int:
    """Look at GPUs, NVLinks, PCIe, NUMA and NICs through /sys and NVML: no CUDA context, no root.

    Under srun with one task a node, the nodes are joined and the first task writes and prints.
    """
    from clusterlab.runs.diagnosing.discovery import DiscoverOptions, run_discover

    def show(found: Imported) -> None:
        typer.echo(json_text(found.to_json()) if as_json else _text(found, matrix=matrix))

    return run_discover(DiscoverOptions(output, facts, ibnetdiscover, deadline_s), show)


def _text(found: Imported, *, matrix: bool) -> str:
    from clusterlab.cli.topo_text import findings_text, summary_text
    from clusterlab.topology.matrix import render, topo_matrix

    parts = [summary_text(found.fabric)]
    if matrix:
        parts += [f"{h}:\n{render(topo_matrix(found.fabric, h))}" for h in found.fabric.hosts]
    parts += [f"note: {note}" for note in found.facts["notes"]]
    parts.append(findings_text(found.findings))
    return "\n".join(parts)


def add(topo: typer.Typer) -> None:
    """Add this file's command to ``clusterlab topo``."""
    topo.command("discover", epilog=_EXAMPLE)(discover)
