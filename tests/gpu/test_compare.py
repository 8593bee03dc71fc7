"""Compare and baseline on two real GPUs: a repeated sweep is no regression, fewer channels are one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu

REPEATS = 4


def clusterlab(*words: str, root: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "clusterlab", *words],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, "CLUSTERLAB_RUNS": str(root), **extra},
    )


def sweep(name: str, root: Path, **extra: str) -> Path:
    done = clusterlab(
        "bench", "all_reduce", "-g", "2", "-b", "8", "-e", "512M", "-f", "4", "-n", "auto",
        "--timing", "graph", "--name", name, "-T", "30", root=root, **extra,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    (found,) = root.glob(f"*-{name}-*")
    return found


@pytest.fixture(scope="module")
def root(gpus: int, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if gpus < 2:
        pytest.skip("needs two GPUs")
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def usual(root: Path) -> list[Path]:
    """The same sweep, several times."""
    return [sweep(f"usual{i}", root) for i in range(REPEATS)]


@pytest.fixture(scope="module")
def narrow(root: Path) -> Path:
    """Two channels instead of NCCL's own number: bandwidth of large sizes goes down, latency stays."""
    return sweep("narrow", root, NCCL_MAX_NCHANNELS="2")


def test_repeated_sweeps_are_no_regression(usual: list[Path], root: Path) -> None:
    found = clusterlab("compare", *map(str, usual), "--json", root=root)
    data = json.loads(found.stdout)
    print(json.dumps([c["changes"] for c in data["comparisons"]]))
    assert [c["verdict"] for c in data["comparisons"]].count("regression") == 0


def test_fewer_channels_are_a_regression_of_large_sizes_and_named(
    usual: list[Path], narrow: Path, root: Path
) -> None:
    found = clusterlab("compare", str(usual[0]), str(narrow), "--json", root=root)
    assert found.returncode == 1, found.stdout[-2000:]
    (told,) = json.loads(found.stdout)["comparisons"]
    print(json.dumps(told["changes"]))
    slower = {c["band"] for c in told["changes"] if c["what"] == "regression"}
    assert "large" in slower
    assert any(d["name"] == "NCCL_MAX_NCHANNELS" for d in told["differences"])


def test_a_baseline_passes_a_further_run_and_not_the_narrow_one(
    usual: list[Path], narrow: Path, root: Path
) -> None:
    file = root / "baseline.yaml"
    saved = clusterlab("baseline", "save", *map(str, usual[:-1]), "-o", str(file), root=root)
    assert saved.returncode == 0, saved.stderr
    print(saved.stdout)
    further = clusterlab("baseline", "check", str(usual[-1]), str(file), root=root)
    print(further.stdout)
    assert further.returncode == 0, further.stdout
    slow = clusterlab("baseline", "check", str(narrow), str(file), root=root)
    assert slow.returncode == 1, slow.stdout
