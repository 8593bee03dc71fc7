"""Masks whose meaning is beyond doubt, and all others left alone."""

from __future__ import annotations

import csv

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.binding.visible import visible_gpus
from tests.binding.machines import gpu, uuid
from tests.support import shared_dir

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
    "mask",
    ["0,0", "4", "-1", "0,-1", "0 1", "0-3", "01", "GPU-0", f"0,{uuid(1)}", "MIG-1", "0,", uuid(9),
     uuid(10).upper(), "NoDevFiles"],
)  # fmt: skip
def test_any_other_mask_is_unknown_and_says_so(mask: str) -> None:
    found = visible_gpus(mask, FOUR)
    assert found.count is None
    assert found.gpus is None
    assert found.reason and mask in found.reason


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
    if found.gpus is not None:
        assert (
            len(set(found.gpus))
            == len(found.gpus)
            == found.count
            == len(list(filter(None, entries)))
        )


def truth(row: dict[str, str]) -> tuple[str | None, list[int]]:
    """A row's mask, and the devices the driver then had."""
    mask = row["mask"].replace("<UUID0>", uuid(0)).replace("<UUID1>", uuid(1))
    devices = row["devices_in_unmasked_order"]
    return (None if mask == "<unset>" else mask), [int(d) for d in devices.split("|") if d]


def test_whatever_is_certain_is_what_a_real_driver_does() -> None:
    path = shared_dir() / "facts/cuda_visible_devices_truth.csv"
    if not path.exists():
        pytest.skip("no truth table here")
    two, known = [gpu(0), gpu(1)], 0
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        mask, expected = truth(row)
        found = visible_gpus(mask, two)
        if found.gpus is not None:
            known += 1
            assert [two.index(g) for g in found.gpus] == expected, row
    assert known >= 5
