"""``clusterlab doctor`` as one process, and over torchrun."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from clusterlab.core.findings import Finding, Severity
from clusterlab.runs.diagnosing.doctor import report_json
from tests.conftest import CLI, clean_environment

Done = subprocess.CompletedProcess[str]


def doctor(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CLI, "doctor", *words], env=clean_environment(**environ), capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip


def test_alone_it_reports_this_machine() -> None:
    done = doctor()
    assert done.returncode == 0, done.stderr
    assert "1 rank on 1 host" in done.stdout.splitlines()[0]
    assert "no launcher made this a rank" in done.stdout
    assert json.loads(doctor("--json").stdout)["ranks"] == 1


def test_a_variable_that_is_no_number_is_bad_input() -> None:
    done = doctor(RANK="one", WORLD_SIZE="2")
    assert done.returncode == 2
    assert "RANK: 'one'" in done.stderr
    assert "Traceback" not in done.stderr


def test_looking_needs_no_torch() -> None:
    code = "import sys, clusterlab.binding.table, clusterlab.runs.diagnosing.doctor as d;" \
        " d.run_doctor(d.DoctorOptions()); print('torch' in sys.modules)"  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", code], env=clean_environment(), capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "False"


def ranks_by_hand(count: int, present: Sequence[int], *words: str, **environ: str) -> list[Done]:
    """Processes of one job whose variables were exported by hand."""
    started = [
        subprocess.Popen(
            [*CLI, "doctor", *words],
            env=clean_environment(
                RANK=str(r), WORLD_SIZE=str(count), LOCAL_RANK=str(r), LOCAL_WORLD_SIZE=str(count),
                **environ,
            ),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for r in present
    ]  # fmt: skip
    done = []
    for process in started:
        out, err = process.communicate(timeout=60)
        done.append(Done(process.args, process.returncode, out, err))
    return done


def test_ranks_at_an_address_are_joined_without_torch() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    done = ranks_by_hand(2, [0, 1], "--json", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    assert [d.returncode for d in done] == [0, 0], done
    assert json.loads("".join(d.stdout for d in done))["ranks"] == 2


def test_ranks_that_cannot_find_each_other_are_joined_by_files_in_the_bundle(
    tmp_path: Path,
) -> None:
    done = ranks_by_hand(3, [0, 2], "--deadline", "2", "--json", "--bundle", str(tmp_path))
    assert [d.returncode for d in done] == [4, 4], done
    live = json.loads("".join(d.stdout for d in done))
    assert live["missing_ranks"] == [1]
    assert [f["code"] for f in live["findings"]] == ["RANK_MISSING"]
    assert json.loads(doctor(str(tmp_path), "--json").stdout) == live


def test_ranks_that_cannot_find_each_other_say_so_without_a_folder() -> None:
    (done,) = ranks_by_hand(2, [1])
    assert done.returncode == 2
    assert "no way to find each other" in done.stderr


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
