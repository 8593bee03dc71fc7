"""The answer of ``clusterlab explain``: a table of a step's collectives, memory, predicted times; or data."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from clusterlab.cli.columns import columns
from clusterlab.cli.explain_diagrams import diagram
from clusterlab.core.sizes import human_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from clusterlab.trainers.config import Setup
    from clusterlab.trainers.plans.plan import Plan, PlannedCall
    from clusterlab.trainers.plans.price import Priced
    from clusterlab.trainers.plans.step_time import StepPrediction


def text_of(setup: Setup, plan: Plan, found: StepPrediction | None, fabric: str | None) -> str:
    """All of it for the terminal."""
    lines = [_headline(setup), *diagram(setup, plan), "", f"rank {plan.rank}, one step:"]
    lines += _table(plan.calls if found is None else found.priced)
    lines += ["", *_memory(plan), _work(setup, plan)]
    if found is not None:
        lines += ["", *_times(found, str(fabric))]
    return "\n".join(lines)


def _headline(setup: Setup) -> str:
    model, mesh, train = setup.model, setup.mesh, setup.train
    experts = f", {model.experts} experts" if model.experts else ""
    return (
        f"{model.layers} layers, hidden {model.hidden}, {model.heads} heads, ffn {model.ffn}{experts}, "
        f"sequence {model.sequence}, batch {train.batch} in {train.micro_batches} micro-batch"
        f"{'' if train.micro_batches == 1 else 'es'} a rank, {train.dtype}; "
        f"{mesh.world_size} ranks: dp {mesh.dp} × tp {mesh.tp} × pp {mesh.pp}"
        + (f", ep {mesh.ep}" if mesh.ep > 1 else "")
    )


def grouped(calls: Iterable[PlannedCall]) -> list[list[PlannedCall]]:
    """Calls that differ in their sizes only, together."""
    found: dict[tuple[object, ...], list[PlannedCall]] = {}
    for call in calls:
        key = (call.axis, call.op, len(call.ranks), call.phase, call.hidden, call.why)
        found.setdefault(key, []).append(call)
    return list(found.values())


def _table(calls: Sequence[PlannedCall] | Sequence[Priced]) -> list[str]:
    from clusterlab.trainers.plans.price import Priced

    priced = {id(one.call): one for one in calls if isinstance(one, Priced)}
    plain = [one.call if isinstance(one, Priced) else one for one in calls]
    if not plain:
        return ["  no collectives: one rank"]
    rows = [["axis", "collective", "ranks", "size", "count", "bytes", "phase"]]
    rows[0] += (["each", "all", "how", "limited by"] if priced else []) + ["what"]
    for group in grouped(plain):
        first, sizes = group[0], sorted({call.size_bytes for call in group})
        size = human_size(sizes[0]) + (f"-{human_size(sizes[-1])}" if len(sizes) > 1 else "")
        count = sum(call.count for call in group)
        total = sum(call.count * call.size_bytes for call in group)
        row = [
            first.axis, first.op, str(len(first.ranks)), size, str(count), human_size(total),
            first.phase + (", beside it" if first.hidden else ""),
        ]  # fmt: skip
        if priced:
            row += _priced([priced[id(call)] for call in group], count)
        rows.append([*row, first.why])
    layout = ["<0", "<0", ">0", ">0", ">0", ">0", "<0"]
    layout += ([">0", ">0", "<0", "<0"] if priced else []) + ["<0"]
    return columns(rows, layout, indent="  ")


def _priced(group: Sequence[Priced], count: int) -> list[str]:
    total = sum(one.total_us for one in group)
    largest = max(group, key=lambda one: one.call.size_bytes).prediction
    how = "/".join(word for word in (largest.algorithm, largest.protocol) if word)
    return [_time(total / count), _time(total), how, largest.bottleneck.name]


def _time(us: float) -> str:
    return f"{us:.1f} us" if us < 1e3 else f"{us / 1e3:.2f} ms" if us < 1e6 else f"{us / 1e6:.2f} s"


def _memory(plan: Plan) -> list[str]:
    memory = plan.memory
    parts = ", ".join(
        f"{name} {human_size(getattr(memory, name))}"
        for name in ("parameters", "gradients", "optimizer", "activations")
    )
    return [f"memory of rank {plan.rank}: {human_size(memory.total)} ({parts})"]


def _work(setup: Setup, plan: Plan) -> str:
    sent = sum(call.count * call.size_bytes for call in plan.calls if call.op != "recv")
    intensity = f", {plan.flops / sent:.3g} a byte of its collectives" if sent else ""
    return f"products of rank {plan.rank}: {plan.flops / 1e9:.4g} GFLOP a step{intensity}"


def _times(found: StepPrediction, fabric: str) -> list[str]:
    step = found.step_us
    parts = [
        ("forward", found.forward_us), ("backward", found.backward_us),
        ("update", found.optimizer_us),
        *((f"exposed {axis}", us) for axis, us in found.exposed_us.items()),
        ("bubble", found.bubble_us),
    ]  # fmt: skip
    rows = [[name, _time(us), f"{us / step:.1%}"] for name, us in parts if us > 0]
    compute = found.compute
    lines = [
        f"predicted step on {fabric}: {_time(step)}"
        f" (no step is shorter than {_time(found.bound_us)}), rank {found.plan.rank} is the slowest",
        *columns(rows, ["<16", ">10", ">7"], indent="  "),
        f"  {found.tokens_per_s:.4g} tokens/s, {found.TFLOPs:.4g} TFLOP/s a rank"
        + (f", {_time(found.hidden_us)} of communication hidden" if found.hidden_us > 0 else ""),
        f"compute: {compute.name}, {compute.matmul[-1][1]:.4g} TFLOP/s, {compute.memory_GBps:.4g} GB/s"
        f" ({compute.source})",
    ]
    notes = dict.fromkeys(note for one in found.priced for note in one.prediction.notes)
    return lines + [f"note: {note}" for note in notes]


def as_data(
    setup: Setup, plan: Plan, found: StepPrediction | None, fabric: str | None
) -> dict[str, Any]:
    """For JSON."""
    priced = {} if found is None else {id(one.call): one for one in found.priced}
    calls = []
    for call in plan.calls:
        one = priced.get(id(call))
        more = {} if one is None else {
            "each_us": one.each_us, "total_us": one.total_us,
            "algorithm": one.prediction.algorithm, "protocol": one.prediction.protocol,
            "limited_by": one.prediction.bottleneck.name,
        }  # fmt: skip
        calls.append({**asdict(call), **more})
    return {
        **asdict(setup),
        "rank": plan.rank,
        "calls": calls,
        "flops": plan.flops,
        "memory": {**asdict(plan.memory), "total": plan.memory.total},
        "predicted": None if found is None else _predicted(found, str(fabric)),
    }


def _predicted(found: StepPrediction, fabric: str) -> dict[str, Any]:
    return {
        "fabric": fabric,
        "step_us": found.step_us,
        "forward_us": found.forward_us,
        "backward_us": found.backward_us,
        "optimizer_us": found.optimizer_us,
        "exposed_us": dict(found.exposed_us),
        "bubble_us": found.bubble_us,
        "hidden_us": found.hidden_us,
        "bound_us": found.bound_us,
        "tokens_per_s": found.tokens_per_s,
        "TFLOPs": found.TFLOPs,
        "compute": asdict(found.compute),
    }
