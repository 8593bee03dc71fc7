"""``clusterlab topo route``: the way from one device to another."""

from __future__ import annotations

from typing import Annotated

import typer

from clusterlab.core.jsontext import json_text


def route(
    fabric: Annotated[str, typer.Argument(help="A name of `topo list`, or a YAML file.")],
    src: Annotated[str, typer.Argument(metavar="SRC", help="A GPU or NIC: n0/gpu3.")],
    dst: Annotated[str, typer.Argument(metavar="DST", help="Where to.")],
    policy: Annotated[
        str, typer.Option("--policy", help="How switches choose: hash, adaptive or pinned.")
    ] = "hash",
    label: Annotated[
        int,
        typer.Option("--label", min=0, help="Flow label (queue pair): other flows, other hashes."),
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="The path as JSON.")] = False,
) -> int:
    """Print the path from SRC to DST: NCCL's type, every device and link, GB/s per direction.

    Exit code 3 when nothing leads there.
    """
    from clusterlab.core.errors import ExitCode
    from clusterlab.topology.opening import open_fabric
    from clusterlab.topology.routing.explain import trace
    from clusterlab.topology.routing.policy import policy_named

    found = trace(open_fabric(fabric), src, dst, policy_named(policy), label=label)
    typer.echo(json_text(found.to_json()) if as_json else found.text())
    return ExitCode.NO_VERDICT if found.type == "DIS" else ExitCode.OK


def add(topo: typer.Typer) -> None:
    """Add this file's command to ``clusterlab topo``."""
    topo.command("route", epilog="Example: clusterlab topo route dgx-h100-2node n0/gpu0 n1/gpu5")(
        route
    )
