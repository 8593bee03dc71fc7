"""A strategy in a few lines: who has what, and where a step communicates, with the sizes at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterlab.core.sizes import human_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusterlab.trainers.config import Setup
    from clusterlab.trainers.plans.plan import Plan, PlannedCall

_WIDEST = 100
"""Columns of a pipeline's timeline; a longer one is not drawn to its end."""


def diagram(setup: Setup, plan: Plan) -> list[str]:
    """Every kind of parallelism that the mesh has more than one rank for."""
    mesh = setup.mesh
    found: list[list[str]] = []
    if mesh.pp > 1:
        found.append(_pipeline(setup, plan))
    if mesh.tp > 1:
        draw = {None: _tensor, "tp": _sequence, "ulysses": _ulysses}[mesh.sequence]
        found.append(draw(setup, plan))
    if setup.model.experts:
        found.append(_experts(setup, plan))
    if mesh.dp > 1:
        found.append(_data(setup, plan))
    if sum(size > 1 for size in (mesh.dp, mesh.tp, mesh.pp)) > 1:
        found.insert(0, _mesh(setup))
    return [line for part in found for line in ("", *part)]


def _mesh(setup: Setup) -> list[str]:
    from clusterlab.trainers.mesh import rank_of

    mesh = setup.mesh
    rows, columns = min(mesh.dp, 4), min(mesh.tp, 8)
    width = len(str(mesh.world_size - 1))
    ways = ((mesh.tp, "tp across"), (mesh.dp, "dp down"), (mesh.pp, "pp side by side"))
    lines = ["ranks: " + ", ".join(f"{size} of {way}" for size, way in ways if size > 1)]
    for dp in range(rows):
        stages = [
            " ".join(f"{rank_of(dp, tp, pp, mesh):>{width}}" for tp in range(columns))
            + (" …" if mesh.tp > columns else "")
            for pp in range(min(mesh.pp, 4))
        ]
        lines.append("  " + "   │   ".join(stages) + ("   …" if mesh.pp > 4 else ""))
    return lines + (["  …"] if mesh.dp > rows else [])


def _size(calls: Sequence[PlannedCall]) -> str:
    sizes = sorted({call.size_bytes for call in calls})
    if not sizes:
        return "nothing"
    few = [human_size(sizes[0])] + ([human_size(sizes[-1])] if len(sizes) > 1 else [])
    return " to ".join(dict.fromkeys(few))


def _of(plan: Plan, op: str, phase: str, axes: tuple[str, ...]) -> list[PlannedCall]:
    return [c for c in plan.calls if c.op == op and c.phase == phase and c.axis in axes]


def _tensor(setup: Setup, plan: Plan) -> list[str]:
    mesh, model = setup.mesh, setup.model
    there = _size(_of(plan, "all_reduce", "forward", ("tp",)))
    back = _size(_of(plan, "all_reduce", "backward", ("tp",)))
    mlp = f"up, {model.ffn // mesh.tp} wide ── gelu ── down"
    rest = "router, experts (not cut)" if model.experts else f"● {mlp} ●"
    return [
        f"tp: each of {mesh.tp} ranks has 1/{mesh.tp} of every matrix between two ●",
        f"  x ── norm ──● qkv, {model.heads // mesh.tp} heads ── attention ── out ●── + x ──"
        f" norm ── {rest} ── + x",
        "              │                               │",
        f"  forward     -                               all_reduce {there}",
        f"  backward    all_reduce {back:<20} -",
    ]


def _sequence(setup: Setup, plan: Plan) -> list[str]:
    mesh, model = setup.mesh, setup.model
    size = _size(_of(plan, "reduce_scatter", "forward", ("tp",)))
    own = model.sequence // mesh.tp
    inner = f"qkv, {model.heads // mesh.tp} heads … out"
    return [
        f"sp: outside of the cut matrices each of {mesh.tp} ranks has {own} of {model.sequence}"
        " positions",
        f"  x, {own} ── norm, {own} ──● {inner}, {model.sequence} positions ●── + x, {own} ── …",
        f"  {'forward':<10}all_gather {size} before, reduce_scatter {size} after",
        f"  {'backward':<10}reduce_scatter {size} before, all_gather {size} after",
    ]


