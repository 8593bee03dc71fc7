"""``clusterlab topo break``: a fabric with failures, which every command accepts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clusterlab.cli.output import output_file
from clusterlab.core.jsontext import json_text

if TYPE_CHECKING:
    from clusterlab.topology.fabric import Fabric
    from clusterlab.topology.routing.repair import RepairReport

_EXAMPLE = """Examples:

  clusterlab topo break superpod-h100-4su 'leaf3/spine2#1' -o broken.yaml

  clusterlab topo break superpod-h100-4su osfp4@n2 spine5 n7/nic3:half

  clusterlab topo break superpod-h100-4su spine5 --policy hash

  clusterlab predict --fabric broken.yaml --collective all_reduce --ranks 64 -b 1G

What can break: a device (leaf7, n5/nic3, n0/nvswitch2), a host (n5), a connection (leaf3/spine2) or one
cable of it (leaf3/spine2#1, from 0), a cage of NICs (osfp4@n2), plane1, rail3; after it :half, :0.25 or
:8/16 is what is left. In names * and ? match anything, [0-3,7] these numbers.

Exit codes: 0 broken as asked, 2 not readable, or nothing of that name.
"""


def break_it(
    fabric: Annotated[str, typer.Argument(help="A name of `topo list`, or a file.")],
    what: Annotated[list[str], typer.Argument(help="What is down or degraded.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="Write the broken fabric here, for --fabric.",
            callback=output_file,
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            help="Also what traffic loses until it is routed anew: hash, adaptive or pinned.",
        ),
    ] = None,
    pairs: Annotated[
        int, typer.Option(min=1, max=10_000_000, help="Random pairs of NICs for --policy.")
    ] = 100_000,
    as_json: Annotated[bool, typer.Option("--json", help="What was lost, as JSON.")] = False,
) -> None:
    """Take links, NICs, cages, switches, planes or hosts down, or degrade them; say what that cost."""
    from clusterlab.cli.topo_text import damage_text, repair_text
    from clusterlab.topology.failures.breaking import break_fabric, broken_yaml
    from clusterlab.topology.failures.damage import damage
    from clusterlab.topology.opening import files_behind, open_fabric

    whole = open_fabric(fabric)
    broken = break_fabric(whole, what)
    if output is not None:
        from clusterlab.cli.output import write_output

        write_output(
            output, broken_yaml(_base(fabric), whole.digest, what), sources=files_behind(fabric)
        )
    lost = damage(whole, broken)
    repair = None if policy is None else _repair(whole, broken, policy, pairs)
    if as_json:
        more = {} if repair is None else {"repair": repair.to_json()}
        typer.echo(json_text({**lost.to_json(), **more}))
    else:
        typer.echo(damage_text(lost))
        if repair is not None:
            typer.echo(repair_text(repair))


def _repair(whole: Fabric, broken: Fabric, policy: str, pairs: int) -> RepairReport:
    from clusterlab.topology.routing.network import network_of
    from clusterlab.topology.routing.policy import policy_named
    from clusterlab.topology.routing.repair import random_pairs, repair_report

    before = network_of(whole)
    src, dst = random_pairs(before, pairs)
    return repair_report(before, network_of(broken), src, dst, policy_named(policy))


def _base(fabric: str) -> str:
    """A design by its name, a file by its whole path: the broken one may lie anywhere."""
    from clusterlab.topology.design.load import is_file

    return str(Path(fabric).resolve()) if is_file(fabric) else fabric


def add(topo: typer.Typer) -> None:
    """Add this file's command to ``clusterlab topo``."""
    topo.command("break", epilog=_EXAMPLE)(break_it)
