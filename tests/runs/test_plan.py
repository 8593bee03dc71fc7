from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.collectives import COLLECTIVES, collective
from clusterlab.core.errors import UsageError
from clusterlab.runs.sweeping.plan import SweepConfig, make_plan, resolve_config

TYPED: dict[str, Any] = {
    "collective_text": "all_reduce",
    "begin": "1K",
    "end": "4K",
    "factor": None,
    "step": None,
    "dtype_text": "float",
    "op_text": "sum",
    "root": 0,
    "place": "both",
    "iterations": 20,
    "warmup": 5,
    "check": True,
    "backend": "gloo",
    "deadline_s": 60.0,
    "fabric": None,
}


def config(**changes: Any) -> SweepConfig:
    return resolve_config(**{**TYPED, **changes})


def everything(name: str, dtype: str, op: str | None) -> str | None:
    return None


def no_avg(name: str, dtype: str, op: str | None) -> str | None:
    return "gloo lacks it" if op == "avg" else None


def test_points_come_in_nccl_tests_order() -> None:
    points = make_plan(config(), 4, everything).points
    assert [(p.requested_bytes, p.in_place) for p in points] == [
        (1024, False), (1024, True), (2048, False), (2048, True), (4096, False), (4096, True),
    ]  # fmt: skip


@given(
    st.lists(st.sampled_from(list(COLLECTIVES)), min_size=1, max_size=7, unique=True),
    st.sampled_from(["out", "in", "both"]),
    st.integers(1, 64),
)
def test_the_plan_is_the_product_of_what_was_asked(
    names: list[str], place: str, world_size: int
) -> None:
    asked = config(collective_text=",".join(names), place=place, op_text="all")
    plan = make_plan(asked, world_size, everything)
    ops = sum(5 if collective(n).reduces else 1 for n in names)
    assert len(plan.points) == ops * 3 * (2 if place == "both" else 1)
    assert len(set(plan.points)) == len(plan.points)


def test_what_all_asks_for_and_the_backend_lacks_is_left_out_with_its_reason() -> None:
    plan = make_plan(config(op_text="all"), 4, no_avg)
    assert {p.op for p in plan.points} == {"sum", "prod", "min", "max"}
    assert [(s.op, s.reason) for s in plan.skipped] == [("avg", "gloo lacks it")]


def test_what_is_named_and_the_backend_lacks_is_an_error() -> None:
    with pytest.raises(UsageError, match="gloo has no all_reduce float32 avg: gloo lacks it"):
        make_plan(config(op_text="avg"), 4, no_avg)


@pytest.mark.parametrize(
    ("typed", "sizes"),
    [
        ({"begin": None, "end": None, "factor": 8.0}, (1024, 8192, 65536, 524288, 4194304)),
        ({"begin": "32M", "end": None}, (32 << 20,)),
        ({"begin": None, "end": "2K"}, (1024, 2048)),
        ({"begin": "1K", "end": "3K", "step": "1K"}, (1024, 2048, 3072)),
    ],
)
def test_sizes_follow_what_was_typed(typed: dict[str, Any], sizes: tuple[int, ...]) -> None:
    assert config(**typed).sizes_bytes == sizes


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ({"begin": "0"}, "at least 1 byte"),
        ({"begin": "0", "step": "1K"}, "at least 1 byte"),
        ({"step": "1K", "factor": 2.0}, "exclude each other"),
        ({"warmup": -1}, "-w: -1"),
        ({"deadline_s": 0.0}, "--deadline"),
        ({"place": "inside"}, "--place"),
        ({"op_text": "xor"}, "operator 'xor'"),
    ],
)
def test_bad_options_are_named(typed: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        config(**typed)


def test_a_root_that_is_no_rank_is_refused() -> None:
    with pytest.raises(UsageError, match="root 3 of 3 ranks; expected 0 to 2"):
        make_plan(config(root=3), 3, everything)
