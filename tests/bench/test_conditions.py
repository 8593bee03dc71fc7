"""A GPU's state: the lowest clock, the highest temperature and every reason, of all ranks and readings."""

from __future__ import annotations

import types

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.bench.conditions import (
    REASONS,
    UNKNOWN,
    GpuState,
    conditions_of,
    open_gpu_state,
    read_state,
    throttle_names,
)
from clusterlab.core.measurement import Conditions


class NvmlError(Exception):
    pass


def nvml(*, clock=1980, temperature=41, reasons=0x1 | 0x4, refuses=()):
    def answer(name, value):
        def ask(*_):
            if name in refuses:
                raise NvmlError
            return value

        return ask

    return types.SimpleNamespace(
        NVMLError=NvmlError,
        NVML_CLOCK_SM=1,
        NVML_TEMPERATURE_GPU=0,
        nvmlDeviceGetClockInfo=answer("clock", clock),
        nvmlDeviceGetTemperature=answer("temperature", temperature),
        nvmlDeviceGetCurrentClocksEventReasons=answer("reasons", reasons),
    )


def test_the_three_figures_are_read_and_an_idle_gpu_is_not_held_back():
    reading = GpuState(nvml(), object()).read()
    assert reading == (1980, 41, 5)
    assert conditions_of([reading]) == Conditions(1980, 41, "sw_power_cap")


@pytest.mark.parametrize("refused", ["clock", "temperature", "reasons"])
def test_what_nvml_refuses_is_unknown_and_the_rest_stays(refused):
    reading = GpuState(nvml(refuses=(refused,)), object()).read()
    names = ("clock", "temperature", "reasons")
    assert [r == UNKNOWN for r in reading] == [name == refused for name in names]
    told = conditions_of([reading])
    assert [told.gpu_clock_mhz, told.gpu_temp_c, told.throttled].count(None) == 1


def test_an_older_nvml_has_the_reasons_under_their_old_name():
    old = nvml()
    old.nvmlDeviceGetCurrentClocksThrottleReasons = old.nvmlDeviceGetCurrentClocksEventReasons
    del old.nvmlDeviceGetCurrentClocksEventReasons
    assert GpuState(old, object()).read()[2] == 5


def test_a_driver_without_the_question_is_unknown():
    bare = nvml()
    del bare.nvmlDeviceGetCurrentClocksEventReasons
    assert GpuState(bare, object()).read() == (1980, 41, UNKNOWN)


readings = st.tuples(
    st.integers(0, 3000), st.integers(0, 110), st.integers(0, 0x1FF).map(lambda m: m & ~1)
)


@given(st.lists(st.tuples(readings, readings), min_size=1, max_size=8))
def test_the_worst_of_all_ranks_before_and_after_counts(ranks):
    told = conditions_of([[*before, *after] for before, after in ranks])
    every = [reading for pair in ranks for reading in pair]
    assert told.gpu_clock_mhz == min(r[0] for r in every)
    assert told.gpu_temp_c == max(r[1] for r in every)
    named = set(told.throttled.split(",")) - {""}
    assert named == {name for bit, name in REASONS.items() if any(r[2] & bit for r in every)}


def test_nothing_is_known_on_a_cpu():
    assert open_gpu_state(torch.device("cpu")) is None
    assert conditions_of([read_state(None) * 2] * 3) == Conditions()
    assert throttle_names([0.0, 1.0]) == ""
