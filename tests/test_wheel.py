"""The wheel, installed in an empty directory far from the checkout, runs the main job."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import clean_environment

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with clusterlab from a freshly built wheel, without its dependencies."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    build = ["wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(ROOT)]
    subprocess.run([*pip, *build], check=True, capture_output=True, timeout=120)
    (wheel,) = folder.glob("*.whl")
    site = folder / "site"
    install = ["install", "--no-deps", "--target", str(site), str(wheel)]
    subprocess.run([*pip, *install], check=True, capture_output=True, timeout=120)
    return site


def test_the_shipped_folders_travel_inside(installed: Path) -> None:
    shipped = installed / "clusterlab" / "_shipped"
    for folder in ("topologies", "jobs", "slurm", "dashboards"):
        there = {p.name for p in (shipped / folder).iterdir()}
        here = {p.name for p in (ROOT / folder).iterdir()}
        assert there == here
    assert (installed / "clusterlab" / "lab" / "fakeaff.c").exists()
    assert list((installed / "clusterlab" / "report" / "templates").iterdir())
    assert (
        (installed / "clusterlab" / "trainers" / "corpus.txt").read_text().startswith("The night")
    )


@pytest.mark.ranks
def test_the_wheel_runs_the_main_job_in_an_empty_directory(
    installed: Path, calibrated_cache: Path, tmp_path: Path
) -> None:
    environment = clean_environment(
        PYTHONPATH=str(installed),
        CLUSTERLAB=str(installed / "bin" / "clusterlab"),
        XDG_CACHE_HOME=str(calibrated_cache),
        RANKS="2",
    )
    where = [sys.executable, "-c", "import clusterlab; print(clusterlab.__file__)"]
    found = subprocess.run(
        where, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert found.stdout.startswith(str(installed)), "the checkout is not what is tested"
    job = installed / "clusterlab" / "_shipped" / "jobs" / "allreduce_sweep.sbatch"
    done = subprocess.run(
        ["bash", str(job), "-b", "1K", "-e", "16K", "-f", "4", "-n", "3"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (run,) = (tmp_path / "runs").iterdir()
    assert len((run / "records.jsonl").read_text().splitlines()) == 6
    assert (run / "report.html").exists()
