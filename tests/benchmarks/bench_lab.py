"""Predictions for gloo against shaped labs: every collective on whole, slowed and cut networks.

    python tests/benchmarks/bench_lab.py [--only lab-flat-4x2] [--repeat 3] [--save measured.jsonl]
    python tests/benchmarks/bench_lab.py --from measured.jsonl

Each point is measured ``--repeat`` times by `clusterlab bench` in the lab, 8 ranks on 4 nodes; the median of
the loop times counts. A loop is 5 calls, but 20 for all_to_all, whose first calls after a barrier are faster
than the others. With ``--from`` nothing is measured: what was saved meets the predictions of today. The
machine's cores move every byte: with a load above ``--load`` each run waits for up to two minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from clusterlab.core.collectives import busbw_factor
from clusterlab.cost.predict import predict
from clusterlab.cost.types import PredictRequest, one_group
from clusterlab.lab import faults, lifecycle
from clusterlab.lab.fabric_of_lab import open_lab_fabric
from clusterlab.lab.labs import Lab, run
from clusterlab.lab.machine import observe, sized
from clusterlab.topology.failures.breaking import break_fabric
from clusterlab.topology.opening import open_fabric
from clusterlab.topology.place import place_on

NAME = "bench-lab"
STATES = {
    "lab-flat-4x2": ("", "n1/nic0:50%"),
    "lab-rails-4x2": ("", "leaf0/spine0:50%", "leaf0/spine0"),
    "lab-2to1-4x2": ("", "leaf0/spine0:50%", "leaf0/spine0"),
}
"""What is broken, one after the other, as `topo break` writes it."""

CALLS = {"all_to_all": 20}
COLLECTIVES = "all_reduce,reduce_scatter,all_gather,send_recv,all_to_all,broadcast,reduce"
RANKS = ["srun", "--mpi=pmix", "-N4", "--ntasks-per-node=2"]
CLUSTERLAB = str(Path(sys.executable).with_name("clusterlab"))

Key = tuple[str, str, str, str, int]
"""Design, routing, what is broken, collective, bytes."""


def main() -> None:
    options = parsed()
    times: dict[Key, list[float]] = defaultdict(list)
    rows = read(options.source) if options.source else measured(options)
    for row in rows:
        key = (row["design"], row["routing"], row["broken"], row["collective"], row["size_bytes"])
        times[key].append(row["time_us"])
    points = [met(key, times[key]) for key in sorted(times, key=order)]
    print("\n".join([*summary(points), "", *table(points)]))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=STATES, default=list(STATES))
    parser.add_argument("--broken", nargs="+", help="these states only, '' for whole")
    parser.add_argument("--routing", default="pinned")
    parser.add_argument("--collectives", default=COLLECTIVES)
    parser.add_argument("--sizes", default="1M:8M:8", help="begin:end:factor")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--load", type=float, default=4.0, help="load at which a run waits")
    parser.add_argument("--save", type=Path, help="append what is measured, a JSON line each")
    parser.add_argument("--from", dest="source", type=Path, help="measured before")
    return parser.parse_args()


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def measured(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Every row of every run, saved as it comes."""
    for design in options.only:
        lab = up(design, options.routing)
        try:
            for broken in STATES[design]:
                if options.broken is None or broken in options.broken:
                    change(lab, broken)
                    for _ in range(options.repeat):
                        yield from saved(one_run(lab, design, broken, options), options.save)
        finally:
            lifecycle.down(name=NAME)


def up(design: str, routing: str) -> Lab:
    fabric = open_lab_fabric(design, routing)
    identity = {"fabric": design, "fabric_digest": fabric.fabric.digest, "routing": routing}
    spec = sized(observe(), **fabric.shape, **identity)  # type: ignore[arg-type]
    return lifecycle.up(spec, fabric=fabric, name=NAME)


def change(lab: Lab, broken: str) -> None:
    faults.heal(lab, [])
    link, _, left = broken.partition(":")
    if left:
        faults.degrade(lab, [link], left)
    elif link:
        faults.fail(lab, [link])


