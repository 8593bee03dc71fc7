"""Start ``launch_rank.py`` by a launcher and read what its ranks printed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clusterlab.lab.labs import Lab
from clusterlab.lab.labs import run as run_in_lab
from tests.slurm.conftest import refuse

RANK = [sys.executable, str(Path(__file__).with_name("launch_rank.py"))]
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe"]

Finished = subprocess.CompletedProcess[str]


def lines(text: str) -> list[dict[str, Any]]:
    """The ranks' JSON lines, in rank order; a launcher may glue two of them together."""
    decoder, found = json.JSONDecoder(), []
    for line in text.splitlines():
        rest = line.strip()
        while rest.startswith("{"):
            value, end = decoder.raw_decode(rest)
            found.append(value)
            rest = rest[end:].strip()
    return sorted(found, key=lambda v: v.get("rank") or 0)


def by_mpirun(ranks: int, arguments: Sequence[str], **environ: str) -> Finished:
    """Run ``launch_rank.py`` under mpirun on this host."""
    if shutil.which("mpirun") is None:
        refuse("mpirun is not installed (openmpi-bin)")
    command = [*MPIRUN, "-n", str(ranks), *RANK, *arguments]
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "PMI"))} | environ
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, env=env, check=False
    )


def by_srun(lab: Lab, options: Sequence[str], arguments: Sequence[str]) -> Finished:
    """Run ``launch_rank.py`` as a step in the lab."""
    return run_in_lab(lab, ["srun", *options, *RANK, *arguments])
