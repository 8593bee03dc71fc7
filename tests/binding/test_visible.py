"""What a node's GPUs look like through a mask, and where that is not certain."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.binding.visible import visible_gpus
from tests.binding.machines import gpu, uuid

FOUR = [gpu(i) for i in range(4)]


@pytest.mark.parametrize(
    ("mask", "seen"),
    [
        (None, [0, 1, 2, 3]),
        ("", []),
        ("2", [2]),
        ("3,1", [3, 1]),
        (uuid(2), [2]),
        (f"{uuid(3)},{uuid(0)}", [3, 0]),
    ],
)
def test_a_simple_mask_picks_gpus_in_its_order(mask: str | None, seen: list[int]) -> None:
    found = visible_gpus(mask, FOUR)
    assert (found.count, found.reason) == (len(seen), None)
    assert found.gpus == tuple(FOUR[i] for i in seen)


@pytest.mark.parametrize(
    ("mask", "seen"),
    [("0,-1", [0]), ("0 1", [0]), ("0-3", [0]), ("01", [1]), (f"0,{uuid(1)}", [0]), ("0,", [0]),
     (uuid(2)[:12], [2]), (uuid(10).upper(), [])],
)  # fmt: skip
def test_any_other_mask_is_read_as_the_driver_reads_it(mask: str, seen: list[int]) -> None:
    assert visible_gpus(mask, FOUR).gpus == tuple(FOUR[i] for i in seen)


@pytest.mark.parametrize(
    ("mask", "code"), [("0,0", 101), ("4", 100), ("-1", 100), ("NoDevFiles", 100), (uuid(9), 100)]
)
def test_a_mask_that_fails_shows_nothing_and_says_why(mask: str, code: int) -> None:
    found = visible_gpus(mask, FOUR)
    assert (found.count, found.gpus) == (0, ())
    assert found.error is not None and found.error.code == code


@pytest.mark.parametrize("mask", ["0,0", "GPU-0", f"0,{uuid(1)}", "MIG-1", "0,", "x"])
def test_an_odd_mask_without_a_look_at_the_gpus_is_unknown_and_says_so(mask: str) -> None:
    found = visible_gpus(mask, None)
    assert (found.count, found.gpus) == (None, None)
    assert found.reason and mask in found.reason


def test_a_gpu_cut_into_instances_is_left_to_the_driver() -> None:
    cut = [replace(gpu(0), mig=True)]
    assert visible_gpus("0", cut).reason == "a GPU here is cut into MIG instances"


def test_without_a_look_at_the_gpus_the_mask_tells_only_how_many() -> None:
    assert visible_gpus("0,1", None).count == 2
    assert visible_gpus("0,1", None).gpus is None
    assert visible_gpus(None, None).count is None


def test_mixed_models_have_no_certain_order_unless_it_is_asked_for() -> None:
    mixed = [gpu(0), gpu(1, name="NVIDIA L40S")]
    found = visible_gpus("1", mixed)
    assert (found.count, found.gpus) == (1, None)
    assert "CUDA_DEVICE_ORDER" in str(found.reason)
    assert visible_gpus("1", mixed, device_order="PCI_BUS_ID").gpus == (mixed[1],)
    assert visible_gpus(uuid(1), mixed).gpus == (mixed[1],)


@given(st.lists(st.sampled_from(["0", "1", "2", "3", "4", "-1", "", uuid(0), uuid(1), "x"])))
def test_what_is_certain_never_shows_a_gpu_twice(entries: list[str]) -> None:
    found = visible_gpus(",".join(entries), FOUR)
    assert found.gpus is not None
    assert len(set(found.gpus)) == len(found.gpus) == found.count
