"""Running ``clusterlab bench`` as a user does, with the host calibrated once per test session."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.setup import suite

CLI = [sys.executable, "-m", "clusterlab"]
LAUNCHERS = ("SLURM_", "PMIX_", "OMPI_", "TORCHELASTIC_", "CLUSTERLAB_")


# A shell's `pytest &` ignores SIGINT and SIGQUIT, `nohup pytest` SIGHUP, and so would all that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
for _ignored in (signal.SIGQUIT, signal.SIGHUP):
    signal.signal(_ignored, signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A marked test in a file that `make test` does not look into would never run."""
    for names in (suite.ALONE, suite.BESIDE):
        files = {suite.ROOT / file for file in suite.marked(names)}
        for item in items:
            if item.path not in files and any(map(item.get_closest_marker, names)):
                raise pytest.UsageError(
                    f"{item.nodeid} is marked {' or '.join(names)}, and its file does not write mark.NAME"
                )


def pytest_collection_finish() -> None:
    """Some million objects are imported and collected by now and stay: a collection of garbage looks at what
    tests make, not at those; and less often, as fabrics are many small objects and no garbage.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


@dataclass(frozen=True)
class Bench:
    """Starts ``clusterlab bench`` over two local ranks with a runs folder of its own."""

    runs: Path
    environment: dict[str, str]

    def start(self, *arguments: str, **popen: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*CLI, "bench", *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **popen,  # type: ignore[call-overload]
        )

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments)
        out, err = process.communicate(timeout=180)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def run_dir(self) -> Path:
        (only,) = self.runs.iterdir()
        return only


@pytest.fixture(scope="session")
def calibrated_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache in which this host is calibrated for two ranks."""
    cache = tmp_path_factory.mktemp("cache")
    subprocess.run(
        [*CLI, "self-calibrate", "--ranks", "2"],
        env=clean_environment(XDG_CACHE_HOME=str(cache)),
        check=True,
        capture_output=True,
        timeout=180,
    )
    return cache


def clean_environment(**extra: str) -> dict[str, str]:
    """This environment without what a launcher or a user of clusterlab would have set."""
    return {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHERS)} | extra


@pytest.fixture
def bench(calibrated_cache: Path, tmp_path: Path) -> Bench:
    runs = tmp_path / "runs"
    return Bench(
        runs, clean_environment(XDG_CACHE_HOME=str(calibrated_cache), CLUSTERLAB_RUNS=str(runs))
    )


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Makes a file system of so many KiB (root only), unmounted at the end."""
    mounted: list[Path] = []

    def make(kib: int) -> Path:
        where = tmp_path / f"disk{len(mounted)}"
        where.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(where)],
            capture_output=True,
            check=False,
        )
        if done.returncode:
            pytest.skip("mounting a small file system needs root")
        mounted.append(where)
        return where

    yield make
    for where in mounted:
        subprocess.run(["umount", "-l", str(where)], check=False)
