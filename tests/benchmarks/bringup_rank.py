"""One rank of bench_bringup.py: from process start to the first collective, split. Prints one JSON line.

    bringup_rank.py pmix|none|torchrun|file [FOLDER]

``file`` meets through a FileStore in FOLDER, as scripts without any launcher support do.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


def process_start_s() -> float:
    """When this process started, on time.time()'s clock."""
    ticks = float(Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19])
    boot = next(
        float(x.split()[1]) for x in Path("/proc/stat").read_text().splitlines() if "btime" in x
    )
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    # btime has whole seconds only; now minus uptime is the same moment, finer.
    boot = time.time() - uptime if abs(time.time() - uptime - boot) < 2 else boot
    return boot + ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    marks = [process_start_s()]
    import torch
    import torch.distributed as dist

    from clusterlab.launch.join import arrive
    from clusterlab.launch.rendezvous import init_process_group

    marks.append(time.time())
    arrival = arrive(os.environ)
    assert arrival is not None
    identity = arrival.identity
    marks.append(time.time())
    if sys.argv[1] == "file":
        store = dist.FileStore(str(Path(sys.argv[2]) / "store"), identity.world_size)
        store.set(f"here/{identity.rank}", "1")
        store.wait([f"here/{r}" for r in range(identity.world_size)])
    else:
        store = arrival.open_store(120)
    marks.append(time.time())
    init_process_group(identity, store, "gloo", timeout_s=120)
    marks.append(time.time())
    dist.all_reduce(torch.ones(1))
    marks.append(time.time())
    names = ("import", "identity", "rendezvous", "communicator", "first_call")
    spans = dict(zip(names, (b - a for a, b in itertools.pairwise(marks)), strict=True))
    print(json.dumps({"rank": identity.rank, "end": marks[-1], **spans}), flush=True)
    dist.barrier()
    dist.destroy_process_group()
    arrival.leave()


if __name__ == "__main__":
    main()
