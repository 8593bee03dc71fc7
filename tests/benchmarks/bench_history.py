"""Times of the history over many generated run directories, each command a process of its own.

    python -m tests.benchmarks.bench_history                      # 10,000 runs of 300 rows
    python -m tests.benchmarks.bench_history --runs 1000 --at DIR # fewer; kept in DIR and used again

Generated runs are of three clusters over two years, with known truth (history_runs.py): whether the trend
names the slow node, and since when, is printed, too. 10,000 runs take 5 GB.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.history_runs import (
    NEW_NCCL,
    ROWS,
    SLOW_CLUSTER,
    SLOW_NODE,
    SLOW_SINCE,
    make_runs,
)

_PER_ROW_BYTES = 1650
_NEW = 10


def main() -> None:
    """Generate what is missing, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--at", type=Path, help="keep the runs here and use them again")
    parser.add_argument("--warm", action="store_true", help="do without the cold index")
    asked = parser.parse_args()
    root = asked.at or Path(tempfile.mkdtemp(prefix="clusterlab-history-"))
    try:
        _measure(root, asked.runs, cold=not asked.warm)
    finally:
        if asked.at is None:
            shutil.rmtree(root)


def _measure(root: Path, runs: int, *, cold: bool) -> None:
    root.mkdir(parents=True, exist_ok=True)
    there = sum(path.name[0] != "." for path in root.iterdir())
    if there < runs:
        need, free = (runs - there) * ROWS * _PER_ROW_BYTES, shutil.disk_usage(root).free
        if need > free * 0.9:
            sys.exit(f"{need / 1e9:.1f} GB are needed in {root}, {free / 1e9:.1f} GB are free")
        begun = time.perf_counter()
        make_runs(root, runs - there)
        print(f"generated      {runs - there} runs in {time.perf_counter() - begun:.0f} s")
    print(f"{runs} runs of {ROWS} rows; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    if cold:
        shutil.rmtree(root / ".index", ignore_errors=True)
    _command("cold index" if cold else "index", root, "index")
    size = sum(path.stat().st_size for path in (root / ".index").iterdir())
    print(f"index          {size / 1e6:.0f} MB")
    for _ in range(2):
        _command("list", root, "list")
    _command(
        "list rows",
        root,
        "list",
        "--collective",
        "all_reduce",
        "--size",
        "1G:",
        "--host",
        SLOW_NODE,
    )
    _command(
        "query",
        root,
        "query",
        "--collective",
        "all_reduce",
        "--size",
        "512M",
        "--since",
        "2026-10-01",
    )
    _command("trend 1", root, "trend", "--cluster", SLOW_CLUSTER, "--collective", "all_reduce")
    found = _command("trend all", root, "trend", "--json")
    make_runs(root, _NEW, first=max(runs, there))
    _command("10 new runs", root, "list")
    _truth(json.loads(found))
    for path in sorted(root.iterdir())[-_NEW:]:
        shutil.rmtree(path)


def _command(name: str, root: Path, *words: str) -> str:
    """Run ``clusterlab runs …`` and print its wall and CPU time and the most memory it held."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.perf_counter()
    # A process between, so that the peak is of this command and not of one before it.
    code = (
        "import resource, subprocess, sys\n"
        "done = subprocess.run(sys.argv[1:])\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)\n"
        "sys.exit(done.returncode)"
    )
    command = [sys.executable, "-m", "clusterlab.cli.main"]
    if shutil.which("clusterlab", path=str(Path(sys.executable).parent)):
        command = [str(Path(sys.executable).parent / "clusterlab")]
    done = subprocess.run(
        [sys.executable, "-c", code, *command, "runs", words[0], "--runs", str(root), *words[1:]],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    wall = time.perf_counter() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if done.returncode not in (0, 1):
        sys.exit(f"{words}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    peak_mb = int(done.stderr.split()[-1]) * 1024 / 1e6
    print(f"{name:<14} {wall:7.2f} s, {cpu:7.2f} s CPU, {peak_mb:5.0f} MB", flush=True)
    return done.stdout


def _truth(machines: list[dict[str, object]]) -> None:
    for machine in machines:
        nodes = machine["slow_nodes"]
        cells = machine["cells"]
        assert isinstance(nodes, list)
        assert isinstance(cells, list)
        named = sorted({node["host"] for node in nodes})
        since = sorted({node["since"]["time_utc"][:10] for node in nodes if node["since"]})
        shifts = sorted(
            {
                f"{shift['since']['time_utc'][:10]} ×{shift['ratio']:.2f} {cell['band']}"
                for cell in cells
                for shift in cell["shifts"]
            }
        )
        print(f"{machine['cluster']}: slow nodes {named} since {since}; steps {shifts}")
    print(
        f"truth: {SLOW_NODE} since {SLOW_SINCE:%Y-%m-%d}, large sizes; a step of ×0.93 of small sizes "
        f"on jura on {NEW_NCCL:%Y-%m-%d}"
    )


if __name__ == "__main__":
    main()
