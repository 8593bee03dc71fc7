"""How long a training step elsewhere takes to predict, from the design's name to the answer.

    python tests/benchmarks/bench_train_whatif.py [--repeat 3]

Every prediction opens its fabric anew. ``wall`` and ``cpu`` are seconds, the least of the repeats: on a
machine that others keep busy only ``cpu`` compares. ``process`` is a whole ``clusterlab explain``, python's
start included.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from clusterlab.runs.training.setup import TrainTyped, ranks_typed, setup_of
from clusterlab.runs.training.whatif import compute_of, fabric_named, what_if

FABRIC = "superpod-h100-4su"
MODEL = {
    "layers": 32, "hidden": 4096, "heads": 32, "ffn": 16384, "vocab": 32000, "sequence": 4096,
    "bucket_bytes": 64 << 20,
}  # fmt: skip
CASES = {
    "tp 8, dp 127": TrainTyped("tp", tp=8, dp=127, batch=1016),
    "sp 8, dp 127": TrainTyped("sp", tp=8, dp=127, batch=1016),
    "tp 8, pp 2, dp 63": TrainTyped("3d", tp=8, pp=2, dp=63, batch=1008, micro_batches=8),
    "tp 8, pp 8, dp 15": TrainTyped("3d", tp=8, pp=8, dp=15, batch=960, micro_batches=32),
    "fsdp 1016": TrainTyped("dp", dp=1016, batch=1016, data_parallel="fsdp"),
    "ep 8, dp 1016": TrainTyped("ep", dp=1016, ep=8, batch=1016, experts=64, ffn=2048),
}


def once(typed: TrainTyped) -> tuple[float, float, float]:
    """The step (ms), wall and CPU seconds of its prediction."""
    wall, cpu = time.perf_counter(), time.process_time()
    fabric = fabric_named(FABRIC)
    setup = setup_of(typed, ranks_typed(typed) or 1, "nccl")
    found = what_if(setup, fabric, compute_of(None, fabric, setup))
    return found.step_us / 1e3, time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    """A line a case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    print(f"{FABRIC:<22}{'ranks':>6}{'step ms':>10}{'wall':>8}{'cpu':>8}")
    for name, typed in CASES.items():
        whole = replace(typed, **{k: v for k, v in MODEL.items() if not (k == "ffn" and typed.ffn)})
        found = [once(whole) for _ in range(options.repeat)]
        step, wall, cpu = found[0][0], min(f[1] for f in found), min(f[2] for f in found)
        print(f"{name:<22}{ranks_typed(typed):>6}{step:>10.1f}{wall:>8.2f}{cpu:>8.2f}", flush=True)
    command = [sys.executable, "-m", "clusterlab", "explain", "tp", "--tp", "8", "--dp", "127"]
    command += ["--batch", "1016", "--what-if", FABRIC, "--layers", "32", "--hidden", "4096"]
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    print(f"{'process, tp 8, dp 127':<22}{1016:>6}{'':>10}{time.perf_counter() - started:>8.2f}")


if __name__ == "__main__":
    main()