def _ulysses(setup: Setup, plan: Plan) -> list[str]:
    mesh, model = setup.mesh, setup.model
    size = _size(_of(plan, "all_to_all", "forward", ("tp",)))
    own, heads = model.sequence // mesh.tp, model.heads // mesh.tp
    return [
        f"ulysses: each of {mesh.tp} ranks has {own} of {model.sequence} positions, all weights;"
        " at attention all positions of its heads",
        f"  qkv, {own} positions, {model.heads} heads ══ 3 all_to_all {size} ══ attention,"
        f" {model.sequence} positions, {heads} heads ══ all_to_all {size} ══ out, {own} positions",
    ]


def _experts(setup: Setup, plan: Plan) -> list[str]:
    mesh, model = setup.mesh, setup.model
    sent = [c for c in plan.calls if c.op == "all_to_all_v" and c.phase == "forward"]
    lines = [
        f"ep: {model.experts} experts, {model.experts // mesh.ep} on each of {mesh.ep} ranks;"
        f" every token asks {model.top_k}"
    ]
    for axis in dict.fromkeys(call.axis for call in sent):
        way = _size([c for c in sent if c.axis == axis])
        lines.append(
            f"  tokens ── router ══ {axis}: all_to_all_v {way} ══ experts ══ all_to_all_v back ══"
            " Σ weight · y"
        )
    return lines


def _data(setup: Setup, plan: Plan) -> list[str]:
    mesh, train = setup.mesh, setup.train
    axes = ("dp", "edp")
    calls = [c for c in plan.calls if c.axis in axes and c.phase != "loss"]
    lines = [
        f"dp ({train.data_parallel}): each of {mesh.dp} ranks trains"
        f" {train.batch // mesh.dp} of {train.batch} sequences"
    ]
    for op, phase in dict.fromkeys((c.op, c.phase) for c in calls):
        chosen = _of(plan, op, phase, axes)
        count = sum(c.count for c in chosen)
        total = human_size(sum(c.count * c.size_bytes for c in chosen))
        beside = ", beside it" if any(c.hidden for c in chosen) else ""
        lines.append(
            f"  {phase:<10}{count} × {op} of {_size(chosen)}: {total}{beside} ({chosen[0].why})"
        )
    return lines


def _pipeline(setup: Setup, plan: Plan) -> list[str]:
    from clusterlab.trainers.plans.bubble import StageTimes, simulate
    from clusterlab.trainers.plans.schedules import schedule_of, splits_backward

    mesh, train = setup.mesh, setup.train
    split = splits_backward(train.schedule)
    times = StageTimes(1, 1, 1) if split else StageTimes(1, 2)
    timeline = simulate(schedule_of(setup), [times] * setup.stages)
    sends = [call for call in plan.calls if call.op == "send" and call.phase != "handshake"]
    lines = [
        f"pp ({train.schedule}): {train.micro_batches} micro-batches through {setup.stages} stages;"
        f" {_size(sends)} a message; bubble {timeline.fraction:.0%} were all stages alike"
    ]
    shown = min(mesh.pp, 8)
    width = len(str(train.micro_batches - 1)) + 2
    for rank, runs in enumerate(timeline.ranks[:shown]):
        cells = [" " * width] * int(timeline.step)
        for run in runs:
            kind = run.action.kind
            for at in range(int(run.start), int(run.end)):
                first = f"{kind}{run.action.micro_batch}" if at == int(run.start) else "─" * width
                cells[at] = f"{first:<{width}}"
        text = "".join(cells).rstrip()
        lines.append(f"  rank {rank:<3}{text[:_WIDEST]}{' …' if len(text) > _WIDEST else ''}")
    return lines + ([f"  … {mesh.pp - shown} more"] if mesh.pp > shown else [])
