"""``clusterlab topo check``: what is wrong with a fabric."""

from __future__ import annotations

from typing import Annotated

import typer

from clusterlab.core.errors import ExitCode
from clusterlab.core.jsontext import json_text

_EXAMPLE = """Examples:

  clusterlab topo check fabric.yaml

  clusterlab topo check ibnetdiscover.out --json | jq '.findings[] | .code'

Exit codes: 0 nothing of severity error, 1 a finding of severity error or above, 2 not readable.
"""


def check_fabric(
    fabric: Annotated[str, typer.Argument(help="A name of `topo list`, or a file.")],
    as_json: Annotated[bool, typer.Option("--json", help="The findings as JSON.")] = False,
) -> int:
    """Look for cross-wired rails, missing uplinks, full switches, narrow links, far NICs and the like."""
    from clusterlab.cli.topo_text import findings_text
    from clusterlab.core.findings import Severity
    from clusterlab.topology.opening import open_with_findings

    found, findings = open_with_findings(fabric)
    if as_json:
        plain = {"fabric": found.name, "findings": [f.to_json() for f in findings]}
        typer.echo(json_text(plain))
    else:
        typer.echo(findings_text(findings))
    bad = any(f.severity in (Severity.ERROR, Severity.FATAL) for f in findings)
    return ExitCode.FINDING if bad else ExitCode.OK


def add(topo: typer.Typer) -> None:
    """Add this file's command to ``clusterlab topo``."""
    topo.command("check", epilog=_EXAMPLE)(check_fabric)
