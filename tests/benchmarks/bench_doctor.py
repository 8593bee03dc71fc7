"""How long a diagnosis takes: a bundle of many ranks read and judged, healthy and with faults.

    python tests/benchmarks/bench_doctor.py [--ranks 512] [--repeat 5]

Times are the median of ``--repeat`` runs in one warm process; reading is from a file in the page cache.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from clusterlab.binding.diagnose import RULES, diagnose
from clusterlab.binding.records import load_record, read_record, save_bundle
from tests.binding.diagnose.placements import uniform_placement


def seconds(work: Callable[[], object], repeat: int) -> float:
    """The median time of ``work``."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def broken(record: dict[str, Any]) -> dict[str, Any]:
    """The same job with a fault on every fourth node: ranks there all take ordinal 0."""
    hosts = list(dict.fromkeys(r["host"] for r in record["ranks"]))[::4]
    for rank in record["ranks"]:
        if rank["host"] in hosts:
            rank["selected_device"] = 0
            rank["error"] = "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1b000"
    return record


def main() -> None:
    """Print one line per record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=512)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    nodes = max(options.ranks // 8, 1)
    print(f"{nodes * 8} ranks on {nodes} nodes, {len(RULES)} rules, median of {options.repeat}")
    makers = {"healthy": lambda p: p, "one node in four broken": broken}
    for name, change in makers.items():
        record = read_record(change(uniform_placement(random.Random(1), nodes)), file=name)
        with tempfile.TemporaryDirectory() as folder:
            file = save_bundle(record, Path(folder))
            read = seconds(lambda at=file: load_record(at), options.repeat)
            size = len(json.dumps(file.read_text()))
        judged = seconds(lambda of=record: diagnose(of), options.repeat)
        found = len(diagnose(record))
        print(
            f"{name:24} read {read:.3f} s ({size / 1e6:.1f} MB)  diagnose {judged:.3f} s  findings {found}"
        )


if __name__ == "__main__":
    main()
