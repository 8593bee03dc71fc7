"""How long flows of a whole fabric take: all pairs, a ring, trees of all GPUs; whole and with slow leaves.

    python tests/benchmarks/bench_flows.py [--repeat 5] [--leaves 40] [NAME ...]

NAME is a shipped design, or ``131072``: the generated one of bench_fabric.py. Each runs in a process of its
own, so that peak memory is its own. Cold is the first in the process, warm the median of ``--repeat`` with
the fabric's arrays and tables at hand but every result anew. Slow leaves have all uplinks at half rate.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from clusterlab.cost.flows.crossing import Crossing, crossings
from clusterlab.cost.flows.patterns import Pattern
from clusterlab.topology.design.load import load_fabric
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Link
from tests.benchmarks.bench_fabric import GENERATED, generated, peak_MB, timed

NAMES = ("superpod-h100-4su", "superpod-b200-64su", GENERATED)
PATTERNS: tuple[Pattern, ...] = ("all", "ring", "tree")


def devices(fabric: Fabric) -> list[str]:
    """All GPUs by name, host after host, without making them."""
    return [
        f"{host}/{d.name}"
        for group in fabric.equal_hosts
        for host in group.hosts
        for d in group.items
        if d.kind == "gpu"
    ]


def slowed(fabric: Fabric, leaves: int) -> Fabric:
    """``leaves`` leaves taken at random, their uplinks at half rate, both ways."""
    names = [d.name for d in fabric.network_devices if d.kind == "leaf"]
    bad = set(Random(1).sample(names, min(leaves, len(names) // 2)))
    changes: dict[tuple[str, str], list[Link]] = {}
    for link in fabric.network_links:
        ends = {link.src, link.dst}
        if ends & bad and "spine" in {fabric.kind_of(end) for end in ends}:
            changes.setdefault((link.src, link.dst), []).append(replace(link, health=0.5))
    return fabric.with_links(changes)


_RESULTS = ("crossings", "recalled")


def anew(fabric: Fabric, gpus: list[str], pattern: Pattern) -> Crossing:
    kept = [
        k for k in fabric.memo if k == "recalled" or (isinstance(k, tuple) and k[0] in _RESULTS)
    ]
    for key in kept:
        del fabric.memo[key]
    return crossings(fabric, [gpus], pattern)[0]


def measure(name: str, leaves: int, repeat: int) -> dict[str, Any]:
    start_MB = peak_MB()
    fabric, build_s = timed(generated if name == GENERATED else lambda: load_fabric(name))
    gpus = devices(fabric)
    found: dict[str, Any] = {"name": name, "gpus": len(gpus), "build_s": build_s, "times": []}
    hurt, found["slow_s"] = timed(lambda: slowed(fabric, leaves))
    for state, one in (("whole", fabric), (f"{leaves} slow leaves", hurt)):
        for pattern in PATTERNS:
            crossing, cold = timed(lambda one=one, pattern=pattern: anew(one, gpus, pattern))
            warm = [
                timed(lambda one=one, pattern=pattern: anew(one, gpus, pattern))[1]
                for _ in range(repeat)
            ]
            found["times"].append(
                {
                    "state": state, "pattern": pattern, "cold_s": cold,
                    "warm_s": statistics.median(warm), "share": crossing.share, "cable": crossing.cable,
                }
            )  # fmt: skip
    found["peak_MB"] = peak_MB() - start_MB
    return found


def main() -> None:
    """One process for each name; a table of what they found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(NAMES))
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--leaves", type=int, default=40)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.names[0], options.leaves, options.repeat)))
        return
    for name in options.names:
        words = [sys.executable, __file__, "--one", name]
        words += ["--repeat", str(options.repeat), "--leaves", str(options.leaves)]
        done = subprocess.run(words, check=True, capture_output=True, text=True)
        found = json.loads(done.stdout)
        print(f"{name}: {found['gpus']} GPUs, read in {found['build_s']:.2f} s")
        for row in found["times"]:
            print(
                f"  {row['state']:15} {row['pattern']:5} cold {row['cold_s']:7.3f} s"
                f"  warm {row['warm_s']:7.3f} s  share {row['share']:.3f} {row['cable'] or ''}"
            )
        print(f"  peak memory beside Python's: {found['peak_MB']:.0f} MB")


if __name__ == "__main__":
    main()
