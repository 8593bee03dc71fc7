"""From srun to the first collective, split: PMIx, node list, torchrun and a file store, in one lab.

    python tests/benchmarks/bench_bringup.py [--ranks 8 32] [--repeat 2]

The ranks are ``clusterlab bringup --json``. Times are seconds, mean over ranks (slowest in brackets), of the
repeat with the shortest total. ``import`` begins with the process; ``total`` is from srun's start to the
slowest rank's first result. All ranks share this machine's cores, so the
import of torch dominates; on a cluster it is what one rank alone takes.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from clusterlab.lab import lifecycle
from clusterlab.lab.labs import Lab, run
from clusterlab.lab.machine import observe, sized

NODES = 2
PARTS = {
    "import": ("start", "torch"),
    "identity": ("identity",),
    "rendezvous": ("rendezvous",),
    "communicator": ("communicator",),
    "first_call": ("first_call",),
}
BRINGUP = ["-m", "clusterlab", "bringup", "--json", "--backend", "gloo"]


def command(way: str, ranks: int, folder: Path) -> list[str]:
    each = ranks // NODES
    if way == "torchrun":
        torchrun = [
            str(Path(sys.executable).with_name("torchrun")),
            *(f"--nnodes={NODES}", f"--nproc-per-node={each}"),
            *("--rdzv-backend=c10d", "--rdzv-endpoint=n0:21000"),
        ]
        return ["srun", f"-N{NODES}", "--ntasks-per-node=1", *torchrun, *BRINGUP]
    mpi = "pmix" if way == "pmix" else "none"
    step = ["srun", f"--mpi={mpi}", f"-N{NODES}", f"--ntasks-per-node={each}"]
    file = ["--rendezvous-file", str(folder / "store")] if way == "file" else []
    return [*step, sys.executable, *BRINGUP, *file]


def once(lab: Lab, way: str, ranks: int) -> dict[str, list[float]]:
    folder = Path(tempfile.mkdtemp(dir=lab.layout.run_dir))
    started = time.time()
    done = run(lab, command(way, ranks, folder), cwd=folder, timeout_s=240)
    shutil.rmtree(folder)
    lines = [x for x in done.stdout.splitlines() if x.startswith("{")]
    if done.returncode or len(lines) != 1:
        sys.exit(f"{way}, {ranks} ranks: exit code {done.returncode}\n{done.stderr}")
    rows = json.loads(lines[0])["ranks"]
    found = {
        part: [sum(row["phases"][phase] for phase in phases) for row in rows]
        for part, phases in PARTS.items()
    }
    return found | {"total": [max(row["ended_unix_s"] for row in rows) - started]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[8, 32])
    parser.add_argument("--repeat", type=int, default=2)
    options = parser.parse_args()
    lab = lifecycle.up(sized(observe(), nodes=NODES, gpus=8), name="bringup")
    try:
        print(f"{'ranks':>5} {'way':<10}" + "".join(f"{p:>18}" for p in (*PARTS, "total")))
        for ranks in options.ranks:
            for way in ("pmix", "none", "torchrun", "file"):
                best = min(
                    (once(lab, way, ranks) for _ in range(options.repeat)),
                    key=lambda found: found["total"],
                )
                cells = [f"{sum(v) / len(v):.2f} ({max(v):.2f})" for v in best.values()]
                print(f"{ranks:>5} {way:<10}" + "".join(f"{c:>18}" for c in cells), flush=True)
    finally:
        lifecycle.down(name="bringup")


if __name__ == "__main__":
    main()
