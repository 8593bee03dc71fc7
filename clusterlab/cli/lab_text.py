"""How the ``lab`` commands print what they found."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from clusterlab.lab.check import PairRate
    from clusterlab.lab.doctor import Check
    from clusterlab.lab.labs import LabStatus
    from clusterlab.lab.readiness import Progress


def print_status(now: LabStatus) -> None:
    """The lab, its daemons, its nodes."""
    if not now.up:
        typer.echo(f"lab {now.name}: not up")
        return
    typer.echo(f"lab {now.name}: up{' (flat)' if now.flat else ''}, {now.run_dir}")
    for daemon, state in (now.daemons or {}).items():
        typer.echo(f"  {daemon:10} {state}")
    for node in now.nodes:
        typer.echo(
            f"  {node.name:10} {node.power:8} {node.state:12} {node.address:12} "
            f"{node.gpus} GPUs, {node.cpus} CPUs"
        )
    if now.fabric:
        typer.echo(f"  fabric     {now.fabric}, {now.routing} routing; --fabric {now.fabric_file}")
        print_broken(now.broken)


def print_broken(broken: Sequence[str]) -> None:
    """The links that are down or degraded."""
    for what in broken:
        typer.echo(f"  broken     {what}")
    if not broken:
        typer.echo("  all links  whole")


def print_checks(checks: list[Check]) -> None:
    """What a lab needs of this machine."""
    for check in checks:
        typer.echo(f"{check.status:8} {check.name}: {check.detail}")
        if check.fix:
            typer.echo(f"{'':8} {check.fix}")


@contextmanager
def progress_line() -> Iterator[Progress]:
    """Where progress goes: one changing line on a terminal, plain lines on stderr elsewhere."""
    if not sys.stderr.isatty():
        yield lambda text: print(text, file=sys.stderr, flush=True)
        return
    from rich.console import Console

    console = Console(stderr=True)
    with console.status("starting") as line:

        def show(text: str) -> None:
            if text.startswith("warning"):
                console.print(text, markup=False, highlight=False)
            else:
                line.update(text)

        yield show


def print_rates(
    rates: Sequence[PairRate], off: Sequence[PairRate], suspects: Sequence[str], tolerance: float
) -> None:
    """What the pairs of NICs got, one line for each rate of the design, then those that are off."""
    for design in sorted({rate.path.GBps for rate in rates}, reverse=True):
        got = [rate.measured_GBps * 1e3 for rate in rates if rate.path.GBps == design]
        wanted = f"{design * 1e3:.4g} MB/s" if design else "no way"
        typer.echo(
            f"{len(got):4} pairs of NICs  design {wanted}, measured {min(got):.1f} to {max(got):.1f}"
        )
    for rate in off:
        path = rate.path
        cables = ", ".join(name for name, _ in path.cables) or "no way"
        typer.echo(
            f"off: {path.name} {rate.measured_GBps * 1e3:.1f} of {path.GBps * 1e3:.1f} MB/s, by {cables}"
        )
    if suspects:
        typer.echo(f"common to all of them and to no other: {', '.join(suspects)}")
    if not off:
        typer.echo(f"all within {tolerance:.0%}")
