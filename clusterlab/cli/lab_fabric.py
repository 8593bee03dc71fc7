"""``clusterlab lab`` with a fabric: links that fail, lose rate and heal; measured against the design."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from clusterlab.cli.lab_text import print_broken, print_rates, progress_line
from clusterlab.core.errors import ExitCode, UsageError
from clusterlab.core.jsontext import json_text

if TYPE_CHECKING:
    from clusterlab.lab.fabric_of_lab import LabFabric

LabName = Annotated[str, typer.Option("--name", help="Which lab, where several are up.")]
_LINKS = "A link as `topo break` calls it (leaf0/spine1, n2/nic0), a switch or rail1."


def design_of(fabric: str, routing: str, given: Mapping[str, object]) -> LabFabric:
    """The design of ``lab up --fabric``. Raises UsageError for sizes that the design already says."""
    from clusterlab.core.suggest import unknown
    from clusterlab.lab.fabric_of_lab import open_lab_fabric
    from clusterlab.lab.spec import ROUTINGS

    if routing not in ROUTINGS:
        raise unknown("routing", routing, ROUTINGS, where="--routing")
    for option, value in given.items():
        if value is not None:
            raise UsageError(
                f"--{option} beside --fabric",
                expected=f"one of them: the fabric says how many {option}",
            )
    return open_lab_fabric(fabric, routing)


def degrade(
    links: Annotated[list[str], typer.Argument(metavar="LINK…", help=_LINKS)],
    to: Annotated[str, typer.Option("--to", help="What is left: 50%, 0.5, half or 8/16.")],
    name: LabName = "default",
) -> None:
    """Leave a part of a link's rate, in both directions, at once. Of its whole rate, not of what is left."""
    from clusterlab.lab import faults, labs

    print_broken(faults.degrade(labs.find(name), links, to))


def fail(
    links: Annotated[list[str], typer.Argument(metavar="LINK…", help=_LINKS)],
    name: LabName = "default",
) -> None:
    """Take a link down; switches route around it where they can, as soon as this command returns."""
    from clusterlab.lab import faults, labs

    print_broken(faults.fail(labs.find(name), links))


def heal(
    links: Annotated[
        list[str] | None, typer.Argument(metavar="[LINK…]", help="As broken (default: all).")
    ] = None,
    name: LabName = "default",
) -> None:
    """Give links their whole rate back."""
    from clusterlab.lab import faults, labs

    print_broken(faults.heal(labs.find(name), links or []))


def fabric_file(name: LabName = "default") -> None:
    """Print the file that --fabric takes: the lab's design with what is broken now."""
    from clusterlab.lab import faults, labs

    lab = labs.find(name)
    faults.broken_now(lab)
    typer.echo(lab.layout.fabric)


def check(
    nodes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NODE…]", help="Only between these (default: all)."),
    ] = None,
    tolerance: Annotated[
        float, typer.Option(min=0.01, max=0.9, help="How far from the design is fine (a share).")
    ] = 0.1,
    seconds: Annotated[
        float, typer.Option(min=0.2, max=60, help="How long each pair of NICs sends.")
    ] = 0.5,
    as_json: Annotated[bool, typer.Option("--json", help="Every pair, for scripts.")] = False,
    name: LabName = "default",
) -> int:
    """Measure every two NICs by TCP against the design. Exit status 1 when a pair is off."""
    from clusterlab.lab import labs
    from clusterlab.lab.check import check_lab, suspects

    with progress_line() as progress:
        rates = check_lab(
            labs.find(name),
            nodes or (),
            tolerance=tolerance,
            seconds=seconds,
            progress=progress,
        )
    off = [rate for rate in rates if rate.is_off(tolerance)]
    links = suspects(rates, tolerance)
    if as_json:
        pairs = [rate.to_json(tolerance) for rate in rates]
        typer.echo(json_text({"pairs": pairs, "off": len(off), "suspects": links}))
    else:
        print_rates(rates, off, links, tolerance)
    return ExitCode.FINDING if off else ExitCode.OK


def add(lab: typer.Typer) -> None:
    """Add this file's commands to ``clusterlab lab``."""
    lab.command("degrade", epilog="Example: clusterlab lab degrade leaf0/spine1 --to 50%")(degrade)
    lab.command("fail", epilog="Example: clusterlab lab fail leaf0/spine1")(fail)
    lab.command("heal", epilog="Example: clusterlab lab heal leaf0/spine1")(heal)
    lab.command("fabric", epilog="Example: clusterlab predict --fabric $(clusterlab lab fabric)")(
        fabric_file
    )
    lab.command("check", epilog="Example: clusterlab lab check --seconds 2")(check)
