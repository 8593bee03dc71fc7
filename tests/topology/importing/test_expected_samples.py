"""Every real file in the folder of samples is imported with the counts, or refused as what it is."""

from __future__ import annotations

import csv
import re
from collections import Counter
from pathlib import Path

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.topology.importing.imported import Imported, NotAFabricError
from clusterlab.topology.importing.registry import IMPORTERS, read_any
from clusterlab.topology.parts import SWITCH_KINDS
from tests.support import shared_dir


def _judge(folder: Path, row: dict[str, str]) -> str | None:
    """What is wrong with how the file of ``row`` is read; None when nothing is."""
    path = folder / row["path"]
    text = path.read_text(encoding="utf-8", errors="replace")
    try:
        imported = read_any(text, file=path.name)
    except NotAFabricError as refusal:
        if refusal.refused != row["expected"] or refusal.kind != row["kind"]:
            return f"refused as {refusal.kind} {refusal.refused}: {refusal}"
        rows = row["notes"].partition(" table rows")[0] if " table rows" in row["notes"] else ""
        counted = refusal.facts.get("table_rows")
        return None if not rows or counted == int(rows) else f"{counted} table rows, not {rows}"
    except UsageError as error:
        return f"not read: {error}"
    return _counted(imported, row)


def _counted(imported: Imported, row: dict[str, str]) -> str | None:
    if row["expected"] != "import" or imported.kind != row["kind"]:
        return f"imported as {imported.kind}, expected {row['expected']} {row['kind']}"
    kinds = Counter(d.kind for d in imported.fabric.devices)
    found = {
        "gpus": kinds["gpu"],
        "nics": kinds["nic"],
        "switches": sum(kinds[k] for k in SWITCH_KINDS),
    }
    wrong = {k: n for k, n in found.items() if row[k] and n != int(row[k])}
    stated_blocks = re.search(r"(\d+) blocks", row["notes"])
    if stated_blocks:
        stated = int(stated_blocks.group(1))
        blocks = imported.facts.get("blocks")
        counted = blocks if isinstance(blocks, int) else len(blocks or ())
        if counted != stated:
            wrong["blocks"] = counted
    return f"{wrong} instead of {row}" if wrong else None


def test_every_sample_is_what_it_is() -> None:
    folder = shared_dir() / "samples"
    with (folder / "expect.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    right: Counter[str] = Counter()
    wrong: dict[str, str] = {}
    for row in rows:
        problem = _judge(folder, row)
        if problem is None:
            right[row["kind"]] += 1
        else:
            wrong[row["path"]] = problem
    for kind in sorted({row["kind"] for row in rows}):
        of_kind = sum(row["kind"] == kind for row in rows)
        print(f"{kind:16s} {right[kind]:3d} of {of_kind} right")
    assert len(rows) > 200
    if wrong:
        pytest.fail("\n".join(f"{path}: {problem}" for path, problem in wrong.items()))


def test_no_file_is_claimed_by_two_formats() -> None:
    folder = shared_dir() / "samples"
    files = [p for p in folder.rglob("*") if p.is_file() and p.suffix not in (".src", ".csv")]
    claimed = {}
    for path in files:
        text = path.read_text(encoding="utf-8", errors="replace")
        kinds = [importer.kind for importer in IMPORTERS if importer.recognise(text)]
        if len(kinds) > 1:
            claimed[path.name] = kinds
    assert not claimed