def one_run(
    lab: Lab, design: str, broken: str, options: argparse.Namespace
) -> list[dict[str, Any]]:
    wait_for_cores(options.load)
    calls: dict[int, list[str]] = defaultdict(list)
    for collective in options.collectives.split(","):
        calls[CALLS.get(collective, 5)].append(collective)
    rows = [row for many, those in calls.items() for row in bench(lab, those, many, options.sizes)]
    return [
        {
            "design": design,
            "routing": options.routing,
            "broken": broken,
            "collective": row["collective"],
            "size_bytes": row["size_bytes"],
            "time_us": row["time_us_loop"],
            "cv": row["cv"],
            "load": os.getloadavg()[0],
        }
        for row in rows
    ]


def bench(lab: Lab, collectives: list[str], calls: int, sizes: str) -> list[dict[str, Any]]:
    begin, end, factor = sizes.split(":")
    words = ["-b", begin, "-e", end, "-f", factor, "-n", str(calls), "-w", "2"]
    with tempfile.TemporaryDirectory(dir=lab.layout.run_dir) as folder:
        command = [*RANKS, CLUSTERLAB, "bench", ",".join(collectives), *words, "--json"]
        command += ["--place", "out", "--check", "0"]
        done = run(lab, command, env={"CLUSTERLAB_RUNS": folder}, timeout_s=900)
    if done.returncode:
        sys.exit(f"{collectives}: exit code {done.returncode}\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def wait_for_cores(most: float) -> None:
    end = time.monotonic() + 120
    while os.getloadavg()[0] > most and time.monotonic() < end:
        time.sleep(2)


def saved(rows: list[dict[str, Any]], path: Path | None) -> list[dict[str, Any]]:
    if path is not None:
        with path.open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    return rows


def predicted_us(key: Key) -> float:
    design, routing, broken, collective, size = key
    fabric = open_fabric(design)
    if broken:
        fabric = break_fabric(fabric, [broken])
    groups = one_group(place_on(fabric, 8))
    request = PredictRequest(fabric, groups, collective, size, routing=routing)  # type: ignore[arg-type]
    return predict(request).time_us


@dataclass(frozen=True, slots=True)
class Met:
    """A point, predicted and measured; busbw in MB/s, ``error``: predicted over measured time - 1."""

    key: Key
    predicted: float
    measured: float
    least: float
    most: float
    error: float


def met(key: Key, times_us: list[float]) -> Met:
    size, collective = key[4], key[3]
    moved = size * busbw_factor(collective, 8)
    us, model_us = statistics.median(times_us), predicted_us(key)
    return Met(
        key,
        moved / model_us,
        moved / us,
        moved / max(times_us),
        moved / min(times_us),
        model_us / us - 1,
    )


def summary(points: list[Met]) -> list[str]:
    """Markdown: by collective and size, how far predictions are off."""
    lines = [
        "| collective | size | points | median error, absolute | worst |",
        "|---|---|---|---|---|",
    ]
    groups: dict[tuple[int, int], list[float]] = defaultdict(list)
    for point in points:
        groups[COLLECTIVES.split(",").index(point.key[3]), point.key[4]].append(point.error)
    for (number, size), errors in sorted(groups.items()):
        name, median = COLLECTIVES.split(",")[number], statistics.median(map(abs, errors))
        worst = max(errors, key=abs)
        lines.append(f"| {name} | {size >> 20} MiB | {len(errors)} | {median:.0%} | {worst:+.0%} |")
    return lines


def table(points: list[Met]) -> list[str]:
    """Markdown, a line for each point."""
    lines = [
        "| lab | broken | collective | size | predicted | measured | of the runs | error |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for point in points:
        design, routing, broken, collective, size = point.key
        name = f"`{design}`" + (f" {routing}" if routing != "pinned" else "")
        lines.append(
            f"| {name} | {broken or '–'} | {collective} | {size >> 20} MiB | {point.predicted:.1f} | "
            f"{point.measured:.1f} | {point.least:.1f} – {point.most:.1f} | {point.error:+.0%} |"
        )
    return lines


def order(key: Key) -> tuple[int, bool, int, int, int]:
    design, routing, broken, collective, size = key
    names = COLLECTIVES.split(",")
    state = STATES[design].index(broken)
    return list(STATES).index(design), routing != "pinned", state, names.index(collective), size


if __name__ == "__main__":
    main()
