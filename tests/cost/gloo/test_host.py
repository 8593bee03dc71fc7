import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.cost.gloo.host import combine, effective_sent_MiB, host_time, reduction_constant
from clusterlab.cost.gloo.schedule import gloo_schedule
from clusterlab.cost.types import Constant
from tests.cost.examples import VALUES, calibration

MiB = 1 << 20
positive = st.floats(1e-3, 1e9)


@given(positive, positive, st.floats(1.0, 4.0))
def test_the_combination_lies_between_the_larger_and_the_sum(
    latency: float, work: float, overlap: float
) -> None:
    both = combine(latency, work, overlap)
    assert max(latency, work) <= both * (1 + 1e-12)
    assert both <= (latency + work) * (1 + 1e-12)


@given(positive, positive, positive, st.floats(1.0, 4.0))
def test_the_combination_is_monotone(
    latency: float, work: float, more: float, overlap: float
) -> None:
    assert combine(latency, work + more, overlap) >= combine(latency, work, overlap) * (1 - 1e-12)


def test_nothing_takes_no_time() -> None:
    assert combine(0.0, 0.0, 2.0) == 0.0
    assert combine(0.0, 5.0, 2.0) == 5.0


def test_a_single_sender_leaves_the_other_core_idle() -> None:
    """Binomial broadcast among 4 on 2 cores: level 0 has one flow (counts twice), level 1 two."""
    schedule = gloo_schedule("broadcast", 4, MiB)
    assert effective_sent_MiB(schedule, 2) == pytest.approx(1 * 2 + 2)
    assert effective_sent_MiB(schedule, 1) == pytest.approx(3)
    assert effective_sent_MiB(gloo_schedule("all_gather", 4, MiB), 2) == pytest.approx(3)


def test_small_messages_cost_latency_and_large_ones_work() -> None:
    small = host_time(gloo_schedule("all_reduce", 4, 1024), calibration(), "float32", "sum")
    large = host_time(gloo_schedule("all_reduce", 4, 64 * MiB), calibration(), "float32", "sum")
    assert small.bottleneck == "messages between the ranks"
    assert small.time_us == pytest.approx(48 * VALUES["message_us.all_reduce"], rel=0.01)
    assert large.bottleneck == "cores copying"


@pytest.mark.parametrize("name", [n for n in VALUES if n not in ("cores", "core_copy_GBps")])
def test_every_constant_matters_to_some_collective(name: str) -> None:
    def times(values: dict[str, float]) -> list[float]:
        constants = tuple(Constant(n, v, "", "test") for n, v in values.items())
        cal = calibration(constants=constants)
        return [
            host_time(gloo_schedule(c, 4, MiB), cal, dtype, op).time_us
            for c in ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast",
                      "reduce", "send_recv")
            for dtype, op in (("float32", "sum"), ("float16", "sum"), ("bfloat16", "sum"),
                              ("bfloat16", "max"))
        ]  # fmt: skip

    assert times(VALUES) != times({**VALUES, name: VALUES[name] * 1.5})


def test_element_types_fall_into_classes() -> None:
    assert reduction_constant("float32", "max") == reduction_constant("int8", "prod")
    assert reduction_constant("float16", "min") == reduction_constant("float16", "sum")
    assert reduction_constant("bfloat16", "min") != reduction_constant("bfloat16", "prod")


def test_a_lone_rank_still_makes_the_call() -> None:
    schedule = gloo_schedule("all_gather", 1, 1024)
    assert (
        host_time(schedule, calibration(), "float32", None).time_us
        >= VALUES["message_us.all_gather"]
    )
    assert dataclasses.asdict(schedule)["phases"]
