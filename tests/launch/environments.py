"""Environments of real processes, measured (tests/data/launch/environments.json)."""

from __future__ import annotations

import json
from pathlib import Path

from clusterlab.launch.pmix_types import PmixFacts

_FILE = Path(__file__).parents[1] / "data" / "launch" / "environments.json"
_RECORDED = json.loads(_FILE.read_text())

RECORDED_NAMES = tuple(name for name in _RECORDED if name != "about")


def recorded(name: str) -> list[dict[str, str]]:
    """The environments of one recorded launch, one per rank."""
    return [dict(environ) for environ in _RECORDED[name]]


def facts_of(environ: dict[str, str]) -> PmixFacts:
    """What Slurm's PMIx server says to the task with this environment (2 nodes with 2 tasks each)."""
    rank = int(environ["PMIX_RANK"])
    node = rank // 2
    return PmixFacts(
        namespace=environ["PMIX_NAMESPACE"],
        rank=rank,
        job_size=4,
        local_rank=rank % 2,
        local_size=2,
        node_id=node,
        node_count=2,
        hostname=f"n{node}",
        local_peers=(2 * node, 2 * node + 1),
        nodes=("n0", "n1"),
    )
