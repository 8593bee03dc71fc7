"""placement.json, fabric.yaml, findings.json: what is written is what is read."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest

from clusterlab.core.errors import StorageError, UsageError
from clusterlab.core.findings import Finding, Severity
from clusterlab.core.placement import local_placement
from clusterlab.records.documents import (
    FabricReference,
    read_fabric,
    read_findings,
    read_placement,
    write_fabric,
    write_findings,
    write_placement,
)
from clusterlab.records.files import write_atomic

FINDINGS = (
    Finding(
        "GPU_SHARED", Severity.ERROR, ("rank 0 and 1 on 0000:19:00.0",), "one GPU a rank", (0, 1)
    ),
    Finding("NOTE", Severity.INFO, (), "none", links=("a->b",), caused_by="GPU_SHARED"),
)


def test_documents_come_back_as_they_were(tmp_path: Path) -> None:
    placement = local_placement(4, "höst", cores=(0, 2))
    fabric = FabricReference("hgx-h100", "ab" * 32, {"links.nvlink.GBps": 400}, "shipped constants")
    write_placement(tmp_path, placement)
    write_fabric(tmp_path, fabric)
    write_findings(tmp_path, FINDINGS)
    assert read_placement(tmp_path) == placement
    assert read_fabric(tmp_path) == fabric
    assert read_findings(tmp_path) == FINDINGS


def test_a_run_that_ended_early_has_none_of_them(tmp_path: Path) -> None:
    assert read_placement(tmp_path) is None
    assert read_fabric(tmp_path) is None
    assert read_findings(tmp_path) == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("design: [", "not YAML"),
        ("- 1", "not a mapping"),
        ("{schema_version: 9}", "newer clusterlab"),
        ("{schema_version: 1, design: x}", "lacks sha256"),
        ("{schema_version: 1, desing: x}", "did you mean 'design'"),
    ],
)
def test_a_damaged_fabric_names_what_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "fabric.yaml").write_text(text)
    with pytest.raises(UsageError, match=message):
        read_fabric(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"severity": "eror"}, "unknown severity 'eror'.*did you mean 'error'"),
        ({"evidence": "text"}, "evidence: 'text'; expected a list"),
        ({"cod": "X"}, "unknown key 'cod'"),
    ],
)
def test_a_damaged_finding_names_entry_and_field(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    write_findings(tmp_path, FINDINGS)
    file = tmp_path / "findings.json"
    data = json.loads(file.read_text())
    data["findings"][1].update(change)
    file.write_text(json.dumps(data))
    with pytest.raises(UsageError, match=message) as caught:
        read_findings(tmp_path)
    assert "findings[1]" in str(caught.value)


def test_a_full_disk_leaves_the_old_document_and_no_scratch_file(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_atomic(path, b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(StorageError, match=r"report\.html.*free some space"):
            write_atomic(path, b"x" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
