"""Real files of single hosts import with the counts that are known of them."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from clusterlab.topology.importing.imported import Imported
from clusterlab.topology.importing.lstopo_xml import read_lstopo_xml
from clusterlab.topology.importing.nvlink_s import read_nvlink_s
from clusterlab.topology.importing.rocm_smi import read_rocm_smi
from clusterlab.topology.importing.topo_m import read_topo_m
from clusterlab.topology.importing.topo_p2p import read_topo_p2p
from clusterlab.topology.matrix import topo_matrix
from tests.support import shared_dir
from tests.topology.importing.test_topo_m import said

READERS: dict[str, Callable[..., Imported]] = {
    "topo_m": read_topo_m,
    "topo_p2p": read_topo_p2p,
    "nvlink_s": read_nvlink_s,
    "rocm_smi": read_rocm_smi,
    "lstopo_xml": read_lstopo_xml,
}


def rows(kind: str) -> list[dict[str, str]]:
    with (shared_dir() / "samples" / "expect.csv").open(encoding="utf-8", newline="") as table:
        return [row for row in csv.DictReader(table) if row["kind"] == kind]


def sample(row: dict[str, str]) -> Path:
    return shared_dir() / "samples" / row["path"]


@pytest.mark.parametrize("kind", READERS)
def test_counts_are_as_stated(kind: str) -> None:
    wrong = []
    for row in rows(kind):
        imported = READERS[kind](sample(row).read_text(encoding="utf-8"), file=row["path"])
        assert imported.kind == kind
        for device, stated in (("gpu", row["gpus"]), ("nic", row["nics"])):
            found = len(imported.fabric.of_kind(device))  # type: ignore[arg-type]
            if stated and found != int(stated):
                wrong.append(f"{row['path']}: {found} {device} of {stated}")
        for host in imported.fabric.hosts:
            topo_matrix(imported.fabric, host)
    assert wrong == []


def test_every_readable_cell_of_topo_m_comes_back() -> None:
    for row in rows("topo_m"):
        text = sample(row).read_text(encoding="utf-8")
        imported = read_topo_m(text, file=row["path"])
        assert said(text, imported) == [], row["path"]
        partial = any(f.code == "matrix_partial" for f in imported.findings)
        assert partial == bool(imported.facts["missing_rows"])
