"""What the tuning.cc of each NCCL release computes for the same communicators.

``data/nccl_arithmetic.jsonl`` was made by compiling ``src/graph/tuning.cc`` of each release's tag in
NVIDIA/nccl against structures of our own: per entry latency in µs, algorithm bandwidth in GB/s, and the time
in µs at 64 KiB and 8 MiB (-1: not used).
"""

import json
from pathlib import Path

import pytest

from clusterlab.cost.nccl.choice import ranked
from clusterlab.cost.nccl.communicator import Communicator, Graph
from clusterlab.cost.nccl.overrides import parse_overrides
from clusterlab.cost.nccl.tuning import tuning_table
from clusterlab.cost.nccl.words import ALGORITHMS, COLLECTIVES, PROTOCOLS

DATA = Path(__file__).parent / "data" / "nccl_arithmetic.jsonl"
CASES = [json.loads(line) for line in DATA.read_text().splitlines()]


def communicator(case):
    return Communicator(
        case["nodes"] * case["ranks_per_node"],
        case["nodes"],
        case["ranks_per_node"],
        case["compute_capability"],
        "GPU",
        {name: Graph(*fields) for name, fields in case["graphs"].items()},
        cpu=case["cpu"],
        collnet=case["collnet"],
        heads=8,
        version=case["version"],
    )


@pytest.mark.parametrize(
    "case", CASES, ids=[f"{case['version']}-{case['nodes']}nodes" for case in CASES]
)
def test_every_entry_and_time_is_what_the_release_computes(case):
    comm = communicator(case)
    overrides = parse_overrides({"NCCL_COLLNET_ENABLE": str(int(case["collnet"]))})
    for collective in COLLECTIVES:
        table = tuning_table(collective, comm, overrides)
        times = [
            {
                (c.algorithm, c.protocol): c.time_us
                for c in ranked(collective, size, comm, overrides)
            }
            for size in (1 << 16, 1 << 23)
        ]
        for which in [(a, p) for a in ALGORITHMS for p in PROTOCOLS]:
            key = " ".join((collective, *which))
            latency, algbw, *at = case["entries"].get(key, (0, 0, -1, -1))
            got = table[which]
            assert got.latency_us == pytest.approx(latency, rel=1e-5), key
            assert got.algbw_GBps == pytest.approx(algbw, rel=1e-5), key
            for expected, found in zip(at, times, strict=True):
                if which in found:
                    assert found[which] == pytest.approx(expected, rel=1e-5), key
