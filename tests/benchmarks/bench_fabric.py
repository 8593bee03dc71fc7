"""How long large fabrics take: built, read into arrays, a million random pairs routed. And how much memory.

    python tests/benchmarks/bench_fabric.py [--pairs 1000000] [--repeat 3] [NAME ...]

NAME is a shipped design, or ``131072``: a generated one of 131,072 GPUs (16,384 hosts with 8 GPUs and 8
NICs, 128-port switches, three tiers, 1:1, spines by rail). Each runs in a process of its own, so that
peak memory is its own; route times are the least and the most of ``--repeat`` different sets of pairs.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from clusterlab.topology.design.clos import Clos
from clusterlab.topology.design.load import load_fabric
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.routing.fluid_load import fluid_load
from clusterlab.topology.routing.load import cable_load
from clusterlab.topology.routing.network import network_of
from clusterlab.topology.routing.policy import POLICIES
from clusterlab.topology.routing.reach import reach_of
from clusterlab.topology.routing.repair import random_pairs
from clusterlab.topology.routing.updown import route_pairs
from tests.topology.routing.clos_fabrics import NDR, fabric_of

GENERATED = "131072"
NAMES = ("superpod-b200-64su", GENERATED)


def generated() -> Fabric:
    shape = Clos(
        hosts_per_su=64,
        rails=8,
        spines=2048,
        cores=1024,
        uplinks=64,
        core_uplinks=64,
        sus_per_pod=16,
        rail_groups=True,
        ports={"leaf": 128, "spine": 128, "core": 128},
        kinds={"leaf": NDR, "spine": NDR, "core": NDR},
    )
    return fabric_of(shape, 16_384, gpus=True)


def peak_MB() -> float:
    """Of this process, in 1e6 bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def gpus(fabric: Fabric) -> int:
    """Counted without making the devices of equal hosts."""
    repeated = (
        len(group.hosts) for group in fabric.equal_hosts for d in group.items if d.kind == "gpu"
    )
    return sum(repeated) + sum(d.kind == "gpu" for d in fabric.single_devices)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def measure(name: str, pairs: int, repeat: int) -> dict[str, Any]:
    start_MB = peak_MB()
    fabric, build_s = timed(generated if name == GENERATED else lambda: load_fabric(name))
    found: dict[str, Any] = {
        "name": name,
        "gpus": gpus(fabric),
        "devices": len(fabric.devices),
        "links": len(fabric.links),
        "build_s": build_s,
        "built_MB": peak_MB() - start_MB,
    }
    network, found["arrays_s"] = timed(lambda: network_of(fabric))
    _, found["tables_s"] = timed(lambda: reach_of(network))
    found |= {"cables": len(network.low), "switches": network.switches}
    for policy_name, policy in POLICIES.items():
        times = []
        for seed in range(repeat):
            src, dst = random_pairs(network, pairs, seed)
            routes, seconds = timed(
                lambda src=src, dst=dst, policy=policy: route_pairs(network, src, dst, policy())
            )
            times.append(seconds)
            if not routes.reached.all():
                raise SystemExit(f"{name}: {policy_name} left pairs unreached")
        found[f"{policy_name}_s"] = times
    _, found["load_s"] = timed(lambda: cable_load(network, routes))
    fluid, found["fluid_s"] = timed(lambda: fluid_load(network, src, dst, 1.0))
    crossed = float(cable_load(network, routes).sum())
    if not np.isclose(fluid.load.sum(), crossed):
        raise SystemExit(f"{name}: the fluid crosses other cables than the paths do")
    found["peak_MB"] = peak_MB() - start_MB
    return found


def report(found: dict[str, Any], pairs: int) -> None:
    print(
        f"{found['name']}: {found['gpus']} GPUs, {found['devices']} devices, {found['links']} links, "
        f"{found['switches']} switches, {found['cables']} cables\n"
        f"  built                  {found['build_s']:8.2f} s {found['built_MB']:8.0f} MB\n"
        f"  network as arrays      {found['arrays_s']:8.2f} s\n"
        f"  distances              {found['tables_s']:8.2f} s"
    )
    for name in POLICIES:
        times = found[f"{name}_s"]
        print(f"  {pairs} pairs {name:<10} {min(times):8.2f} s to {max(times):.2f} s")
    print(
        f"  their load per cable   {found['load_s']:8.2f} s\n"
        f"  the same as a fluid    {found['fluid_s']:8.2f} s\n"
        f"  most memory            {'':>10} {found['peak_MB']:8.0f} MB",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=NAMES, metavar="NAME")
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.alone:
        print(json.dumps(measure(chosen.names[0], chosen.pairs, chosen.repeat)))
        return
    for name in chosen.names:
        asked = ["--alone", "--pairs", str(chosen.pairs), "--repeat", str(chosen.repeat), name]
        done = subprocess.run(
            [sys.executable, __file__, *asked], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(done.stderr)
        report(json.loads(done.stdout), chosen.pairs)


if __name__ == "__main__":
    main()
