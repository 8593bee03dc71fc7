"""What became known of a point that did not end: trouble/attempt-N/ in the run directory.

Every rank leaves its stacks and its flight recorder there (rank-3.stacks.txt, rank-3.flight.json); one of
them writes trouble.json: the finding, and all that was known of every rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clusterlab.core.errors import UsageError
from clusterlab.core.findings import Finding
from clusterlab.core.rows import SCHEMA_VERSION
from clusterlab.records.documents import finding_from_json
from clusterlab.records.files import check_schema, write_json
from clusterlab.records.reading import is_there, read_json

FILE = "trouble.json"


@dataclass(frozen=True, slots=True)
class KeptTrouble:
    """``finding`` as the ranks made it. ``passed``: a deadline passed; else a connection was lost."""

    finding: Finding
    passed: bool


def trouble_folder(run: Path, attempt: int) -> Path:
    """Where the ranks of ``attempt`` leave what they know."""
    return run / "trouble" / f"attempt-{attempt}"


def write_trouble(folder: Path, trouble: KeptTrouble, details: Mapping[str, Any]) -> None:
    """Write trouble.json; ``details`` are plain data. Raises StorageError, and OSError for the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(
        folder / FILE,
        {
            "schema_version": SCHEMA_VERSION,
            "finding": trouble.finding.to_json(),
            "passed": trouble.passed,
            "details": dict(details),
        },
    )


def read_trouble(folder: Path) -> KeptTrouble | None:
    """What ``write_trouble`` wrote; None when the attempt had none."""
    path = folder / FILE
    if not is_there(path):
        return None
    data = read_json(path)
    if not isinstance(data, dict) or "finding" not in data:
        raise UsageError("holds no finding", where=str(path))
    check_schema(data.get("schema_version"), SCHEMA_VERSION, where=str(path))
    finding = finding_from_json(data["finding"], where=f"{path}: finding")
    return KeptTrouble(finding, bool(data.get("passed")))
