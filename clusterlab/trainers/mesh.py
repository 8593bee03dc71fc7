"""Where each rank sits: its place along every axis, and the ranks it shares each axis with. Pure.

Neighbouring ranks are of one tensor parallel group, then come data parallel ones, then stages:
rank = (pp · DP + dp) · TP + tp. Expert parallel groups are neighbours along dp. This is Megatron-LM's order
(megatron/core/parallel_state.py, "tp-cp-ep-dp-pp"): what talks most is nearest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from clusterlab.trainers.config import MeshConfig

AXES = ("dp", "tp", "pp", "ep", "edp", "ep_rail", "ep_node")
"""``edp``: ranks that hold copies of the same experts, the data parallel group of those. With ``per_node``,
``ep_node``: the ranks of ``ep`` on one node; ``ep_rail``: those with the same place on theirs.
"""


@dataclass(frozen=True, slots=True)
class Place:
    """A rank's index along each axis."""

    dp: int
    tp: int
    pp: int
    ep: int
    edp: int


def place_of(rank: int, mesh: MeshConfig) -> Place:
    """Where ``rank`` sits."""
    tp = rank % mesh.tp
    dp = rank // mesh.tp % mesh.dp
    return Place(dp, tp, rank // (mesh.tp * mesh.dp), dp % mesh.ep, dp // mesh.ep)


def rank_of(dp: int, tp: int, pp: int, mesh: MeshConfig) -> int:
    """The rank that sits there."""
    return (pp * mesh.dp + dp) * mesh.tp + tp


def groups_of(axis: str, mesh: MeshConfig) -> list[tuple[int, ...]]:
    """All groups along ``axis``, each in order along it; together they are every rank once."""
    return list(_groups(axis, mesh))


def group_of(rank: int, axis: str, mesh: MeshConfig) -> tuple[int, ...]:
    """The ranks that ``rank`` shares ``axis`` with, itself among them, in order along it."""
    return _group_by_rank(axis, mesh)[rank]


@lru_cache(maxsize=64)  # plans of a thousand ranks ask for each call
def _group_by_rank(axis: str, mesh: MeshConfig) -> dict[int, tuple[int, ...]]:
    return {rank: ranks for ranks in _groups(axis, mesh) for rank in ranks}


@lru_cache(maxsize=64)
def _groups(axis: str, mesh: MeshConfig) -> tuple[tuple[int, ...], ...]:
    if axis in ("ep_rail", "ep_node"):
        return tuple(p for whole in _groups("ep", mesh) for p in _by_node(whole, mesh)[axis])
    found: dict[tuple[int, ...], list[int]] = {}
    for rank in range(mesh.world_size):
        place = place_of(rank, mesh)
        if axis in ("ep", "edp"):
            at = {"tp": place.tp, "pp": place.pp, "ep": place.ep, "edp": place.edp}
        else:
            at = {"tp": place.tp, "pp": place.pp, "dp": place.dp}
        key = tuple(value for name, value in at.items() if name != axis)
        found.setdefault(key, []).append(rank)
    return tuple(tuple(ranks) for ranks in found.values())


def _by_node(whole: tuple[int, ...], mesh: MeshConfig) -> dict[str, list[tuple[int, ...]]]:
    """An ``ep`` group cut by nodes, and across them; into single ranks where nodes are not told apart."""
    if mesh.per_node is None:
        alone: list[tuple[int, ...]] = [(rank,) for rank in whole]
        return {"ep_rail": alone, "ep_node": alone}
    nodes: dict[int, list[int]] = {}
    for rank in whole:
        nodes.setdefault(rank // mesh.per_node, []).append(rank)
    rails = list(zip(*nodes.values(), strict=True))
    return {"ep_node": [tuple(ranks) for ranks in nodes.values()], "ep_rail": rails}
