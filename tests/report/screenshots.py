"""The pictures of README and docs, taken again: python -m tests.report.screenshots [FOLDER [FILE…]]

FOLDER is docs, and FILE every picture, unless named.

Runs are measured afresh on this machine where they can be; those of GPUs and of the lab are tests/data.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from clusterlab.cli.main import main
from clusterlab.records.run_dir import open_run
from clusterlab.runs.report_page import write_page
from tests.conftest import CLI, clean_environment
from tests.report.chromium import page
from tests.report.kinds_of_run import build

MOST_BYTES = 200_000


@dataclass(frozen=True, slots=True)
class Shot:
    """One picture: of the page of which kind of run (two: compared), down to ``height`` in a window of
    ``width``, made smaller by ``scale``.
    """

    file: str
    kinds: tuple[str, ...]
    width: int = 1280
    height: int = 900
    scale: float = 0.7
    dark: bool = False


SHOTS = (
    Shot("report.png", ("two_gpus_without_p2p",), height=2340, scale=0.6),
    Shot("report-dark.png", ("two_gpus",), height=1000, dark=True),
    Shot("report-phone.png", ("slow_link",), width=400, height=1000, scale=1.0),
    Shot("report-training.png", ("pipeline_training",), height=1600),
    Shot("compare.png", ("two_gpus", "two_gpus_without_p2p"), height=1800),
)


def take(folder: Path, files: Collection[str] = ()) -> int:
    """Write the pictures called ``files`` (empty: all) into ``folder``; 1 when one is larger than
    ``MOST_BYTES``.
    """
    too_large = 0
    with tempfile.TemporaryDirectory() as scratch, page() as browser:
        root = Path(scratch)
        environment = calibrated(root)
        for shot in (shot for shot in SHOTS if not files or shot.file in files):
            shown = _page(shot, root, environment)
            browser.open(shown, width=shot.width, dark=shot.dark)
            file = folder / shot.file
            browser.screenshot(file, height=shot.height, scale=shot.scale)
            size = file.stat().st_size
            too_large |= size > MOST_BYTES
            print(f"{file}: {size / 1000:.0f} kB")
    return too_large


def _page(shot: Shot, root: Path, environment: Mapping[str, str]) -> Path:
    runs = [build(kind, root / shot.file / kind, environment) for kind in shot.kinds]
    if len(runs) == 1:
        return write_page(open_run(runs[0]))
    file = root / shot.file / "compare.html"
    here = Path.cwd()
    os.chdir(root / shot.file)  # what is typed stands on the page
    try:
        main(["compare", *(str(run.relative_to(Path.cwd())) for run in runs), "--html", file.name])
    finally:
        os.chdir(here)
    return file


def calibrated(root: Path) -> dict[str, str]:
    """An environment in which this host is calibrated for two ranks."""
    environment = clean_environment(XDG_CACHE_HOME=str(root / "cache"))
    subprocess.run([*CLI, "self-calibrate", "--ranks", "2"], env=environment, check=True)
    return environment


if __name__ == "__main__":
    target, *named = sys.argv[1:] or ["docs"]
    sys.exit(take(Path(target).resolve(), named))
