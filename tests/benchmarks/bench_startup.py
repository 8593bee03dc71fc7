"""How long commands that need no torch take to start, beside a bare interpreter, in alternation.

python tests/benchmarks/bench_startup.py [--repeat 20]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

CLUSTERLAB = str(Path(sys.executable).with_name("clusterlab"))
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "clusterlab --help": [CLUSTERLAB, "--help"],
    "clusterlab bench --help": [CLUSTERLAB, "bench", "--help"],
    "clusterlab topo list": [CLUSTERLAB, "topo", "list"],
    "clusterlab topo show hgx-h100": [CLUSTERLAB, "topo", "show", "hgx-h100"],
    "clusterlab jobs list": [CLUSTERLAB, "jobs", "list"],
    "clusterlab predict …": [CLUSTERLAB, "predict", "--fabric", "hgx-h100", "-b", "1M", "-e", "1G"],
    "import torch": [sys.executable, "-c", "import torch"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=20)
    options = parser.parse_args()
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(options.repeat):
        for name, command in COMMANDS.items():
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            times[name].append(time.perf_counter() - start)
    bare = statistics.median(times["python -c pass"])
    for name, found in times.items():
        median = statistics.median(found)
        print(
            f"{name:<32} median {median:6.3f} s  min {min(found):6.3f} s  {median / bare:5.1f} x bare"
        )


if __name__ == "__main__":
    main()
