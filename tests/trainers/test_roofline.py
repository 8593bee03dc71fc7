"""The probe of the device at hand: figures of the right size, the same formulas as a step's prediction."""

from __future__ import annotations

import pytest

from clusterlab.trainers.plans.compute import Compute
from clusterlab.trainers.plans.work import Op
from clusterlab.trainers.roofline import probe


def test_a_probe_of_cores_is_a_roofline() -> None:
    found = probe("cpu", "float32", rows=64, sequence=64)
    sizes = [flops for flops, _ in found.matmul]
    assert sizes == sorted(sizes)
    assert sizes[0] == 2 * 64 * 64 * 64
    rates = [rate for _, rate in found.matmul]
    # From a starved core to a large host's all: none is off by a unit.
    assert all(1e-5 < rate < 100 for rate in (*rates, found.attention_TFLOPs))
    assert 0.1 < found.memory_GBps < 5000
    assert 0.01 < found.function_GBps < 5000
    assert 0.1 < found.issue_us < 1e4
    assert not found.behind
    assert "float32" in found.source


def rates(*, behind: bool) -> Compute:
    return Compute("test", ((1e6, 1.0), (1e9, 4.0)), 2.0, 1000.0, 250.0, 3.0, behind, "a test")


def test_an_op_takes_what_its_products_or_its_bytes_take() -> None:
    found = rates(behind=True)
    assert found.op_us(Op("a", "matmul", 1e6, 0)) == pytest.approx(1.0)  # 1e6 / 1 TFLOP/s
    assert found.op_us(Op("a", "matmul", 1e10, 0)) == pytest.approx(2500.0)
    assert found.op_us(Op("a", "matmul", 1e6, 5e6)) == pytest.approx(5.0)  # 5 MB at 1 TB/s
    assert found.op_us(Op("a", "attention", 2e6, 0)) == pytest.approx(1.0)
    assert found.op_us(Op("a", "memory", 0, 1e6)) == pytest.approx(1.0)
    assert found.op_us(Op("a", "function", 0, 1e6)) == pytest.approx(4.0)
    assert found.matmul_TFLOPs(10**7.5) == pytest.approx(2.5)  # half way on the logarithm


def test_a_gpu_hides_the_host_or_waits_for_it_and_cores_do_both() -> None:
    long, short = Op("a", "memory", 0, 100e6), Op("a", "memory", 0, 1.0, kernels=4)
    assert rates(behind=True).time_us([long, short]) == pytest.approx(100, rel=1e-3)
    assert rates(behind=True).time_us([short]) == pytest.approx(12)
    assert rates(behind=False).time_us([long, short]) == pytest.approx(115, rel=1e-3)


def test_ranks_that_share_a_device_have_a_part_each() -> None:
    alone, shared = rates(behind=False), rates(behind=False).among(4)
    for op in (Op("a", "matmul", 1e9, 1e6), Op("a", "function", 0, 1e6), Op("a", "memory", 0, 1e6)):
        assert shared.time_us([op]) == pytest.approx(4 * alone.time_us([op]))
