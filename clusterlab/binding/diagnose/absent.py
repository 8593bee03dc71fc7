"""Ranks that a saved record lacks although its launcher counted them."""

from __future__ import annotations

from dataclasses import replace

from clusterlab.binding.diagnose.scene import Scene, uses_elastic
from clusterlab.binding.diagnose.variables import number
from clusterlab.binding.records import JoinedRecord, RankRecord

# Set by the launcher for each process it starts: rank, and how many it started. WORLD_SIZE is such a
# word only from torchrun; else a program or a person exported it. SLURM_NTASKS may be the job's.
_COUNTS = (
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)
_MOST_RANKS = 65_536


def with_absent_ranks(record: JoinedRecord) -> JoinedRecord:
    """``record`` with ``missing_ranks`` where its ranks' own launcher counts more than there are.

    Unchanged where the record says itself who is missing, holds several worlds, or is not sure.
    """
    worlds = Scene(record).worlds
    if record.missing_ranks or len(worlds) != 1:
        return record
    counts = {c for r in worlds[0] if (c := _counted(r)) is not None}
    here = {r.rank for r in worlds[0]}
    if len(counts) != 1 or any(_counted(r) is None for r in worlds[0]):
        return record
    count = counts.pop()
    if not len(here) == len(worlds[0]) < count <= _MOST_RANKS or max(here) >= count:
        return record
    return replace(record, missing_ranks=tuple(sorted(set(range(count)) - here)))


def _counted(rank: RankRecord) -> int | None:
    """How many ranks there are by the launcher that gave this one its number; None: not told."""
    pairs = (("RANK", "WORLD_SIZE"),) if uses_elastic(rank) else _COUNTS
    said = {
        number(rank.env, size)
        for name, size in pairs
        if number(rank.env, name) == rank.rank and size in rank.env
    }
    return said.pop() if len(said) == 1 else None
