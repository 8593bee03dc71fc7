"""From typed sizes to a setup: every number of ranks has a mesh and sizes that fit it."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.runs.training.setup import STRATEGIES, TrainTyped, mesh_of, ranks_typed, setup_of


@given(st.sampled_from(STRATEGIES), st.integers(1, 96))
def test_every_strategy_runs_on_any_number_of_ranks_without_a_word(name: str, ranks: int) -> None:
    setup = setup_of(TrainTyped(name), ranks, "gloo")
    assert setup.mesh.world_size == ranks


@given(
    st.sampled_from(STRATEGIES), *[st.one_of(st.none(), st.integers(1, 4)) for _ in range(3)],
    st.integers(1, 48),
)  # fmt: skip
def test_what_was_typed_is_kept_or_refused_with_ranks_that_fit(
    name: str, dp: int | None, tp: int | None, pp: int | None, ranks: int
) -> None:
    typed = TrainTyped(name, dp=dp, tp=tp, pp=pp)
    try:
        mesh = mesh_of(typed, ranks)
    except UsageError as error:
        assert error.fix is not None
        assert error.fix.startswith("-g ")
        near = int(error.fix.split()[-1])
        assert mesh_of(typed, near).world_size == near
        return
    assert mesh.world_size == ranks
    for axis, size in (("dp", dp), ("tp", tp), ("pp", pp)):
        assert size in (None, getattr(mesh, axis))


@pytest.mark.parametrize(
    ("name", "ranks", "mesh"),
    [
        ("dp", 4, (4, 1, 1, 1, None)),
        ("tp", 4, (1, 4, 1, 1, None)),
        ("sp", 4, (1, 4, 1, 1, "tp")),
        ("pp", 4, (1, 1, 4, 1, None)),
        ("ep", 4, (4, 1, 1, 4, None)),
        ("3d", 8, (2, 2, 2, 1, None)),
        ("3d", 4, (1, 2, 2, 1, None)),
        ("3d", 12, (2, 3, 2, 1, None)),
    ],
)
def test_the_ranks_go_to_the_strategys_own_axis(
    name: str, ranks: int, mesh: tuple[int, int, int, int, str | None]
) -> None:
    found = mesh_of(TrainTyped(name), ranks)
    assert (found.dp, found.tp, found.pp, found.ep, found.sequence) == mesh


def test_a_mesh_that_was_typed_says_how_many_ranks() -> None:
    assert ranks_typed(TrainTyped("tp", tp=2, dp=3)) == 6
    assert ranks_typed(TrainTyped("tp", dp=3)) is None
    assert ranks_typed(TrainTyped("3d", dp=2, tp=2)) is None
    assert ranks_typed(TrainTyped("3d", dp=2, tp=2, pp=2)) == 8


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (TrainTyped("zp"), "unknown strategy 'zp'; expected one of dp"),
        (TrainTyped("ep", routing="hot-expert"), "did you mean 'hot_expert'"),
        (TrainTyped("dp", dtype="half"), "unknown --dtype"),
        (TrainTyped("dp", steps=0), "--steps: 0; expected at least 1"),
        (TrainTyped("dp", micro_batches=-2), "--micro-batches: -2"),
        (TrainTyped("dp", lr=0), "--lr: 0"),
        (TrainTyped("tp", tp=3), "mesh: 4 ranks for a mesh of tp 3.*-g 3 or 6"),
        (TrainTyped("dp", batch=6), "batch 6 is no multiple of dp × micro_batches 4.*batch 4 or 8"),
        (TrainTyped("pp", micro_batches=3, batch=3), "3 micro-batches for 4 stages"),
        (TrainTyped("ep", experts=2), "2 experts on ep 4 ranks"),
        (TrainTyped("tp", heads=6, hidden=96), "heads 6 is no multiple of tp 4"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_nearest_that_does(
    typed: TrainTyped, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        setup_of(typed, 4, "gloo")


_FLOATS = ("lr", "capacity")
_WHOLE = [f.name for f in fields(TrainTyped) if f.type in ("int", "int | None")]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1.0, 0.0, -0.0])
@pytest.mark.parametrize("name", _FLOATS)
def test_a_number_that_is_none_is_refused_by_its_option(name: str, value: float) -> None:
    changed: dict[str, Any] = {name: value}
    with pytest.raises(UsageError, match=f"--{name}: .*; expected a finite number above 0"):
        setup_of(replace(TrainTyped("ep"), **changed), 4, "gloo")


@pytest.mark.parametrize("value", [1e-300, 0.5, 1e30])
@pytest.mark.parametrize("name", _FLOATS)
def test_any_finite_number_above_0_is_taken(name: str, value: float) -> None:
    changed: dict[str, Any] = {name: value}
    setup_of(replace(TrainTyped("ep"), **changed), 4, "gloo")


def test_every_number_that_is_typed_is_whole_or_one_of_these() -> None:
    assert {f.name for f in fields(TrainTyped) if "float" in str(f.type)} == set(_FLOATS)


@pytest.mark.parametrize("name", _WHOLE)
def test_a_whole_number_below_its_least_says_the_least(name: str) -> None:
    least = 0 if name in ("seed", "experts") else 1
    changed: dict[str, Any] = {name: least - 1}
    with pytest.raises(UsageError, match=f": {least - 1}; expected at least {least}"):
        setup_of(replace(TrainTyped("ep"), **changed), 4, "gloo")
    changed = {name: 2**63}
    with pytest.raises(UsageError, match=f": {2**63}; expected at most"):
        setup_of(replace(TrainTyped("ep"), **changed), 4, "gloo")
