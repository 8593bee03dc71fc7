"""Real gloo ranks that train a small setup; what they did, put together, beside the reference."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.local import run_local_ranks
from clusterlab.launch.local_rank import OpenStore
from clusterlab.launch.rendezvous import init_process_group
from clusterlab.trainers.axis import open_axes
from clusterlab.trainers.build import build
from clusterlab.trainers.config import MeshConfig, ModelConfig, Setup, TrainConfig, check
from clusterlab.trainers.ledger import Entry, Ledger, Span
from clusterlab.trainers.mesh import AXES, place_of
from clusterlab.trainers.plans.plan import CallKey, PlannedCall, counted
from clusterlab.trainers.reference import Trained, train_reference
from clusterlab.trainers.step import Trainer
from clusterlab.trainers.weights import Weight, weights_of, whole_of

# Forked ranks share two cores, and a thread pool of this process would be gone in them.
torch.set_num_threads(1)

SMALL = {"layers": 4, "hidden": 16, "heads": 8, "ffn": 32, "vocab": 16, "sequence": 16}
"""Sizes that 8 ranks divide along any axis; 4 stages of a layer."""

COPIES_AGREE = 1e-12
"""How far copies of one tensor on several ranks may differ, relative to its largest value."""


@dataclass(frozen=True)
class Ranks:
    """What the ranks of ``setup`` did. ``trained`` whole, as the reference's; the rest by rank."""

    setup: Setup
    trained: Trained
    entries: list[list[Entry]]
    spans: list[list[Span]]

    def calls(self, rank: int, step: int, axes: Collection[str] = AXES) -> Counter[CallKey]:
        """The ledger of a step along ``axes``, counted as plans are. Step -1 is before the first."""
        return Counter(
            (e.op, e.axis, e.ranks, e.size_bytes, e.dtype, e.phase)
            for e in self.entries[rank]
            if e.step == step and e.axis in axes
        )


def small(**changes: Any) -> Setup:
    """A small setup in float64; ``changes`` by the names of fields: ``small(dp=4, steps=2)``. The mesh's
    ``sequence`` is ``split`` here, where the model's is a number.

    Two sequences for each micro-batch of each data parallel rank, unless ``batch`` says otherwise.
    """
    values = {**SMALL, "dtype": "float64", **changes}
    values.setdefault("batch", 2 * values.get("dp", 1) * values.get("micro_batches", 1))
    parts = [
        kind(**{f.name: values.pop(f.name) for f in fields(kind) if f.name in values})
        for kind in (ModelConfig, MeshConfig, TrainConfig)
    ]
    parts[1] = replace(parts[1], sequence=values.pop("split", None))
    assert not values, f"no such fields: {sorted(values)}"
    return check(Setup(*parts))


def prepare() -> None:
    """As `clusterlab train` does before it forks: a second of imports that torch makes with an optimizer."""
    import torch._dynamo  # noqa: F401


def train(
    setup: Setup, tmp_path: Path, *, spoil: Callable[[int, Trainer], None] | None = None
) -> Ranks:
    """Train all steps on freshly forked ranks. ``spoil`` breaks something on a rank before the first.

    What a test patches in this process is patched in the ranks too.
    """

    def rank_main(identity: RankIdentity, open_store: OpenStore) -> int:
        import torch.distributed as dist

        rank = identity.rank
        init_process_group(identity, open_store(60), "gloo", timeout_s=60)
        ledger = Ledger()
        axes = open_axes(setup.mesh, rank, ledger)
        trainer = build(setup, rank, axes, ledger, torch.device("cpu"))
        if spoil is not None:
            spoil(rank, trainer)
        losses = [trainer.step(number) for number in range(setup.train.steps)]
        said = losses, trainer.held(), ledger.entries, ledger.spans
        (tmp_path / f"rank-{rank}.pickle").write_bytes(pickle.dumps(said))
        dist.barrier()  # the store goes with rank 0
        return 0

    for old in tmp_path.glob("rank-*.pickle"):
        old.unlink()
    prepare()
    outcome = run_local_ranks(setup.mesh.world_size, rank_main, log_dir=tmp_path)
    logs = [path.read_text() for path in tmp_path.glob("rank-*.log")]
    assert outcome.exit_code == 0, "\n".join([str(outcome.message), *logs])
    files = [tmp_path / f"rank-{rank}.pickle" for rank in range(setup.mesh.world_size)]
    losses, held, entries, spans = zip(*(pickle.loads(f.read_bytes()) for f in files), strict=True)
    for rank, own in enumerate(losses):
        assert own == losses[0], f"losses of rank {rank} and of rank 0"
    trained = Trained(
        losses[0],
        _gathered(setup, [h.gradients for h in held], "gradient"),
        _gathered(setup, [h.parameters for h in held], "parameter"),
    )
    return Ranks(setup, trained, list(entries), list(spans))


