"""One rank that is witnessed: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say which, argv[1] where to.

Rank 0 prints one JSON line per point, then the facts of the run. Ranks that share a GPU take themselves for
two hosts by NCCL_HOSTID, and talk through sockets.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
SIZES = (8, 1 << 12, 1 << 20, 1 << 25)


def main() -> None:
    run_path, shared_gpu = Path(sys.argv[1]), sys.argv[2] == "shared"
    if shared_gpu:
        os.environ |= {"NCCL_HOSTID": f"host{RANK}", "NCCL_NET": "Socket"}
        os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
    import torch
    import torch.distributed as dist

    from clusterlab.bench.witness import open_witness
    from clusterlab.core.dtypes import DTYPES
    from clusterlab.core.rows import make_point

    torch.cuda.set_device(0 if shared_gpu else RANK)
    witness = open_witness(run_path, RANK, "nccl", every_rank=True)
    dist.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    dist.all_reduce(torch.ones(1, device="cuda"))
    witness.quiet()

    def say(**what: Any) -> None:
        if RANK == 0:
            print(json.dumps(what), flush=True)

    def timed(call: Callable[[], object], calls: int = 50) -> float:
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
        return (time.perf_counter() - began) / calls * 1e6

    for name in ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "send_recv"):
        for size in SIZES:
            point = make_point(name, size, DTYPES["float32"], WORLD)
            one = torch.ones(max(1, point.size_bytes // 4), device="cuda")
            part = torch.ones(max(1, point.size_bytes // 4 // WORLD), device="cuda")
            call = calls_of(dist, one, part)[name]

            def waited(call: Callable[[], object] = call) -> None:
                call()
                torch.cuda.synchronize()

            began = time.perf_counter()
            said = witness.saw(point, waited)
            took_ms = (time.perf_counter() - began) * 1e3
            waited()
            mean_us = timed(call, 5 if shared_gpu else 50)
            say(
                name=name,
                size=point.size_bytes,
                saw_ms=took_ms,
                mean_us=mean_us,
                **dataclasses.asdict(said),
            )

    # What a graph does is chosen when it is captured; its replays print nothing.
    tensor = torch.ones(1 << 18, device="cuda")
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()

    def capture() -> None:
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(4):
                dist.all_reduce(tensor)
        torch.cuda.synchronize()

    said = witness.saw(make_point("all_reduce", 1 << 20, DTYPES["float32"], WORLD), capture)
    graph.replay()
    torch.cuda.synchronize()
    say(name="graph", size=1 << 20, **dataclasses.asdict(said))
    facts = witness.close()
    say(name="facts", **facts.to_json())
    if RANK == 1:
        print(json.dumps({"name": "facts1", **facts.to_json()}), file=sys.stderr, flush=True)
    graph.reset()
    dist.destroy_process_group()


def calls_of(dist: Any, one: Any, part: Any) -> dict[str, Callable[[], object]]:
    """Each collective over whole buffer ``one`` and a rank's ``part``."""

    def shift() -> None:
        ops = [
            dist.P2POp(dist.isend, one, (RANK + 1) % WORLD),
            dist.P2POp(dist.irecv, one.clone(), (RANK - 1) % WORLD),
        ]
        for work in dist.batch_isend_irecv(ops):
            work.wait()

    return {
        "all_reduce": lambda: dist.all_reduce(one),
        "all_gather": lambda: dist.all_gather_into_tensor(one, part),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, one),
        "broadcast": lambda: dist.broadcast(one, 0),
        "reduce": lambda: dist.reduce(one, 0),
        "send_recv": shift,
    }


if __name__ == "__main__":
    main()
