"""The PMIx client against real servers: Open MPI's mpirun on this host, and Slurm over two nodes.

The same tests for both implementations, libpmix by ctypes and the Python bindings.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clusterlab.lab.labs import Lab
from tests.slurm.launching import by_mpirun, by_srun, lines

IMPLEMENTATIONS = ("ctypes", "bindings")


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_mpirun_serves_put_commit_fence_get(implementation: str) -> None:
    done = by_mpirun(4, ["pmix"], CLUSTERLAB_PMIX=implementation)
    assert done.returncode == 0, done.stderr
    found = lines(done.stdout)
    assert [f["rank"] for f in found] == [0, 1, 2, 3]
    for f in found:
        assert f["implementation"] == implementation
        assert (f["size"], f["local_size"], f["local_rank"]) == (4, 4, f["rank"])
        assert f["peers"] == [0, 1, 2, 3]
        assert f["right"]
        assert f["empty"]
        assert f["missing"] is None
        assert f["absent"] == ([] if implementation == "ctypes" else None)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_slurm_serves_put_commit_fence_get_over_nodes(lab: Lab, implementation: str) -> None:
    export = f"--export=ALL,CLUSTERLAB_PMIX={implementation}"
    done = by_srun(lab, ["--mpi=pmix", "-N2", "--ntasks-per-node=2", export], ["pmix"])
    assert done.returncode == 0, done.stderr
    found = lines(done.stdout)
    assert [f["rank"] for f in found] == [0, 1, 2, 3]
    for f in found:
        node = f["rank"] // 2
        assert f["implementation"] == implementation
        assert (f["size"], f["local_size"], f["local_rank"]) == (4, 2, f["rank"] % 2)
        assert (f["node"], f["host"], f["nodes"]) == (node, f"n{node}", ["n0", "n1"])
        assert f["peers"] == [2 * node, 2 * node + 1]
        assert f["right"]
        assert f["empty"]
        assert f["missing"] is None


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_a_fence_that_never_completes_ends_at_its_deadline(implementation: str) -> None:
    start = time.monotonic()
    done = by_mpirun(
        3, ["pmix", "--late", "1", "sleep", "--timeout", "3"], CLUSTERLAB_PMIX=implementation
    )
    assert time.monotonic() - start < 40  # the late rank would have slept for 60
    assert done.returncode == 4
    errors = [f for f in lines(done.stdout) if "error" in f]
    assert errors
    assert {f["error"] for f in errors} == {"PmixDeadlineError"}
    assert {f["message"] for f in errors} == {"PMIx fence did not return within 3 s"}


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_without_a_server_the_library_says_unreachable(implementation: str) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        f"from clusterlab.launch import pmix_{implementation} as m\n"
        "got = m.connect(timeout_s=30); print(got.code, got.reason)"
    )
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "PMI"))}
    done = subprocess.run(
        [sys.executable, "-c", code, str(Path(__file__).resolve().parents[2])],
        capture_output=True,
        text=True,
        timeout=60,
        env=env,
        check=False,
    )
    assert done.stdout.startswith("-25 PMIx_Init failed: UNREACHABLE (-25)"), done
