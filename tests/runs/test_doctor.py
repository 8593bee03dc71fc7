"""``clusterlab doctor`` as one process, and over torchrun."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from clusterlab.core.findings import Finding, Severity
from clusterlab.runs.doctor import report_json
from tests.conftest import CLI, clean_environment


def doctor(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CLI, "doctor", *words], env=clean_environment(**environ), capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip


def test_alone_it_reports_this_machine() -> None:
    done = doctor()
    assert done.returncode == 0, done.stderr
    assert "one process on" in done.stdout.splitlines()[0]
    assert "no launcher made this a rank" in done.stdout
    assert json.loads(doctor("--json").stdout)["ranks"] == 1


def test_a_variable_that_is_no_number_is_bad_input() -> None:
    done = doctor(RANK="one", WORLD_SIZE="2")
    assert done.returncode == 2
    assert "RANK: 'one'" in done.stderr
    assert "Traceback" not in done.stderr


def test_looking_needs_no_torch() -> None:
    code = "import sys, clusterlab.binding.table, clusterlab.runs.doctor as d;" \
        " d.run_doctor(d.DoctorOptions()); print('torch' in sys.modules)"  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", code], env=clean_environment(), capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "False"


@pytest.mark.ranks
def test_torchrun_ranks_are_joined() -> None:
    torchrun = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node=2",
        "-m",
        "clusterlab",
    ]
    done = subprocess.run(
        [*torchrun, "doctor"], env=clean_environment(OMP_NUM_THREADS="1"), capture_output=True,
        text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "2 ranks on 1 host" in done.stdout
    assert "identity from torchrun" in done.stdout


def test_the_json_is_what_readers_were_promised() -> None:
    finding = Finding("CODE", Severity.ERROR, ("seen",), "do", ranks=(1,))
    assert json.loads(json.dumps(report_json(3, [2], [finding]))) == {
        "ranks": 3,
        "missing_ranks": [2],
        "findings": [
            {"code": "CODE", "severity": "error", "ranks": [1], "evidence": ["seen"], "fix": "do",
             "caused_by": None}
        ],
    }  # fmt: skip
