"""``clusterlab self-calibrate``: measure this host's own constants now."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from clusterlab.core.jsontext import json_text


def self_calibrate(
    ranks: Annotated[int, typer.Option("--ranks", "-g", min=2, help="For so many ranks.")] = 4,
    as_json: Annotated[
        bool, typer.Option("--json", help="The constants and their errors as JSON on stdout.")
    ] = False,
) -> None:
    """Measure this host's constants for gloo (a quarter of a minute), and keep them for predictions.

    The first sweep over so many ranks does it by itself; do it again after a change of kernel or CPU.
    """
    from clusterlab.runs.calibrating.calibration_run import measure_local
    from clusterlab.runs.calibrating.selfcal import fit_and_keep
    from clusterlab.topology.host import read_host

    facts = read_host()
    typer.echo(f"calibrating {ranks} ranks on {facts.description}", err=True)
    times = measure_local(ranks, "gloo")
    calibration = fit_and_keep(
        times, facts, ranks, "gloo", progress=lambda text: typer.echo(text, err=True)
    )
    if as_json:
        typer.echo(json_text(asdict(calibration)))
        return
    for constant in calibration.constants:
        typer.echo(f"{constant.name:<40} {constant.value:12.4g} {constant.unit}")
    typer.echo(f"\n{'collective':<16}{'points':>7}{'median error':>14}{'p90':>8}{'noise':>8}")
    for r in calibration.residuals:
        typer.echo(
            f"{r.collective:<16}{r.points:>7}{r.error_p50_pct:>12.0f} %{r.error_p90_pct:>6.0f} %"
            f"{r.noise_pct:>6.0f} %"
        )


def register(root: typer.Typer) -> None:
    """Add this file's command to the root command."""
    root.command("self-calibrate", epilog="Example: clusterlab self-calibrate --ranks 8")(
        self_calibrate
    )
