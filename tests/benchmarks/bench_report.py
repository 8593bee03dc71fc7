"""How long a report of many rows takes, how large its page is and how much memory it needs.

python tests/benchmarks/bench_report.py [--rows 100000] [--times 1]

Rows are made by the project's own schema: every collective, in place and out of place, in several timings,
over as many sizes as it takes; a second run holds curves of 30 sizes in many types, a third pairs of ranks.
Each is reported by the command in a process of its own, imports included: seconds of the wall and of the
processor, bytes of the page, the most memory that the process held.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from clusterlab.core.collectives import COLLECTIVES  # noqa: E402
from clusterlab.core.dtypes import dtype  # noqa: E402
from clusterlab.core.rows import Point, make_point  # noqa: E402
from tests.records.fake_runs import ALL_COLLECTIVES, fake_row, make_run  # noqa: E402

TIMINGS = ("eager", "graph", "direct")
RANKS = 32


def long_sweep() -> Iterator[Point]:
    """Ever more sizes of the same 21 curves."""
    for step in range(1, 1 << 20):
        for name in ALL_COLLECTIVES:
            for timing in TIMINGS:
                for in_place in (False, True):
                    yield make_point(
                        name, step * 1024, dtype("float32"), RANKS, in_place=in_place, timing=timing
                    )


def many_curves() -> Iterator[Point]:
    """Ever more curves of 30 sizes: types, operators, roots."""
    dtypes = ("float32", "float16", "bfloat16", "int8", "int32", "int64", "uint8", "float64")
    for root in range(RANKS):
        for name, what in COLLECTIVES.items():
            if root and not what.rooted:
                continue
            ops = ("sum", "max", "min", "prod") if what.reduces else ("sum",)
            for one, op, timing in itertools.product(dtypes, ops, TIMINGS):
                for size, in_place in itertools.product(range(30), (False, True)):
                    yield make_point(
                        name, 8 << size, dtype(one), RANKS, op=op, root=root, in_place=in_place,
                        timing=timing,
                    )  # fmt: skip


def pairs() -> Iterator[Point]:
    """Every pair of ever more ranks, both ways."""
    for b in range(1, 1 << 12):
        for a in range(b):
            for ranks in ((a, b), (b, a)):
                yield make_point("send", 1 << 20, dtype("float32"), 2, ranks=ranks)


KINDS = {"long sweep": long_sweep, "many curves": many_curves, "pairs": pairs}


def measure(path: Path) -> tuple[float, float, float]:
    """Seconds of the wall, of the processor, and MiB at most of one ``clusterlab report``."""
    command = [sys.executable, "-m", "clusterlab", "report", str(path)]
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=ROOT)
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"the report ended with {process.returncode}")
    return wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    """Make the runs, report each, print a line of figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=1, help="reports of each; the fastest counts")
    asked = parser.parse_args()
    rng = random.Random(5)
    print(
        f"{'run':<12} {'rows':>8} {'file MB':>8} {'wall s':>7} {'cpu s':>7} {'page MB':>8} {'MiB':>6}"
    )
    with tempfile.TemporaryDirectory() as folder:
        for kind, points in KINDS.items():
            some = itertools.islice(points(), asked.rows)
            rows = [fake_row(point, rng, number=i) for i, point in enumerate(some)]
            ranks = max((max(row.ranks) + 1 for row in rows if row.ranks), default=RANKS)
            run = make_run(
                Path(folder), rows, name=kind, world_size=ranks, planned_points=len(rows)
            )
            count, size = len(rows), run.records_path.stat().st_size
            del rows
            wall, cpu, most = min(measure(run.path) for _ in range(asked.times))
            page = run.report_path.stat().st_size
            print(
                f"{kind:<12} {count:>8} {size / 1e6:>8.1f} {wall:>7.2f} {cpu:>7.2f} "
                f"{page / 1e6:>8.2f} {most:>6.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
