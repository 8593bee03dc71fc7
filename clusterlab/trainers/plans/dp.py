"""What data parallelism sends in a step: see strategies/dp.py, zero.py, fsdp.py and library/."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from clusterlab.core.dtypes import DTYPES
from clusterlab.trainers.config import Setup
from clusterlab.trainers.mesh import group_of
from clusterlab.trainers.plans.buckets import Bucket, buckets, unit_of, units
from clusterlab.trainers.plans.plan import PlannedCall
from clusterlab.trainers.plans.sp import held_by


def calls(setup: Setup, rank: int) -> tuple[PlannedCall, ...]:
    """Of ``rank``, and the loss, which all data parallel ranks add up."""
    if setup.mesh.dp == 1:
        return ()
    kind = setup.train.data_parallel
    if by_torch(setup):
        of_kind = {"ddp": _torch_ddp, "fsdp": _torch_fsdp}[kind]
    else:
        of_kind = {"ddp": _ddp, "zero1": _zero, "zero2": _zero, "fsdp": _fsdp}[kind]
    loss = PlannedCall(
        "all_reduce", "dp", group_of(rank, "dp", setup.mesh), 8, "float64", "loss", 1, False,
        "the ranks' parts of the loss",
    )  # fmt: skip
    return (*(call for call in of_kind(setup, rank) if len(call.ranks) > 1), loss)


def start_calls(setup: Setup, rank: int) -> tuple[PlannedCall, ...]:
    """Of ``rank`` before the first step: all copies begin alike. (Torch's own broadcast is not seen.)"""
    if setup.mesh.dp == 1 or by_torch(setup):
        return ()
    kind = setup.train.data_parallel
    padded = kind != "ddp"
    found = [
        _call(
            setup, rank, bucket, "broadcast",
            phase="start", count=1, hidden=False, why="first values", padded=padded,
        )
        for bucket in _buckets(setup, rank)
    ]  # fmt: skip
    return tuple(call for call in found if len(call.ranks) > 1)


def by_torch(setup: Setup) -> bool:
    """Whether data parallelism is torch's own: of those kinds and meshes that torch has it for."""
    mesh, kind = setup.mesh, setup.train.data_parallel
    fits = kind == "ddp" or (kind == "fsdp" and mesh.sequence is None)
    return setup.train.library and mesh.dp > 1 and mesh.pp == 1 and mesh.ep == 1 and fits


def _buckets(setup: Setup, rank: int) -> tuple[Bucket, ...]:
    weights = held_by(setup, rank)
    if setup.train.data_parallel == "fsdp":
        return tuple(bucket for unit in units(setup, weights) for bucket in unit.buckets)
    return buckets(setup, weights)


def _ddp(setup: Setup, rank: int) -> Iterator[PlannedCall]:
    for bucket in _buckets(setup, rank):
        early = setup.train.overlap and not bucket.late
        phase, hidden = "backward" if early else "reduce", early and _ready_early(setup)
        yield _call(
            setup, rank, bucket, "all_reduce",
            phase=phase, count=1, hidden=hidden, why="gradients",
        )  # fmt: skip


def _zero(setup: Setup, rank: int) -> Iterator[PlannedCall]:
    train = setup.train
    for bucket in _buckets(setup, rank):
        each = train.data_parallel == "zero2" and not bucket.late
        early = (train.overlap or each) and not bucket.late
        yield _call(
            setup, rank, bucket, "reduce_scatter",
            phase="backward" if early else "reduce", count=train.micro_batches if each else 1,
            hidden=early and train.overlap and (each or _ready_early(setup)), why="gradients",
        )  # fmt: skip
        yield _call(
            setup, rank, bucket, "all_gather",
            phase="optimizer", count=1, hidden=False, why="new parameters",
        )  # fmt: skip


def _fsdp(setup: Setup, rank: int) -> Iterator[PlannedCall]:
    train = setup.train
    M, overlap = train.micro_batches, train.overlap
    for bucket in _buckets(setup, rank):
        for phase in ("forward", "backward"):
            yield _call(
                setup, rank, bucket, "all_gather",
                phase=phase, count=M, hidden=overlap, why="parameters of a block",
            )  # fmt: skip
        late = bucket.late
        yield _call(
            setup, rank, bucket, "reduce_scatter",
            phase="reduce" if late else "backward", count=1 if late else M,
            hidden=overlap and not late, why="gradients of a block",
        )  # fmt: skip


def _torch_ddp(setup: Setup, rank: int) -> Iterator[PlannedCall]:
    for bucket in buckets(setup, [replace(w, axis=None) for w in held_by(setup, rank)]):
        yield _call(
            setup, rank, bucket, "all_reduce",
            phase="backward", count=1, hidden=True, why="gradients",
        )  # fmt: skip


def _torch_fsdp(setup: Setup, rank: int) -> Iterator[PlannedCall]:
    M, N = setup.train.micro_batches, setup.mesh.dp
    of_unit: dict[str, int] = {}
    for weight in held_by(setup, rank):
        # Torch cuts each parameter along its first dimension.
        rows = -(-weight.shape[0] // N) * N
        elements = rows * (weight.elements // weight.shape[0])
        of_unit[unit_of(weight)] = of_unit.get(unit_of(weight), 0) + elements
    ranks, dtype = group_of(rank, "dp", setup.mesh), setup.train.dtype
    for elements in of_unit.values():
        size = elements * DTYPES[dtype].bytes
        for op, phase, what in (
            ("all_gather", "forward", "parameters"),
            ("all_gather", "backward", "parameters"),
            ("reduce_scatter", "backward", "gradients"),
        ):
            yield PlannedCall(op, "dp", ranks, size, dtype, phase, M, True, f"{what} of a block")


def _ready_early(setup: Setup) -> bool:
    """Whether gradients are ready one after the other in the last backward: where the last weights' turn is
    the first's too (of another stage, or of zero-bubble's W), all go at its end; torch's pipelines do not say
    which backward is the last.
    """
    train = setup.train
    if setup.mesh.pp == 1:
        return True
    return train.chunks == 1 and train.schedule != "zero_bubble" and not train.library


def _call(
    setup: Setup,
    rank: int,
    bucket: Bucket,
    op: str,
    *,
    phase: str,
    count: int,
    hidden: bool,
    why: str,
    padded: bool | None = None,
) -> PlannedCall:
    """``padded``: by default what is cut into shares is, and what is summed whole is not."""
    ranks = group_of(rank, bucket.axis, setup.mesh)
    cut = op in ("reduce_scatter", "all_gather") if padded is None else padded
    elements = bucket.padded(len(ranks)) if cut else bucket.total
    dtype = setup.train.dtype
    return PlannedCall(
        op, bucket.axis, ranks, elements * DTYPES[dtype].bytes, dtype, phase, count, hidden, why
    )
