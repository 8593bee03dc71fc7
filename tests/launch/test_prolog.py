"""slurm/prolog.sh with a pretend nvidia-smi: which nodes it refuses, and with what words."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from clusterlab.core.shipped import shipped

HEALTHY = "0, 00000000:18:00.0, 0\n1, 00000000:2A:00.0, 0\n"


def prolog(folder: Path, smi: str | None, **environment: str) -> subprocess.CompletedProcess[str]:
    tools = folder / "bin"
    tools.mkdir()
    for tool in ("bash", "grep", "timeout", "uname", "cat", "sleep"):
        (tools / tool).symlink_to(_which(tool))
    if smi is not None:
        (tools / "nvidia-smi").write_text(f"#!/bin/bash\n{smi}\n")
        (tools / "nvidia-smi").chmod(0o755)
    return subprocess.run(
        [str(tools / "bash"), str(shipped("slurm") / "prolog.sh")],
        env={"PATH": str(tools), "SLURMD_NODENAME": "gpu07", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def _which(tool: str) -> str:
    return next(
        f"{d}/{tool}" for d in os.environ["PATH"].split(":") if os.access(f"{d}/{tool}", os.X_OK)
    )


def answering(text: str) -> str:
    return f"cat <<'X'\n{text}X"


def test_gpus_that_answer_pass(tmp_path: Path) -> None:
    done = prolog(tmp_path, answering(HEALTHY), SLURM_JOB_GPUS="0,1")
    assert (done.returncode, done.stderr) == (0, "")


def test_jobs_without_gpus_pass_anywhere(tmp_path: Path) -> None:
    assert prolog(tmp_path, None).returncode == 0


@pytest.mark.parametrize(
    ("smi", "message"),
    [
        (None, "no nvidia-smi"),
        ("echo 'NVIDIA-SMI has failed'; exit 9", "nvidia-smi failed (9): NVIDIA-SMI has failed"),
        ("sleep 30", "did not answer in 1 s"),
        (answering("0, 00000000:18:00.0, 0\n"), "GPU 1 does not answer"),
        (answering(HEALTHY.replace("2A:00.0, 0", "2A:00.0, 3")), "has 3 uncorrected ECC errors"),
    ],
)
def test_gpus_that_do_not_are_refused_by_name(
    tmp_path: Path, smi: str | None, message: str
) -> None:
    done = prolog(tmp_path, smi, SLURM_JOB_GPUS="0,1", GPU_QUERY_TIMEOUT="1")
    assert done.returncode == 1
    assert "node gpu07 refused" in done.stderr
    assert message in done.stderr


def test_cards_without_ecc_counters_pass(tmp_path: Path) -> None:
    done = prolog(tmp_path, answering("0, 00000000:18:00.0, [N/A]\n"), SLURM_JOB_GPUS="0")
    assert done.returncode == 0, done.stderr
