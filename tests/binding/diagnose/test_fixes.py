"""A fix is pasted: commands first, one a line, then sentences as comments; right for the very job."""

from __future__ import annotations

import subprocess

import pytest

from clusterlab.binding.diagnose import diagnose
from clusterlab.binding.log_patterns import PATTERNS
from clusterlab.binding.records import load_record
from tests.support import shared_dir

FIRST_WORDS = (
    "CUDA_VISIBLE_DEVICES=", "apptainer", "clusterlab", "d=", "docker", "exec", "export", "flux",
    "ldd", "mpirun", "numactl", "nvidia-smi", "podman", "rocm-smi", "sbatch", "singularity", "srun",
    "taskset", "sacct", "torchrun", "unset", "xpu-smi", "echo", "scontrol",
)  # fmt: skip


def assert_pasteable(fix: str, where: str) -> None:
    commands = [line for line in fix.split("\n") if not line.startswith("# ")]
    assert fix.startswith("\n".join(commands)), (where, fix)
    shell = []
    for line in commands:
        if line.startswith("import "):
            compile(line, where, "exec")
        else:
            assert line.startswith(FIRST_WORDS), (where, line)
            shell.append(line)
    checked = subprocess.run(
        ["bash", "-n"],
        check=False,
        input="\n".join(shell),
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert checked.returncode == 0, (where, checked.stderr)


def test_every_fix_of_the_cases_is_commands_and_then_comments() -> None:
    fixes = {}
    for path in sorted((shared_dir() / "cases" / "binding").glob("*.yaml")):
        for finding in diagnose(load_record(path)):
            fixes.setdefault(finding.fix, f"{path.stem} {finding.code}")
    for fix, where in fixes.items():
        assert_pasteable(fix, where)


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: p.name)
def test_every_fix_for_a_log_is_commands_and_then_comments(pattern: object) -> None:
    assert_pasteable(pattern.fix, pattern.name)  # type: ignore[attr-defined]
