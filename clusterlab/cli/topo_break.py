"""``clusterlab topo break``: a fabric with failures, which every command accepts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

_EXAMPLE = """Examples:

  clusterlab topo break superpod-h100-4su 'leaf3/spine2#1' -o broken.yaml

  clusterlab topo break superpod-h100-4su osfp4@n2 spine5 n7/nic3:half

  clusterlab predict all_reduce --fabric broken.yaml -n 64

What can break: a device (leaf7, n5/nic3, n0/nvswitch2), a host (n5), a connection (leaf3/spine2) or one
cable of it (leaf3/spine2#1, from 0), a cage of NICs (osfp4@n2), plane1, rail3; after it :half, :0.25 or
:8/16 is what is left. In names * and ? match anything, [0-3,7] these numbers.
"""


def break_it(
    fabric: Annotated[str, typer.Argument(help="A name of `topo list`, or a file.")],
    what: Annotated[list[str], typer.Argument(help="What is down or degraded.")],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write the broken fabric here, for --fabric."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="What was lost, as JSON.")] = False,
) -> None:
    """Take links, NICs, cages, switches, planes or hosts down, or degrade them; say what that cost."""
    from clusterlab.cli.topo_text import damage_text
    from clusterlab.topology.breaking import break_fabric, broken_yaml
    from clusterlab.topology.damage import damage
    from clusterlab.topology.opening import open_fabric

    whole = open_fabric(fabric)
    broken = break_fabric(whole, what)
    if output is not None:
        from clusterlab.records.files import write_atomic

        write_atomic(output, broken_yaml(_base(fabric), whole.digest, what).encode())
    lost = damage(whole, broken)
    typer.echo(json.dumps(lost.to_json()) if as_json else damage_text(lost))
    if output is not None:
        typer.echo(f"clusterlab: {output}", err=True)


def _base(fabric: str) -> str:
    """A design by its name, a file by its whole path: the broken one may lie anywhere."""
    from clusterlab.topology.design import is_file

    return str(Path(fabric).resolve()) if is_file(fabric) else fabric


def add(topo: typer.Typer) -> None:
    """Add this file's command to ``clusterlab topo``."""
    topo.command("break", epilog=_EXAMPLE)(break_it)
