"""What a run keeps of its surroundings."""

from __future__ import annotations

from pathlib import Path

import clusterlab
from clusterlab.records.environment import versions


def test_versions_come_without_importing_torch() -> None:
    found = versions()
    assert found["clusterlab"] == clusterlab.__version__
    assert found["torch"]
    assert found["kernel"] == Path("/proc/sys/kernel/osrelease").read_text().strip()


def test_the_records_room_imports_neither_torch_nor_pandas() -> None:
    import subprocess
    import sys

    code = (
        "import sys, clusterlab.records.run_dir, clusterlab.records.frame, "
        "clusterlab.report.console.terminal, clusterlab.report.html, clusterlab.report.console.progress; "
        "print([m for m in ('torch', 'pandas', 'scipy', 'jinja2', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
