"""How the ``topo`` commands print findings."""

from __future__ import annotations

from collections.abc import Sequence

from clusterlab.core.findings import Finding


def findings_text(findings: Sequence[Finding]) -> str:
    """Every finding in a few lines: severity and code, evidence, fix. Most severe first as given."""
    if not findings:
        return "no findings"
    lines = []
    for finding in findings:
        lines.append(f"{finding.severity.value}: {finding.code}")
        lines += [f"    {evidence}" for evidence in finding.evidence]
        lines.append(f"    -> {finding.fix}")
    return "\n".join(lines)
