"""The affinity shim on its own: pretend CPUs in front of the ones this machine has."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import clusterlab.lab.prepare as prepare_module
from clusterlab.lab.layout import Layout

Run = Callable[[str], object]


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler here")
    layout = Layout(tmp_path_factory.mktemp("shim"))
    prepare_module._compile_shim(layout, compiler)
    return layout.shim


@pytest.fixture
def run(shim: Path, tmp_path: Path) -> Run:
    """Run Python code that assigns `result`, on a pretend machine of 16 CPUs."""

    def run(code: str) -> object:
        environment = {
            "PATH": os.environ["PATH"],
            "LD_PRELOAD": str(shim),
            "FAKEAFF_DIR": str(tmp_path),
            "FAKEAFF_NCPU": "16",
            "FAKEAFF_REAL": ",".join(map(str, sorted(os.sched_getaffinity(0)))),
        }
        script = f"import os, json, subprocess, sys\n{code}\nprint(json.dumps(result))"
        found = subprocess.run(
            [sys.executable, "-S", "-c", script],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert found.returncode == 0, found.stderr
        return json.loads(found.stdout)

    return run


def real_cpus(mask: Sequence[int]) -> set[int]:
    have = sorted(os.sched_getaffinity(0))
    return {have[cpu % len(have)] for cpu in mask}


def test_a_process_without_a_mask_sees_every_pretend_cpu(run: Run) -> None:
    assert run("result = sorted(os.sched_getaffinity(0))") == list(range(16))


def test_a_mask_beyond_the_machine_is_kept_and_folded_onto_real_cpus(run: Run) -> None:
    mask = [3, 9, 14]
    seen, real = run(  # type: ignore[misc]
        f"os.sched_setaffinity(0, {mask})\n"
        "line = [l for l in open('/proc/self/status') if l.startswith('Cpus_allowed_list')][0]\n"
        "result = sorted(os.sched_getaffinity(0)), line.split()[1]"
    )
    assert seen == mask
    allowed: set[int] = set()
    for part in real.split(","):
        first, _, last = part.partition("-")
        allowed |= set(range(int(first), int(last or first) + 1))
    assert allowed == real_cpus(mask)


def test_children_inherit_and_other_tools_agree(run: Run) -> None:
    found = run(
        "os.sched_setaffinity(0, [5, 6])\n"
        "out = lambda *c: subprocess.run(c, capture_output=True, text=True).stdout.split()\n"
        "child = [sys.executable, '-S', '-c', 'import os; print(*os.sched_getaffinity(0))']\n"
        "result = [out('nproc'), out('taskset', '-pc', str(os.getpid()))[-1], out(*child)]"
    )
    assert found == [["2"], "5,6", ["5", "6"]]


def test_taskset_binds_its_command(run: Run) -> None:
    code = "import os; print(*os.sched_getaffinity(0))"
    found = run(
        f"result = subprocess.run(['taskset', '-c', '11', sys.executable, '-S', '-c', {code!r}],"
        "capture_output=True, text=True).stdout.split()"
    )
    assert found == ["11"]


def test_a_mask_of_no_pretend_cpu_is_invalid_as_the_kernel_says(run: Run) -> None:
    found = run(
        "try:\n    os.sched_setaffinity(0, [16])\nexcept OSError as e:\n    result = e.errno, e.strerror"
    )
    assert found == [22, "Invalid argument"]


def test_a_process_that_is_not_there_is_reported(run: Run) -> None:
    assert (
        run("try:\n    os.sched_getaffinity(2**22 + 1)\nexcept OSError as e:\n    result = e.errno")
        == 3
    )


def test_a_thread_has_a_mask_of_its_own_as_in_the_kernel(run: Run) -> None:
    found = run(
        "import threading\n"
        "got = []\n"
        "def bound():\n"
        "    os.sched_setaffinity(0, [2]); got.append(sorted(os.sched_getaffinity(0)))\n"
        "t = threading.Thread(target=bound); t.start(); t.join()\n"
        "result = got[0], len(os.sched_getaffinity(0))"
    )
    assert found == [[2], 16]


def test_without_its_variables_it_changes_nothing(shim: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-S", "-c", "import os; print(*sorted(os.sched_getaffinity(0)))"],
        env={"LD_PRELOAD": str(shim)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert [int(cpu) for cpu in found.stdout.split()] == sorted(os.sched_getaffinity(0))
