"""What `clusterlab place` gains: generated allocations of a fabric, their given order and the proposed one.

    python tests/benchmarks/bench_place.py [--allocations 200] [--fabric superpod-h100-4su] [--routing hash]

An allocation is 4 to 64 hosts in runs of 1 to 8 neighbours scattered over the fabric, in order or shuffled;
ranks go block, cyclic or plane; patterns are those of common trainings.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from clusterlab.core.errors import UsageError
from clusterlab.cost.flows.crossing import ROUTINGS, Routing
from clusterlab.cost.placing.pattern import read_pattern
from clusterlab.cost.placing.propose import Job, Proposal, propose
from clusterlab.topology.design.load import load_fabric
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.rank_order import host_of_each_rank

PATTERNS = ("tp8,dp", "dp", "tp4,dp", "tp8,pp2,dp", "ep16,dp", "tp8,fsdp", "tp2,pp4,dp")
GPUS = 8


def scattered(fabric: Fabric, random: Random) -> list[str]:
    """Hosts of one allocation: runs of neighbours; every second one shuffled as a whole."""
    count = random.choice([4, 8, 12, 16, 24, 32, 48, 64])
    hosts = list(fabric.hosts)
    taken: dict[str, None] = {}
    while len(taken) < count:
        first = random.randrange(len(hosts))
        run = hosts[first : first + random.randint(1, 8)]
        taken.update(dict.fromkeys(run[: count - len(taken)]))
    chosen = list(taken)
    if random.random() < 0.5:
        random.shuffle(chosen)
    else:
        chosen.sort(key=hosts.index)
    return chosen


def proposal(fabric: Fabric, routing: Routing, random: Random) -> tuple[Proposal, float]:
    """Of one allocation, and the seconds it took."""
    while True:
        hosts, pattern = scattered(fabric, random), random.choice(PATTERNS)
        ranks = GPUS * len(hosts)
        try:
            axes = read_pattern(pattern, ranks)
        except UsageError:
            continue
        break
    word = random.choice(["block", "block", "block", "cyclic", "plane=4"])
    given = host_of_each_rank(hosts, ranks, GPUS, word)
    start = time.perf_counter()
    found = propose(fabric, given, Job(ranks, GPUS, axes, routing))
    return found, time.perf_counter() - start


def main() -> None:
    """Print the distribution of gains and of times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--allocations", type=int, default=200)
    parser.add_argument("--fabric", default="superpod-h100-4su")
    parser.add_argument("--routing", default="", choices=["", *ROUTINGS])
    options = parser.parse_args()
    for routing in (r for r in ROUTINGS if options.routing in ("", r)):
        random, fabric = Random(1), load_fabric(options.fabric)
        found = [proposal(fabric, routing, random) for _ in range(options.allocations)]
        gains = [one.gain for one, _ in found]
        seconds = [s for _, s in found]
        worse = sum(one.best.time_us > one.given.time_us for one, _ in found)
        print(
            f"{options.fabric}, {routing}: {len(found)} allocations, worse than given {worse}, better"
            f" {sum(g > 1 for g in gains)}; gain median {statistics.median(gains):.3f}"
            f" p75 {statistics.quantiles(gains, n=4)[2]:.2f} p90 {statistics.quantiles(gains, n=10)[8]:.2f}"
            f" most {max(gains):.2f}; seconds median {statistics.median(seconds):.2f}"
            f" p95 {statistics.quantiles(seconds, n=20)[18]:.2f} most {max(seconds):.2f}"
        )


if __name__ == "__main__":
    main()
