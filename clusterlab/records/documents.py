"""The small documents of a run directory: placement.json, fabric.yaml, findings.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from clusterlab.core.errors import UsageError
from clusterlab.core.findings import Finding
from clusterlab.core.placement import Placement, placement_from_json
from clusterlab.core.rows import SCHEMA_VERSION
from clusterlab.records.files import check_schema, write_atomic, write_json
from clusterlab.records.reading import is_there, read_json
from clusterlab.records.small_yaml import read_small_yaml
from clusterlab.records.strict import check_value, checked

PLACEMENT = "placement.json"
FABRIC = "fabric.yaml"
FINDINGS = "findings.json"


@dataclass(frozen=True, slots=True)
class FabricReference:
    """Which fabric a run was predicted on: never an expanded graph, always enough to rebuild it.

    ``design`` is the name of a shipped design or the path of a file, ``overrides`` what the command
    line changed, ``sha256`` the hash of the design's text with the overrides. ``calibration`` names
    the constants the predictions used and where they came from.
    """

    design: str
    sha256: str
    overrides: Mapping[str, Any] = field(default_factory=dict)
    calibration: str | None = None


def write_placement(folder: Path, placement: Placement) -> None:
    """Write placement.json: rank to hardware, as observed. Raises StorageError."""
    write_json(folder / PLACEMENT, placement.to_json())


def read_placement(folder: Path) -> Placement | None:
    """The placement of the run in ``folder``; None when the run ended before it was known."""
    path = folder / PLACEMENT
    return placement_from_json(read_json(path), where=str(path)) if is_there(path) else None


def write_fabric(folder: Path, fabric: FabricReference) -> None:
    """Write fabric.yaml. Raises StorageError."""
    data = {"schema_version": SCHEMA_VERSION, **asdict(fabric)}
    import yaml

    text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    write_atomic(folder / FABRIC, text.encode())


def read_fabric(folder: Path) -> FabricReference | None:
    """The fabric of the run in ``folder``; None when none was named."""
    path = folder / FABRIC
    if not is_there(path):
        return None
    data = read_small_yaml(path)
    if not isinstance(data, dict):
        raise UsageError("not a mapping", where=str(path))
    check_schema(data.get("schema_version"), SCHEMA_VERSION, where=str(path))
    return FabricReference(**checked(data, FabricReference, where=str(path)))


def write_findings(folder: Path, findings: Sequence[Finding]) -> None:
    """Write findings.json, atomically. Raises StorageError."""
    write_json(
        folder / FINDINGS,
        {
            "schema_version": SCHEMA_VERSION,
            "findings": [f.to_json() for f in findings],
        },
    )


def read_findings(folder: Path) -> tuple[Finding, ...]:
    """The findings of the run in ``folder``; empty when nothing was diagnosed yet."""
    path = folder / FINDINGS
    if not is_there(path):
        return ()
    data = read_json(path)
    if not isinstance(data, dict) or not isinstance(data.get("findings"), list):
        raise UsageError("no list of findings", where=str(path))
    check_schema(data.get("schema_version"), SCHEMA_VERSION, where=str(path))
    return tuple(
        finding_from_json(entry, where=f"{path}: findings[{i}]")
        for i, entry in enumerate(data["findings"])
    )


def finding_from_json(entry: Any, *, where: str) -> Finding:
    """The Finding that its ``to_json`` wrote. Raises UsageError naming ``where`` and the field."""
    fields = checked(entry, Finding, where=where)
    lists = {
        name: tuple(
            check_value(f"{name}[{i}]", one, (kind,), where=where)
            for i, one in enumerate(fields[name])
        )
        for name, kind in (("evidence", str), ("ranks", int), ("links", str))
    }
    return Finding(**{**fields, **lists})
