"""Labs of a user who is not root, whom these tests play where they run as root."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import clusterlab
from tests.slurm.conftest import refuse

NOBODY = 65534
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
# setpriv itself still has root's right to any path when it starts its program: a shell has not.
EXEC = ("sh", "-c", 'exec "$@"', "sh")

SESSION = """
import sys
from pathlib import Path
from clusterlab.lab import labs, lifecycle, machine

base, client, python, flat = Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4] == "flat"
lab = lifecycle.up(machine.sized(machine.observe(), nodes=2, flat=flat), base=base)
srun = ["srun", "-N2", "--ntasks-per-node=2", "--gpus-per-task=1"]
step = labs.run(lab, [*srun, "--mpi=pmix", python, "-S", client])
print(step.stdout)
print(step.stderr, file=sys.stderr)
show = 'echo task $SLURM_LOCALID $CUDA_VISIBLE_DEVICES $(taskset -pc $$ | sed "s/.* //")'
bound = labs.run(lab, [*srun, "sh", "-c", show])
print(bound.stdout)
print(bound.stderr, file=sys.stderr)
lifecycle.kill_node(lab, "n1")
print("booted", lifecycle.boot_node(lab, "n1"))
print("down", lifecycle.down(base=base), list(base.iterdir()))
base.rmdir()
"""


@pytest.fixture
def package() -> Iterator[Path]:
    """A copy of this package, and a PMIx client, where any user can read them."""
    folder = Path(f"/tmp/cl-pkg-{os.getpid()}")
    shutil.copytree(
        Path(clusterlab.__file__).parent,
        folder / "clusterlab",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    shutil.copy(Path(__file__).parent / "pmix_client.py", folder)
    subprocess.run(["chmod", "-R", "a+rX", str(folder)], check=True)
    yield folder
    shutil.rmtree(folder)


def python_of_nobody() -> str:
    test = "import sys; sys.exit(sys.version_info < (3, 11))"
    for candidate in (sys.executable, "/usr/bin/python3"):
        command = [*AS_NOBODY, *EXEC, candidate, "-S", "-c", test]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return candidate
    refuse(f"no Python 3.11 that uid {NOBODY} may run")
    raise AssertionError


def as_nobody(package: Path, python: str, script: str, *words: str) -> str:
    """What ``script`` prints, run by a user who is not root and owns nothing here."""
    found = subprocess.run(
        [*AS_NOBODY, *EXEC, python, "-S", "-c", script, *words],
        cwd="/",
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


@pytest.mark.parametrize("kind", ["namespaces", "flat"])
def test_a_user_who_is_not_root_has_a_lab_too(
    can_hold_labs: None, can_hold_flat_labs: None, package: Path, kind: str
) -> None:
    if os.geteuid() != 0:
        pytest.skip("we are not root: every other test here shows it")
    python = python_of_nobody()
    base = f"/tmp/cl-nobody-{os.getpid()}"
    said = as_nobody(package, python, SESSION, base, str(package / "pmix_client.py"), python, kind)
    lines = [line for line in said.splitlines() if line.strip()]
    assert sorted(lines[:4]) == [f"{rank} 0@n0 1@n0 2@n1 3@n1" for rank in range(4)]
    tasks = [re.fullmatch(r"task (\d) (\d) (\d+)", line) for line in lines[4:8]]
    assert all(tasks), lines
    for local_rank in "01":
        # One GPU and one CPU each, the same on both nodes; the CPU may be one this machine lacks.
        mine = [task.groups() for task in tasks if task and task[1] == local_rank]
        assert len(mine) == 2
        assert mine[0] == mine[1]
        assert int(mine[0][2]) < 16
    assert len({task[2] for task in tasks if task}) == 2
    assert lines[8:] == ["booted True", "down True []"]
