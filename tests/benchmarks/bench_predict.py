"""How long predicting takes: a fabric read, a first point, a warm point, a whole sweep.

    python tests/benchmarks/bench_predict.py [--repeat 5]

A sweep is seven collectives × 31 sizes (8 B to 8 GiB). Times are the median of ``--repeat`` runs in one
warm process; cold is the first in it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from clusterlab.core.collectives import COLLECTIVES
from clusterlab.cost.predict import predict
from clusterlab.cost.types import PredictRequest, one_group
from clusterlab.topology.design.load import fabric_from_yaml, load_fabric
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.host import host_fabric
from clusterlab.topology.place import place_on
from tests.cost.examples import HOST, calibration

SIZES = [8 << k for k in range(31)]

SUPERPOD_LIKE = """
links:
  nvlink4: {class: nvlink, GBps: 370.8, GBps_source: 18 links of NCCL's 20.6}
  ndr: {class: ib, GBps: 48, GBps_source: what NCCL gets of a 400G NIC}
hosts:
  count: 127
  devices:
    - {name: "gpu{i}", kind: gpu, count: 8, rail: index}
    - {name: nvswitch, kind: nvswitch}
    - {name: "nic{i}", kind: nic, count: 8, rail: index}
  links:
    - {from: "gpu*", to: nvswitch, type: nvlink4}
    - {from: "gpu{i}", to: "nic{i}", type: ndr}
network:
  devices:
    - {name: "leaf{i}", kind: leaf, count: 8, rail: index}
    - {name: spine, kind: spine}
  links:
    - {from: "n*/nic{i}", to: "leaf{i}", type: ndr}
    - {from: "leaf*", to: spine, type: ndr, multiplicity: 127}
"""


def superpod() -> Fabric:
    return fabric_from_yaml(SUPERPOD_LIKE, file="superpod-like", default_name="superpod-like")


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def requests(fabric: Fabric, ranks: int, backend: str, names: list[str]) -> list[PredictRequest]:
    groups = one_group(place_on(fabric, ranks))
    known = calibration() if fabric.origin == "this host" else None
    return [
        PredictRequest(fabric, groups, name, size, backend=backend, calibration=known)
        for name in names
        for size in SIZES
    ]


def report(
    name: str, make: Callable[[], Fabric], ranks: int, backend: str, names: list[str], repeat: int
) -> None:
    build_s = seconds(make)
    fabric = make()
    asked = requests(fabric, ranks, backend, names)
    cold_s = seconds(lambda: predict(asked[0]))
    sweeps = [seconds(lambda: [predict(r) for r in asked]) for _ in range(repeat + 1)]
    warm_s = statistics.median(sweeps[1:])
    print(
        f"{name:<16}{ranks:>6} ranks {backend:<5}{len(asked):>4} points"
        f"{build_s * 1e3:>9.1f} ms{cold_s * 1e3:>9.1f} ms{sweeps[0] * 1e3:>10.1f} ms"
        f"{warm_s * 1e3:>10.1f} ms{warm_s / len(asked) * 1e6:>9.0f} µs",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=5)
    repeat = parser.parse_args().repeat
    print(f"{'':<44}{'fabric':>12}{'first point':>12}{'cold sweep':>13}{'warm':>13}{'a point':>12}")
    every = list(COLLECTIVES)
    without_pairs = [
        n for n in every if n != "all_to_all"
    ]  # n² flows, point by point: too many here
    for name, ranks in (("h200-2", 2), ("hgx-h100", 8), ("dgx-h100-2node", 16)):
        report(name, lambda name=name: load_fabric(name), ranks, "nccl", every, repeat)
    report("this host", lambda: host_fabric(HOST), 8, "gloo", every, repeat)
    report("lab-2x4", lambda: load_fabric("lab-2x4"), 8, "gloo", every, repeat)
    report("superpod-like", superpod, 1016, "nccl", without_pairs, repeat)


if __name__ == "__main__":
    main()
