"""How long predicting takes, and how much memory: a whole sweep on small machines and on the largest.

    python tests/benchmarks/bench_predict.py [--repeat 5] [NAME[:RANKS] ...]

NAME is a shipped design (all its GPUs, or RANKS of them) or ``this-host`` (8 ranks over gloo). A sweep is
seven collectives x 31 sizes (8 B to 8 GiB) with every way that the library weighs at each; ``ways`` counts
these. One line a case, medians of ``--repeat``: ``fabric`` read and ranks placed, ``first`` point and whole
sweep ``cold``, in a process of its own each, the same sweep ``warm`` in one of them, and ``peak`` memory of
such a process. The import of the package is in none of them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from clusterlab.core.collectives import COLLECTIVES
from clusterlab.cost.predict import predict
from clusterlab.cost.types import PredictRequest, one_group
from clusterlab.topology.design.load import load_fabric
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.host import host_fabric
from clusterlab.topology.parts import PRETENDED
from clusterlab.topology.place import place_on
from tests.benchmarks.bench_fabric import gpus, peak_MB, timed
from tests.cost.examples import HOST, calibration

SIZES = [8 << k for k in range(31)]
THIS_HOST = "this-host"
CASES = (
    "h200-2",
    "hgx-h100",
    "dgx-h100-2node",
    THIS_HOST,
    "lab-2x4",
    "superpod-gb200",
    "superpod-h100-4su",
    "alibaba-hpn",
    "superpod-b200-64su",
    "meta-roce-24k",
)


def requests(fabric: Fabric, ranks: int) -> list[PredictRequest]:
    """The sweep, all to be predicted for the same group."""
    groups = one_group(place_on(fabric, ranks))
    known = calibration() if fabric.origin == "this host" else None
    real = fabric.models("gpu").keys() - {PRETENDED}
    backend = "nccl" if real else "gloo"
    return [
        PredictRequest(fabric, groups, name, size, backend=backend, calibration=known)
        for name in COLLECTIVES
        for size in SIZES
    ]


def measure(case: str, repeat: int) -> dict[str, Any]:
    """One case in this process, which has predicted nothing yet."""
    name, _, count = case.partition(":")

    def read() -> list[PredictRequest]:
        fabric = host_fabric(HOST) if name == THIS_HOST else load_fabric(name)
        return requests(fabric, int(count or 0) or gpus(fabric) or 8)

    asked, fabric_s = timed(read)
    _, first_s = timed(lambda: predict(asked[0]))
    found, rest_s = timed(lambda: [predict(r) for r in asked])
    warm = [timed(lambda: [predict(r) for r in asked])[1] for _ in range(repeat)]
    return {
        "name": name,
        "ranks": len(asked[0].groups[0]),
        "backend": asked[0].backend,
        "points": len(found),
        "ways": sum(1 + len(p.alternatives) for p in found),
        "fabric_s": fabric_s,
        "first_s": first_s,
        "cold_s": first_s + rest_s,
        "warm_s": statistics.median(warm),
        "peak_MB": peak_MB(),
    }


HEAD = ("", "ranks", "", "points", "ways", "fabric", "first", "cold", "warm", "a point", "peak")
ROW = "{:<20}{:>6} {:<5}{:>7}{:>7}{:>10}{:>10}{:>10}{:>10}{:>9}{:>8}"


def line(runs: Sequence[dict[str, Any]]) -> str:
    """Medians of the runs of one case."""
    one = runs[0]
    middle = {
        key: statistics.median(run[key] for run in runs)
        for key in ("fabric_s", "first_s", "cold_s", "warm_s", "peak_MB")
    }
    return ROW.format(
        one["name"],
        one["ranks"],
        one["backend"],
        one["points"],
        one["ways"],
        *(f"{middle[key] * 1e3:.1f} ms" for key in ("fabric_s", "first_s", "cold_s", "warm_s")),
        f"{middle['warm_s'] / one['points'] * 1e6:.0f} us",
        f"{middle['peak_MB']:.0f} MB",
    )


def alone(case: str, repeat: int) -> dict[str, Any]:
    """``measure`` in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--alone", "--repeat", str(repeat), case],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", default=CASES, metavar="NAME[:RANKS]")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.alone:
        print(json.dumps(measure(chosen.cases[0], chosen.repeat)))
        return
    print(ROW.format(*HEAD))
    for case in chosen.cases:
        print(line([alone(case, chosen.repeat) for _ in range(chosen.repeat)]), flush=True)


if __name__ == "__main__":
    main()
