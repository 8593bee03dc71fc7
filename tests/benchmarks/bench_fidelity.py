"""clusterlab beside nccl-tests on the same GPUs, in alternation: the same loops, flags and library.

    python tests/benchmarks/bench_fidelity.py --nccl-tests ~/nccl-tests/build [--ranks 2] [--rounds 2]
        [-e 4G] [-f 4] [--out FOLDER]

nccl-tests must be linked to the libnccl that torch loads (LD_LIBRARY_PATH is set to it here). With --mpiexec
it runs a process a GPU, as clusterlab does (built with MPI=1); without, a thread a GPU (-t), which lets NCCL
register buffers of CUDA graphs that it cannot register between processes.

A launch takes 7 to 12 µs depending on the CPU that makes it, so below 1 MiB let both run on the same few:
`taskset -c 0-7 python tests/benchmarks/bench_fidelity.py ...`.

Each round runs nccl-tests' plain loop, clusterlab's direct and eager modes, nccl-tests' -G, clusterlab's
graph mode. A ratio is clusterlab's time over nccl-tests' of the same round, collective, dtype, size and
place: direct and eager against the plain loop, graph against -G. FOLDER gets, as they are measured,
nccl_tests.csv, ratios.csv and clusterlab's run directories, whose rows hold the predictions made before.
"""

from __future__ import annotations

import argparse
import csv
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, fields
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from clusterlab.core.dtypes import DTYPES, dtype
from clusterlab.core.sizes import human_size
from clusterlab.formats.nccl_tests import parse_nccl_tests
from clusterlab.records.store import read_records

BINARIES = {
    "all_reduce": "all_reduce_perf",
    "reduce_scatter": "reduce_scatter_perf",
    "all_gather": "all_gather_perf",
    "all_to_all": "alltoall_perf",
    "broadcast": "broadcast_perf",
    "reduce": "reduce_perf",
    "send_recv": "sendrecv_perf",
}
NCCL_TESTS_DTYPES = {"float32": "float", "bfloat16": "bfloat16"}
WAYS = {"loop": ("direct", "eager"), "graph": ("graph",)}
"""Ways of nccl-tests, and the modes of clusterlab that are compared with each."""

MODES = ("direct", "eager", "graph")

BANDS = (
    (0, 1 << 20, "< 1 MiB"),
    (1 << 20, 16 << 20, "1 to 16 MiB"),
    (16 << 20, 1 << 62, ">= 16 MiB"),
)

Key = tuple[str, str, int, bool]
"""Collective, dtype, size in bytes, in place."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One point of one round, in µs."""

    round: int
    mode: str
    collective: str
    dtype: str
    size_bytes: int
    in_place: bool
    clusterlab_us: float
    nccl_tests_us: float
    ratio: float


