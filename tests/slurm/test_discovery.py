"""``topo discover`` on a real Slurm: one task a node, with and without PMIx; a node that does not come."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from clusterlab.lab.labs import Lab, run
from clusterlab.topology.opening import open_fabric

SCRIPT = """
import os, sys, time
from pathlib import Path
from clusterlab.runs.diagnosing.discovery import DiscoverOptions, run_discover
output, deadline_s, absent = sys.argv[1:]
if os.environ["SLURM_PROCID"] == absent:
    time.sleep(float(deadline_s) + 8)
    sys.exit(0)
show = lambda found: print("codes", *(f.code for f in found.findings), flush=True)
sys.exit(run_discover(DiscoverOptions(output=Path(output), deadline_s=float(deadline_s)), show))
"""


def discover(
    lab: Lab, tmp_path: Path, *srun: str, deadline_s: int = 60, absent: str = ""
) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "discover.py"
    script.write_text(SCRIPT)
    words = [sys.executable, str(script), str(tmp_path / "fabric.yaml"), str(deadline_s), absent]
    return run(lab, ["srun", "--ntasks-per-node=1", *srun, *words], timeout_s=120)


@pytest.mark.parametrize("mpi", ["pmix", "none"])
def test_every_nodes_discovery_is_joined_under_slurms_names(
    lab: Lab, tmp_path: Path, mpi: str
) -> None:
    done = discover(lab, tmp_path, "-N3", "-w", "n[0-2]", f"--mpi={mpi}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("codes") == 1
    assert open_fabric(str(tmp_path / "fabric.yaml")).hosts == ("n0", "n1", "n2")


def test_a_node_that_does_not_come_is_named_and_the_others_are_written(
    lab: Lab, tmp_path: Path
) -> None:
    done = discover(lab, tmp_path, "-N3", "-w", "n[0-2]", "--mpi=pmix", deadline_s=4, absent="1")
    assert done.returncode == 4, done.stderr
    assert "codes node_missing" in done.stdout
    assert open_fabric(str(tmp_path / "fabric.yaml")).hosts == ("n0", "n2")
