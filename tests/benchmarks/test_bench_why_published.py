"""The benchmark of ``why`` on published tables: its figures, and that it meets its aims."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.bench_why_published import FILE, figures, judged
from tests.support import shared_dir

BENCH = Path(__file__).with_name("bench_why_published.py")


@pytest.mark.alone
def test_published_tables_meet_the_aims() -> None:
    path = shared_dir() / FILE
    if not path.is_file():
        pytest.skip(f"no {path}")
    found = figures(judged(path))
    detected, faulty = found["unhealthy tables detected"]
    accused, healthy = found["healthy tables accused"]
    named, causes = found["distinct causes, among three"]
    assert detected >= 11 and faulty >= 12
    assert accused <= 0.05 * healthy
    assert named >= 0.8 * causes


def test_it_skips_where_nothing_is_shared(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, BENCH],
        env={"CLUSTERLAB_SHARED": str(tmp_path), "PATH": "/usr/bin:/bin"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert "skipped" in done.stdout
