"""What both kinds of sequence parallelism send in a step: see strategies/sp.py and strategies/ulysses.py."""

from __future__ import annotations

from collections.abc import Iterable

from clusterlab.core.dtypes import DTYPES
from clusterlab.trainers.config import Setup
from clusterlab.trainers.mesh import group_of, place_of
from clusterlab.trainers.plans.plan import PlannedCall
from clusterlab.trainers.plans.schedules import layers_of, stages_of
from clusterlab.trainers.plans.tp import activation_bytes, blocks, by_dtensor, cut_pairs
from clusterlab.trainers.weights import Weight, weights_of


def calls(setup: Setup, rank: int) -> tuple[PlannedCall, ...]:
    """Of ``rank``."""
    mesh, train = setup.mesh, setup.train
    if mesh.tp == 1 or mesh.sequence is None:
        return ()
    ranks = group_of(rank, "tp", mesh)
    pp = place_of(rank, mesh).pp
    size, M = activation_bytes(setup), train.micro_batches

    def call(op: str, size_bytes: int, phase: str, count: int, why: str) -> PlannedCall:
        return PlannedCall(op, "tp", ranks, size_bytes, train.dtype, phase, count, False, why)

    found = []
    if mesh.sequence == "tp":
        pairs = cut_pairs(setup) * M
        before, after = "each column-cut matrix", "each row-cut matrix"
        found += [
            call("all_gather", size, "forward", pairs, f"positions of x before {before}"),
            call("reduce_scatter", size, "forward", pairs, f"parts of x after {after}"),
            call("all_gather", size, "backward", pairs, f"gradients of x after {after}"),
            call("reduce_scatter", size, "backward", pairs, f"gradients of x before {before}"),
        ]
    else:
        heads, part = 4 * blocks(setup) * M, size // mesh.tp
        found += [
            call("all_to_all", part, "forward", heads, "q, k, v to heads; attention's back"),
            call("all_to_all", part, "backward", heads, "their gradients, the other way"),
        ]
    if pp == 0:
        found.append(call("all_gather", size, "backward", M, "gradients of the embedding's x"))
    if pp == mesh.pp - 1:
        found.append(call("all_gather", size, "forward", M, "positions of x before the head"))
    held = {w.name: w for w in held_by(setup, rank)}
    for names in summed_together(setup, held):
        elements = sum(own_elements(held[name], setup) for name in names)
        size_bytes = elements * DTYPES[train.dtype].bytes
        found.append(call("all_reduce", size_bytes, "reduce", 1, "gradients of own positions"))
    return tuple(found)


def summed_together(setup: Setup, names: Iterable[str]) -> list[list[str]]:
    """``partial_buckets`` of a rank's parameters ``names``; DTensor sums a norm's one by one, and a row's
    bias, which it adds before the sum over ranks, not at all.
    """
    if not by_dtensor(setup):
        return partial_buckets(setup, names)
    found = list(names)
    norms = [[name] for name in found if "norm" in name]
    return norms + partial_buckets(setup, [n for n in found if n.split(".")[2:3] in _PLAIN])


_PLAIN = (["router"], ["experts"])
"""Modules of a block that no style of DTensor's is for."""


def partial_buckets(setup: Setup, names: Iterable[str]) -> list[list[str]]:
    """Which of a rank's parameters ``names`` get only a part of their gradient, from own positions: all that
    are not cut along ``tp`` and stand between split and join. Those that are summed together are one list:
    as many, in order, as fit into ``bucket_bytes``, or a single one that does not.
    """
    width, known = DTYPES[setup.train.dtype].bytes, set(names)
    found: list[list[str]] = []
    room = 0
    for weight in weights_of(setup.model, setup.mesh):
        if weight.name not in known or not sees_own_positions(weight):
            continue
        size = own_elements(weight, setup) * width
        if not found or size > room:
            found.append([])
            room = setup.train.bucket_bytes
        found[-1].append(weight.name)
        room -= size
    return found


def sees_own_positions(weight: Weight) -> bool:
    """Whether a rank's gradient of it is a part only, where positions are split."""
    return weight.axis != "tp" and not weight.name.startswith(("embed.", "head."))


def own_elements(weight: Weight, setup: Setup) -> int:
    """Of the part that a rank holds."""
    parts: int = getattr(setup.mesh, weight.axis) if weight.axis is not None else 1
    return weight.elements // parts


def held_by(setup: Setup, rank: int) -> list[Weight]:
    """Parameters of the rank's stages."""
    mesh = setup.mesh
    pp = place_of(rank, mesh).pp
    layers = {layer for stage in stages_of(pp, setup) for layer in layers_of(stage, setup)}
    ends = {"embed": 0 in layers, "norm": setup.model.layers - 1 in layers}
    ends["head"] = ends["norm"]
    return [
        weight
        for weight in weights_of(setup.model, mesh)
        if (weight.layer in layers if weight.layer is not None else ends[weight.name.split(".")[0]])
    ]
