"""Small outputs of nccl-tests in the forms its versions print, with figures that follow from a rule."""

from __future__ import annotations

import json

from clusterlab.core.collectives import busbw_factor, collective

BANNER = (
    "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 8388608 step: 2(factor) warmup iters: 5 iters: 20 "
    "agg iters: 1 validation: 1 graph: 0\n#\n# Using devices\n"
)
HEADER = (
    "#                                          out-of-place                       in-place\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   "
    "algbw   busbw #wrong\n"
)
CLOSING = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 123.4\n#\n"
SIZES = tuple(1 << power for power in range(20, 24))


def devices(nodes: int, per_node: int, gpu: str = "NVIDIA H100 80GB HBM3") -> str:
    """The device list, a process for each rank."""
    return "".join(
        f"#  Rank {rank:2d} Group  0 Pid {1000 + rank} on node{rank // per_node} device {rank % per_node:2d} "
        f"[0000:{rank % per_node:02x}:00] {gpu}\n"
        for rank in range(nodes * per_node)
    )


def table(name: str, ranks: int, *, wrong: str = "0", in_place_wrong: str = "0") -> str:
    """Header, rows and closing lines of ``name``."""
    return (
        HEADER
        + "".join(_row(name, ranks, size, wrong, in_place_wrong) + "\n" for size in SIZES)
        + CLOSING
    )


def json_file(name: str = "all_reduce", ranks: int = 8) -> str:
    """What -J writes."""
    factor = busbw_factor(name, ranks)
    half = {"time": 100.0, "alg_bw": 50.0, "bus_bw": 50.0 * factor, "nwrong": 0.0}
    document = {
        "version": 1,
        "start_time": "2026-01-01 00:00:00",
        "args": [f"./build/{name}_perf", "-J", "out.json"],
        "env": ["HOME=/root", "NCCL_ALGO=Ring"],
        "nccl_version": 22907,
        "config": {
            "nthreads": 1, "ngpus": ranks, "minimum_bytes": 8, "maximum_bytes": 5000000,
            "step_factor": 2, "warmup_iters": 5, "iterations": 20, "graph": 0, "validation": 1,
            "devices": [
                {"rank": rank, "group": 0, "pid": 7, "hostname": "node0", "device": rank,
                 "device_hex": "0000:01:00", "device_info": "NVIDIA H100 80GB HBM3"}
                for rank in range(ranks)
            ],
        },
        "results": [
            {"size": size, "count": size // 4, "type": "float", "redop": "sum", "root": "    -1",
             "out_of_place": half, "in_place": half, "actual_iterations": 20, "experiment_name": ""}
            for size in SIZES
        ],
        "out_of_bounds": {"count": 0, "okay": "true"},
        "average_bus_bandwidth": {"bandwidth": 87.5, "okay": "unchecked"},
        "errors": [],
        "end_time": "2026-01-01 00:00:09",
    }  # fmt: skip
    return json.dumps(document, separators=(",", ":"))


def inspector(
    coll: str = "AllReduce", *, ranks: int = 8, size: int = 1 << 20, parts: int = 1
) -> dict[str, object]:
    """A record of 100 µs."""
    algbw = size * parts / 1e5
    return {
        "header": {"id": "0x1", "rank": 2, "n_ranks": ranks, "nnodes": 1},
        "metadata": {"inspector_output_format_version": "v4.0", "hostname": "node0", "pid": 1},
        "coll_perf": {
            "coll": coll, "coll_sn": 7, "coll_msg_size_bytes": size, "coll_exec_time_us": 100,
            "coll_algobw_gbs": algbw, "coll_busbw_gbs": algbw * busbw_factor(coll, ranks),
        },
    }  # fmt: skip


def _row(name: str, ranks: int, size: int, wrong: str, in_place_wrong: str) -> str:
    what = collective(name)
    count = size // 4 // (ranks if what.per_rank else 1)
    redop = "sum" if what.reduces or name == "send_recv" else "none"
    halves = []
    for time_us, errors in ((size / 1e5, wrong), (size / 1.1e5, in_place_wrong)):
        algbw = size / (time_us * 1e3)
        halves.append(
            f"{time_us:7.2f} {algbw:7.2f} {algbw * busbw_factor(name, ranks):7.2f} {errors:>6}"
        )
    root = 0 if what.rooted else -1
    return f"{size:12d} {count:12d} {'float':>8}  {redop:>6} {root:7d}  " + "  ".join(halves)