def _gathered(
    setup: Setup, held: list[dict[str, torch.Tensor]], what: str
) -> dict[str, torch.Tensor]:
    """Every parameter's tensor, whole: parts of ranks put together, copies compared."""
    weights = weights_of(setup.model, setup.mesh)
    unknown = {name for own in held for name in own} - {weight.name for weight in weights}
    assert not unknown, f"names that no parameter has: {unknown}"
    return {w.name: _whole(w, setup, held, what) for w in weights}


def _whole(
    weight: Weight, setup: Setup, held: list[dict[str, torch.Tensor]], what: str
) -> torch.Tensor:
    parts: dict[int, tuple[int, torch.Tensor]] = {}
    for rank, own in enumerate(held):
        if weight.name not in own:
            continue  # another stage's
        place = place_of(rank, setup.mesh)
        index = 0 if weight.axis is None else getattr(place, weight.axis)
        first, part = parts.setdefault(index, (rank, own[weight.name]))
        assert _distance(own[weight.name], part) <= COPIES_AGREE, (
            f"{what} {weight.name} of ranks {first} and {rank}"
        )
    assert parts, f"no rank has {what} {weight.name}"
    whole = whole_of(weight, [parts[index][1] for index in sorted(parts)])
    assert tuple(whole.shape) == weight.shape, f"{what} {weight.name}"
    return whole


def assert_equal_to_reference(ranks: Ranks, tolerance: float = 1e-10) -> None:
    """Losses, gradients of the last step and parameters after it, against one unsharded process."""
    expected = reference(ranks.setup)
    found = ranks.trained
    for step, (got, want) in enumerate(zip(found.losses, expected.losses, strict=True)):
        assert abs(got - want) <= tolerance, f"loss of step {step}: {got} and not {want}"
    _assert_near(found.gradients, expected.gradients, tolerance, "gradient")
    _assert_near(found.parameters, expected.parameters, tolerance, "parameter")


def _assert_near(
    found: Mapping[str, torch.Tensor],
    expected: Mapping[str, torch.Tensor],
    tolerance: float,
    what: str,
) -> None:
    assert found.keys() == expected.keys(), what
    for name, want in expected.items():
        worst = _distance(found[name], want)
        assert worst <= tolerance, f"{what} {name}: off by {worst:.3g} of its largest value"


def _distance(one: torch.Tensor, other: torch.Tensor) -> float:
    """The largest difference, relative to the largest value (or 1e-3, where that is smaller)."""
    assert one.shape == other.shape, f"shapes {tuple(one.shape)} and {tuple(other.shape)}"
    if not one.numel():
        return 0.0
    worst = (one - other).abs().max() / other.abs().max().clamp(min=1e-3)
    return float("inf") if worst.isnan() else float(worst)


def reference(setup: Setup) -> Trained:
    """``train_reference`` of ``setup``, computed once for all meshes and strategies."""
    names = ("batch", "steps", "lr", "seed", "dtype", "routing")
    kept = {name: getattr(setup.train, name) for name in names}
    # A forced routing is made for as many ranks as share experts, also where one process runs it.
    forced = setup.mesh.ep if setup.train.routing != "learned" else 1
    mesh = MeshConfig(dp=forced, ep=forced)
    return _reference(replace(setup, mesh=mesh, train=TrainConfig(**kept)))


@cache
def _reference(setup: Setup) -> Trained:
    return train_reference(setup)


def assert_ledger_is_plan(
    ranks: Ranks,
    calls: Callable[[Setup, int], Iterable[PlannedCall]],
    *,
    axes: Collection[str] = AXES,
    first_step: int = 0,
) -> None:
    """Every step of every rank made exactly the calls that the plan lists, no more and no fewer; only along
    ``axes``, and from ``first_step`` on, where a library takes some to get into its stride.
    """
    setup = ranks.setup
    for rank in range(setup.mesh.world_size):
        planned = counted(calls(setup, rank))
        for step in range(first_step, setup.train.steps):
            made = ranks.calls(rank, step, axes)
            missing, extra = planned - made, made - planned
            assert not missing and not extra, (
                f"rank {rank}, step {step}:\n planned, not made: {dict(missing)}\n"
                f" made, not planned: {dict(extra)}"
            )
