"""Groups of ranks at the same time in a lab of four nodes with two rails: the slow one is named."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusterlab.lab import faults
from clusterlab.lab.labs import Lab, enter_command, environment
from clusterlab.records.run_dir import open_run
from clusterlab.report.console.groups import name_of
from clusterlab.report.data import ReportData, load
from clusterlab.verdict.groups import slow_groups
from tests.slurm.fabric_labs import fabric_lab

FABRIC = "lab-rails-4x2"
RANK = [sys.executable, str(Path(__file__).with_name("sweep_rank.py"))]


@pytest.fixture(scope="module")
def rails(
    can_hold_labs: None, lab_base: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    with fabric_lab(FABRIC, "rails", lab_base, tmp_path_factory.getbasetemp()) as lab:
        yield lab


def sweep(lab: Lab, folder: Path, pattern: str, **changes: Any) -> tuple[str, ReportData]:
    """A sweep of two ranks on each node; what it printed, and what it left."""
    asked: dict[str, Any] = {
        "collective_text": "all_reduce", "begin": "256K", "end": "512K", "factor": 2, "step": None,
        "dtype_text": "float", "op_text": "sum", "root": 0, "place": "out", "iterations": 3,
        "warmup": 1, "check": True, "backend": "gloo", "deadline_s": 60.0, "fabric": FABRIC,
        "pattern": pattern, "uneven": None, **changes,
    }  # fmt: skip
    folder.mkdir()
    step = ["srun", "--mpi=pmix", "-N4", "--ntasks-per-node=2", *RANK, json.dumps(asked)]
    done = subprocess.run(
        enter_command(lab, step, cwd=folder),
        env=environment(lab) | {"CLUSTERLAB_RUNS": str(folder / "runs")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (run,) = (folder / "runs").iterdir()
    return done.stdout, load(open_run(run))


def slow(data: ReportData) -> list[str]:
    return [
        name_of(group.ranks, data.placement) for group in slow_groups(data.groups, data.placement)
    ]


@pytest.mark.parametrize(
    ("pattern", "named", "groups"),
    [
        ("rail", "rail 1", {(0, 2, 4, 6), (1, 3, 5, 7)}),
        ("halves", "hosts n2–n3", {(0, 1, 2, 3), (4, 5, 6, 7)}),
    ],
)
def test_the_group_of_a_slow_cable_is_named(
    rails: Lab, tmp_path: Path, pattern: str, named: str, groups: set[tuple[int, ...]]
) -> None:
    faults.degrade(rails, ["n2/nic1"], "half")
    try:
        said, data = sweep(rails, tmp_path / "job", pattern)
    finally:
        faults.heal(rails, [])
    assert slow(data) == [named]
    found = {finding.code: finding for finding in data.findings}
    assert set(found) == {"SLOW_GROUP", "SLOW_LINK"} and len(data.findings) == 2, data.findings
    assert found["SLOW_GROUP"].evidence[0].startswith(named)
    # One collective tells no more than which links its group has for itself: the cable is one of them.
    assert "n2/nic1->leaf3" in found["SLOW_LINK"].links
    assert f"# Slower than its peers: {named}" in said
    assert {row.ranks for row in data.rows} == groups
    assert all(row.wrong == 0 for row in data.rows)
    # The design is whole: the good group takes what was predicted beside the other, the slow one twice that.
    ratios = {name_of(row.ranks, data.placement): row.ratio or 0 for row in data.rows}
    assert 0.4 < ratios.pop(named) < 0.65
    assert all(0.75 < ratio < 1.2 for ratio in ratios.values()), ratios


def test_uneven_parts_take_what_was_predicted(rails: Lab, tmp_path: Path) -> None:
    _, data = sweep(
        rails, tmp_path / "hot", "all", collective_text="alltoallv,gather", uneven="hot:0.9",
        begin="512K", end="512K",
    )  # fmt: skip
    ratios = {row.collective: row.ratio for row in data.rows}
    assert all(row.wrong == 0 for row in data.rows)
    assert all(0.6 < (ratio or 0) < 1.3 for ratio in ratios.values()), ratios