def nccl_tests(
    options: argparse.Namespace, name: str, kind: str, *, graph: bool
) -> dict[Key, float]:
    """Times (µs) of nccl-tests' table, slowest rank (-a 3)."""
    threads = 1 if options.mpiexec else options.ranks
    words = [options.mpiexec, "-n", str(options.ranks)] if options.mpiexec else []
    words += [str(Path(options.nccl_tests) / BINARIES[name]), "-t", str(threads), "-g", "1"]
    words += ["-b", options.begin, "-e", options.end, "-f", str(options.factor)]
    words += ["-n", str(options.iterations), "-w", "5", "-c", "0", "-a", "3"]
    words += ["-d", NCCL_TESTS_DTYPES[kind]]
    words += ["-G", str(options.launches)] if graph else []
    more = f":{os.environ['LD_LIBRARY_PATH']}" if "LD_LIBRARY_PATH" in os.environ else ""
    environment = {**os.environ, "LD_LIBRARY_PATH": library_folder() + more}
    done = subprocess.run(
        words, check=False, env=environment, capture_output=True, text=True, timeout=300
    )
    if done.returncode:
        sys.exit(
            f"{' '.join(words)}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    found: dict[Key, float] = {}
    for row in parse_nccl_tests(done.stdout).rows:
        for place, half in ((False, row.out_of_place), (True, row.in_place)):
            if half is not None:
                found[name, dtype(str(row.dtype)).name, row.size_bytes, place] = half.time_us
    return found


def library_folder() -> str:
    """Where the libnccl that torch loads lies."""
    import nvidia.nccl

    return str(Path(next(iter(nvidia.nccl.__path__))) / "lib")


def clusterlab(options: argparse.Namespace, kind: str, number: int, mode: str) -> dict[Key, float]:
    """Times (µs, the loop's) of every collective in one mode, by point."""
    name = f"round{number}-{kind}-{mode}"
    words = [sys.executable, "-m", "clusterlab", "bench", ",".join(options.collectives)]
    words += ["-g", str(options.ranks), "-b", options.begin, "-e", options.end]
    words += ["-f", str(options.factor), "-n", str(options.iterations), "-w", "5", "-c", "0"]
    words += ["-d", kind, "--backend", "nccl", "--timing", mode, "--json", "--name", name]
    words += ["-G", str(options.launches)] if mode == "graph" else []
    words += ["--fabric", options.fabric] if options.fabric else []
    environment = {**os.environ, "CLUSTERLAB_RUNS": str(options.out)}
    done = subprocess.run(
        words, check=False, env=environment, capture_output=True, text=True, timeout=600
    )
    if done.returncode:
        print(f"{' '.join(words)}: exit {done.returncode}\n{done.stderr[-3000:]}", flush=True)
    return {
        (row.collective, row.dtype, row.size_bytes, row.in_place): row.time_us_loop
        for run in Path(options.out).glob(f"*-{name}-*")
        for row in read_records(run).rows
    }


def rounds(options: argparse.Namespace, keep: Callable[..., object]) -> Iterator[Compared]:
    """Every point both have measured, round after round. ``keep`` takes nccl-tests' own at once."""
    for number in range(1, options.rounds + 1):
        for kind in options.dtypes:
            for way, modes in WAYS.items():
                if not set(modes) & set(options.modes):
                    continue
                start = time.monotonic()
                theirs: dict[Key, float] = {}
                for name in options.collectives:
                    theirs |= nccl_tests(options, name, kind, graph=way == "graph")
                for key, time_us in theirs.items():
                    keep(number, way, *key, time_us)
                print(f"round {number} {kind} {way}: {time.monotonic() - start:.0f} s", flush=True)
                for mode in (mode for mode in modes if mode in options.modes):
                    start = time.monotonic()
                    for key, time_us in clusterlab(options, kind, number, mode).items():
                        if theirs.get(key):
                            ratio = time_us / theirs[key]
                            yield Compared(number, mode, *key, time_us, theirs[key], ratio)
                    print(
                        f"round {number} {kind} {mode}: {time.monotonic() - start:.0f} s",
                        flush=True,
                    )


def summary(found: list[Compared]) -> Iterator[str]:
    """A line per mode, band and collective: medians over rounds first, then over sizes and places."""
    by_point: dict[tuple[str, Key], list[float]] = {}
    for one in found:
        key = (one.collective, one.dtype, one.size_bytes, one.in_place)
        by_point.setdefault((one.mode, key), []).append(one.ratio)
    ratios = {point: statistics.median(values) for point, values in by_point.items()}
    for mode in MODES:
        for low, high, band in BANDS:
            for kind in dict.fromkeys(key[1] for m, key in ratios if m == mode):
                cells = []
                for name in BINARIES:
                    some = [
                        ratio
                        for (m, key), ratio in ratios.items()
                        if m == mode and key[:2] == (name, kind) and low <= key[2] < high
                    ]
                    if some:
                        cells.append(
                            f"{name} {statistics.median(some):.3f} ({min(some):.3f}-{max(some):.3f})"
                        )
                yield f"{mode:6} {kind:8} {band:11} | " + " | ".join(cells)


def main() -> None:
    """Run the rounds, print the summary, write ratios.csv."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nccl-tests", required=True, help="build folder of nccl-tests")
    parser.add_argument("--mpiexec", help="run nccl-tests as processes by this")
    parser.add_argument("--modes", nargs="+", default=list(MODES), choices=list(MODES))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("-b", dest="begin", default="8")
    parser.add_argument("-e", dest="end", default="4G")
    parser.add_argument("-f", dest="factor", type=int, default=4)
    parser.add_argument("-n", dest="iterations", type=int, default=20)
    parser.add_argument("--launches", type=int, default=10, help="-G of both")
    parser.add_argument(
        "--dtypes", nargs="+", default=["float32", "bfloat16"], choices=sorted(DTYPES)
    )
    parser.add_argument("--collectives", nargs="+", default=list(BINARIES), choices=list(BINARIES))
    parser.add_argument("--fabric", help="design to predict on")
    parser.add_argument("--out", default="fidelity")
    options = parser.parse_args()
    folder = Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    found: list[Compared] = []
    with (
        (folder / "ratios.csv").open("w", newline="") as file,
        (folder / "nccl_tests.csv").open("w", newline="", buffering=1) as theirs,
    ):
        writer = csv.writer(file)
        writer.writerow(field.name for field in fields(Compared))
        kept = csv.writer(theirs, lineterminator="\n")
        kept.writerow(["round", "way", "collective", "dtype", "size_bytes", "in_place", "time_us"])
        for one in rounds(options, lambda *values: kept.writerow(values)):
            writer.writerow(astuple(one))
            file.flush()
            found.append(one)
    if not found:
        sys.exit("no point was measured by both")
    print(
        f"{options.ranks} ranks, {options.begin} to {human_size(max(o.size_bytes for o in found))}"
    )
    print("clusterlab's time over nccl-tests', median over sizes and places (least to most)")
    for line in summary(found):
        print(line)


if __name__ == "__main__":
    main()
