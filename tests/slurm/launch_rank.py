"""What the launch tests start as ranks: one JSON line each about what the rank found, or an error line.

    launch_rank.py ACTION [--late RANK sleep|exit|kill] [--timeout S]

Actions: ``identity`` (no torch), ``pmix`` (put, commit, fence, get), ``meet`` (the store), ``devices``
(the store and the refusals), ``reduce`` (all of it and an all_reduce over gloo), ``claim`` (a real GPU
and an all_reduce over NCCL).
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from clusterlab.core.errors import ClusterlabError
from clusterlab.launch import pmix
from clusterlab.launch.join import Arrival, arrive


def act_pmix(late: list[str], timeout_s: float) -> dict[str, Any]:
    client = pmix.connect(os.environ, timeout_s=timeout_s)
    if isinstance(client, pmix.NoPmix):
        return {"no_pmix": client.reason, "code": client.code}
    facts = pmix.read_facts(client, timeout_s=timeout_s)
    be_late(client.rank, late)
    client.put("test.blob", bytes(range(127)) + bytes([client.rank]))
    client.put("test.empty", b"")
    client.commit()
    client.fence(timeout_s=timeout_s)
    ranks = range(facts.job_size)
    blobs = [client.get(r, "test.blob", timeout_s=timeout_s) for r in ranks]
    found = {
        "rank": client.rank,
        "implementation": client.implementation,
        "size": facts.job_size,
        "local_rank": facts.local_rank,
        "local_size": facts.local_size,
        "node": facts.node_id,
        "nodes": facts.nodes,
        "peers": facts.local_peers,
        "host": facts.hostname,
        "right": blobs == [bytes(range(127)) + bytes([r]) for r in ranks],
        "empty": client.get(0, "test.empty", timeout_s=timeout_s) == b"",
        "missing": client.get(client.rank, "test.none", timeout_s=timeout_s),
        "absent": client.absent(ranks, "test.blob", wait_s=2.0),
    }
    client.finalize()
    client.finalize()
    return found


def be_late(rank: int, late: list[str]) -> None:
    if not late or rank != int(late[0]):
        return
    if late[1] == "sleep":
        time.sleep(60)
    if late[1] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(0)


def arrived(late: list[str]) -> Arrival:
    arrival = arrive(os.environ)
    if arrival is None:
        print(json.dumps({"rank": None}), flush=True)
        raise SystemExit(0)
    be_late(arrival.identity.rank, late)
    return arrival


def act_identity(late: list[str], timeout_s: float) -> dict[str, Any]:
    arrival = arrived(late)
    me = arrival.identity
    found = {
        "rank": me.rank,
        "world": me.world_size,
        "local": [me.local_rank, me.local_world_size],
        "node": me.node_rank,
        "host": me.host,
        "source": me.source,
        "notes": arrival.notes,
        "torch": "torch" in sys.modules,
    }
    arrival.leave()
    return found


def act_meet(late: list[str], timeout_s: float) -> dict[str, Any]:
    arrival = arrived(late)
    store = arrival.open_store(timeout_s)
    store.set(f"seen/{arrival.identity.rank}", b"1")
    store.wait([f"seen/{r}" for r in range(arrival.identity.world_size)])
    arrival.leave()
    return {"rank": arrival.identity.rank, "source": arrival.identity.source}


def act_reduce(late: list[str], timeout_s: float) -> dict[str, Any]:
    import torch
    import torch.distributed as dist

    from clusterlab.launch.rendezvous import init_process_group

    marks = [time.perf_counter()]
    arrival = arrived(late)
    marks.append(time.perf_counter())
    store = arrival.open_store(timeout_s)
    marks.append(time.perf_counter())
    gpu = agree(arrival, store, timeout_s) if "CUDA_VISIBLE_DEVICES" in os.environ else None
    init_process_group(arrival.identity, store, "gloo", timeout_s=timeout_s)
    marks.append(time.perf_counter())
    tensor = torch.full((1000,), float(arrival.identity.rank))
    dist.all_reduce(tensor)
    marks.append(time.perf_counter())
    dist.destroy_process_group()
    arrival.leave()
    names = ("identity_ms", "rendezvous_ms", "communicator_ms", "first_call_ms")
    spans = [round((b - a) * 1e3, 1) for a, b in itertools.pairwise(marks)]
    return {
        "rank": arrival.identity.rank,
        "source": arrival.identity.source,
        "notes": arrival.notes,
        "sum": tensor[0].item(),
        "master": os.environ.get("MASTER_ADDR"),
        "gpu": gpu,
        **dict(zip(names, spans, strict=True)),
    }


def act_devices(late: list[str], timeout_s: float) -> dict[str, Any]:
    arrival = arrived(late)
    gpu = agree(arrival, arrival.open_store(timeout_s), timeout_s)
    arrival.leave()
    return {"rank": arrival.identity.rank, "gpu": gpu}


def agree(arrival: Arrival, store: Any, timeout_s: float) -> str | None:
    """The refusals, with pretend GPUs: the hardware is the host and the entry of the mask."""
    from clusterlab.launch.devices import agree_on_devices, device_record

    me = arrival.identity
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    ordinal = 0 if len(visible) == 1 else me.local_rank
    gpu = f"{me.host}/{visible[ordinal]}" if ordinal < len(visible) else None
    record = device_record(me, os.environ, visible_count=len(visible), ordinal=ordinal, gpu=gpu)
    agree_on_devices(me, store, record, timeout_s=timeout_s)
    return gpu


def act_claim(late: list[str], timeout_s: float) -> dict[str, Any]:
    import torch
    import torch.distributed as dist

    from clusterlab.launch.devices import claim_device
    from clusterlab.launch.rendezvous import init_process_group

    arrival = arrived(late)
    store = arrival.open_store(timeout_s)
    ordinal = claim_device(arrival.identity, store, environ=os.environ, timeout_s=timeout_s)
    init_process_group(arrival.identity, store, "nccl", timeout_s=timeout_s)
    tensor = torch.ones(1000, device="cuda")
    dist.all_reduce(tensor)
    total = tensor[0].item()
    dist.destroy_process_group()
    arrival.leave()
    return {"rank": arrival.identity.rank, "ordinal": ordinal, "sum": total}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("action")
    parser.add_argument("--late", nargs=2, default=[])
    parser.add_argument("--timeout", type=float, default=30.0)
    options = parser.parse_args()
    action = globals()[f"act_{options.action}"]
    try:
        found = action(options.late, options.timeout)
    except ClusterlabError as error:
        print(json.dumps({"error": type(error).__name__, "message": str(error)}), flush=True)
        return error.exit_code
    print(json.dumps(found), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
