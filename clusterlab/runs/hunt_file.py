"""hunt.json in a run directory: what a hunt measured and found, read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clusterlab.core.findings import Finding, Severity
from clusterlab.records.reading import read_json

HUNT = "hunt.json"


def read_hunt(folder: Path) -> dict[str, Any] | None:
    """What ``write_hunt`` wrote; None where there is nothing."""
    path = folder / HUNT
    return dict(read_json(path)) if path.is_file() else None


def hunt_findings(folder: Path) -> tuple[Finding, ...] | None:
    """The findings of a hunt; None for a run that is none."""
    found = read_hunt(folder)
    return None if found is None else tuple(_finding(f) for f in found["findings"])


def _finding(data: dict[str, Any]) -> Finding:
    return Finding(
        data["code"],
        Severity(data["severity"]),
        tuple(data["evidence"]),
        data["fix"],
        ranks=tuple(data["ranks"]),
        links=tuple(data["links"]),
    )
