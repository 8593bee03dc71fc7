"""hunt.json in a run directory: what a hunt measured and found, read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clusterlab.core.errors import UsageError
from clusterlab.core.findings import Finding
from clusterlab.records.documents import finding_from_json
from clusterlab.records.reading import is_there, read_json

HUNT = "hunt.json"


def read_hunt(folder: Path) -> dict[str, Any] | None:
    """What ``write_hunt`` wrote; None where there is nothing."""
    path = folder / HUNT
    if not is_there(path):
        return None
    data = read_json(path)
    if not isinstance(data, dict) or not isinstance(data.get("findings"), list):
        raise UsageError("no list of findings", where=str(path))
    return data


def hunt_findings(folder: Path) -> tuple[Finding, ...] | None:
    """The findings of a hunt; None for a run that is none."""
    found = read_hunt(folder)
    if found is None:
        return None
    return tuple(
        _finding(one, where=f"{folder / HUNT}: findings[{i}]")
        for i, one in enumerate(found["findings"])
    )


def _finding(data: Any, *, where: str) -> Finding:
    known = dict(data) if isinstance(data, dict) else {}
    given = {
        name: known.get(name) for name in ("code", "severity", "evidence", "fix", "ranks", "links")
    }
    return finding_from_json({**given, "caused_by": known.get("caused_by")}, where=where)
