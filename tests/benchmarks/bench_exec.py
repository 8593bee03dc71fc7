"""What `clusterlab exec` adds to a command's start, side by side with the command alone.

    python tests/benchmarks/bench_exec.py [--repeat 30]

Each row is run in turn with the others, `--repeat` times; times are ms from start to end of `true` (or of
what stands there). ``added`` is the median less that of `true`; ``cpu`` the processor time, all processes
together, which a busy machine changes least. Twice: with byte code kept, as installed
packages have it; and from a checkout that has none and may write none (PYTHONDONTWRITEBYTECODE).
Then the output of one command that prints 500 MB, through a tag and without.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import clusterlab

CLUSTERLAB = str(Path(sys.executable).with_name("clusterlab"))
STEP = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "1",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "0",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_STEP_TASKS_PER_NODE": "2",
    "SLURMD_NODENAME": "n0",
}
COMMANDS = {
    "true": ["true"],
    "python -c pass": [sys.executable, "-c", "pass"],
    "clusterlab exec -- true": [CLUSTERLAB, "exec", "--", "true"],
    "clusterlab exec --bind gpu,cpu,nic -- true": [
        *(CLUSTERLAB, "exec", "--bind", "gpu,cpu,nic", "--", "true"),
    ],
    "clusterlab exec --tag none -- true": [CLUSTERLAB, "exec", "--tag", "none", "--", "true"],
    "clusterlab --version (typer, all commands)": [CLUSTERLAB, "--version"],
}
LINE = b"rank 3 waits in ncclCommInitRank for the others, and says so at length in its log\n"
PRINTED_BYTES = 500_000_000


def cpu_ms() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1e3 * (used.ru_utime + used.ru_stime)


def started(repeat: int, environment: dict[str, str]) -> dict[str, list[tuple[float, float]]]:
    """(elapsed, processor time) of each command in ms, taken in turn."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in COMMANDS}
    for turn in range(repeat + 1):
        for name, command in COMMANDS.items():
            start, used = time.perf_counter(), cpu_ms()
            subprocess.run(command, check=True, capture_output=True, env=environment)
            if turn:  # the first fills caches
                times[name].append((1e3 * (time.perf_counter() - start), cpu_ms() - used))
    return times


def show(title: str, times: dict[str, list[tuple[float, float]]]) -> None:
    bare = statistics.median(elapsed for elapsed, _ in times["true"])
    print(f"{title:<44} {'median':>8} {'min':>8} {'added':>8} {'cpu':>8}  ms")
    for name, found in times.items():
        elapsed, cpu = ([pair[i] for pair in found] for i in (0, 1))
        median = statistics.median(elapsed)
        print(
            f"{name:<44} {median:8.1f} {min(elapsed):8.1f} {median - bare:8.1f}"
            f" {statistics.median(cpu):8.1f}"
        )


def throughput() -> None:
    script = f"head -c {PRINTED_BYTES} {{}}"
    with tempfile.NamedTemporaryFile() as file:
        file.write(LINE * (PRINTED_BYTES // len(LINE)))
        file.flush()
        for name, prefix in (("alone", []), ("tagged", [CLUSTERLAB, "exec", "--"])):
            command = [*prefix, "sh", "-c", script.format(file.name)]
            start = time.perf_counter()
            with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
                assert process.stdout is not None
                while process.stdout.read(1 << 20):
                    pass
            seconds = time.perf_counter() - start
            print(f"{name:<8} {PRINTED_BYTES / seconds / 1e6:8.0f} MB/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=30)
    options = parser.parse_args()
    base = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "PYTHON"))} | STEP
    with tempfile.TemporaryDirectory() as cache:
        kept = base | {"PYTHONPYCACHEPREFIX": cache}
        show("byte code kept", started(options.repeat, kept))
    with tempfile.TemporaryDirectory() as fresh:
        package = Path(clusterlab.__file__).parent
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(package, Path(fresh) / "clusterlab", ignore=ignore)
        none = base | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": fresh}
        show("no byte code of clusterlab", started(max(1, options.repeat // 3), none))
    throughput()


if __name__ == "__main__":
    main()
