"""Hunts by real ranks in a lab of two rails: each fault is named within its budget, a whole one is not.

The lab is whole and idle before and after each test. Hunts are of 8 ranks over 4 nodes, real traffic on
shaped links.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusterlab.lab import faults
from clusterlab.lab.labs import Lab, enter_command, environment
from clusterlab.records.documents import read_findings
from clusterlab.records.run_dir import open_run
from tests.slurm.fabric_labs import fabric_lab
from tests.slurm.jobs import program

FABRIC = "lab-rails-4x2"
BUDGET_S = 60


@pytest.fixture(scope="module")
def rails(
    can_hold_labs: None, lab_base: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    """The lab of lab-rails-4x2."""
    with fabric_lab(FABRIC, "rails", lab_base, tmp_path_factory.getbasetemp()) as lab:
        yield lab


class Hunt:
    """What ``clusterlab hunt`` came to: its exit code, its JSON, its run directory."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        command = [
            *("srun", "--mpi=pmix", "-N4", "--ntasks-per-node=2", program(), "hunt"),
            *("--fabric", FABRIC, "--budget", f"{BUDGET_S}s", "--deadline", "5", "--json"),
        ]
        done = subprocess.run(
            enter_command(lab, command, cwd=folder),
            env=environment(lab) | {"CLUSTERLAB_RUNS": str(folder / "runs")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=170,
            check=False,
        )
        self.code, self.said = done.returncode, done.stderr
        assert done.stdout, done.stderr
        self.found: dict[str, Any] = json.loads(done.stdout)
        (self.run,) = (folder / "runs").iterdir()

    @property
    def names(self) -> list[str]:
        return [fault["name"] for fault in self.found["faults"]]


def test_a_whole_lab_is_not_accused(rails: Lab, tmp_path: Path) -> None:
    hunt = Hunt(rails, tmp_path)
    assert hunt.names == [], hunt.said
    # What others do on this machine may hide that it is well; it is never a name.
    assert hunt.found["outcome"] in ("healthy", "open"), hunt.said
    assert hunt.code == {"healthy": 0, "open": 3}[hunt.found["outcome"]]
    assert len(open_run(hunt.run).records().rows) >= 4


def test_a_slowed_nic_is_named(rails: Lab, tmp_path: Path) -> None:
    faults.degrade(rails, ["n1/nic0"], "half")
    try:
        hunt = Hunt(rails, tmp_path)
    finally:
        faults.heal(rails, [])
    assert (hunt.code, hunt.names) == (1, ["n1/nic0 ↔ leaf0"]), hunt.said
    (fault,) = hunt.found["faults"]
    assert fault["left"] == pytest.approx(0.5, abs=0.12)
    assert fault["confidence"] >= 0.99
    (finding,) = read_findings(hunt.run)
    assert (finding.code, finding.links) == ("SLOW_LINK", ("n1/nic0->leaf0",))
    assert {2} <= set(finding.ranks)


def test_a_halved_leaf_uplink_is_named(rails: Lab, tmp_path: Path) -> None:
    faults.degrade(rails, ["leaf0/spine0"], "half")
    try:
        hunt = Hunt(rails, tmp_path)
    finally:
        faults.heal(rails, [])
    assert (hunt.code, hunt.names) == (1, ["leaf0 ↔ spine0"]), hunt.said


def test_a_dead_rail_is_named(rails: Lab, tmp_path: Path) -> None:
    faults.fail(rails, ["rail1"])
    try:
        hunt = Hunt(rails, tmp_path)
    finally:
        faults.heal(rails, [])
    assert (hunt.code, hunt.names) == (1, ["rail 1"]), hunt.said
    assert hunt.found["faults"][0]["left"] < 0.05


def test_a_host_with_half_of_its_cores_busy_is_named(rails: Lab, tmp_path: Path) -> None:
    busy = [
        subprocess.Popen(
            enter_command(rails, ["sh", "-c", "while :; do :; done"], node="n2"),
            env=environment(rails),
            stdin=subprocess.DEVNULL,
        )
        for _ in range(max(1, (os.cpu_count() or 2) // 2))
    ]
    try:
        hunt = Hunt(rails, tmp_path)
    finally:
        for process in busy:
            process.terminate()  # handed on into the node
            process.wait()
    assert (hunt.code, hunt.names) == (1, ["host n2, its cores"]), hunt.said
    assert hunt.found["faults"][0]["left"] == pytest.approx(0.5, abs=0.15)
