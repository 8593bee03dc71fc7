"""ROCm's stacked masks, by the rules of its runtime's source."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.binding.masks import evaluate_hip_mask, evaluate_rocm_masks, evaluate_rocr_mask

FOUR = [f"GPU-{n:016x}" for n in (0xBA5E000000000001, 0xBA5E000000000002, 0x17, 0xC0FFEE)]


@pytest.mark.parametrize(
    ("mask", "devices"),
    [
        (None, (0, 1, 2, 3)), ("", ()), ("2", (2,)), ("3,1", (3, 1)), (" 1 , 0 ", (1, 0)),
        ("0x1", (1,)), ("02", (2,)), ("1,1,0", (1,)), ("1,9,0", (1,)), ("-1", ()), ("1gpu", ()),
        ("0,,1", (0,)), ("GPU-0000000000000017", (2,)), ("gpu-0000000000c0ffee,0", (3, 0)),
        ("GPU-BA5E", ()), ("GPU-0000000000000017x", ()), ("GPU-", ()), ("GPU", ()), ("G", ()),
        ("0,1,2,3,0", (0, 1, 2, 3)), ("none", ()),
    ],
)  # fmt: skip
def test_rocr_reads_numbers_of_any_base_and_beginnings_of_uuids(
    mask: str | None, devices: tuple[int, ...]
) -> None:
    assert evaluate_rocr_mask(mask, FOUR) == devices


@pytest.mark.parametrize(
    ("mask", "devices"),
    [
        (None, (0, 1, 2, 3)), ("", (0, 1, 2, 3)), ("3,1", (3, 1)), ("1,1,0", (1, 0)), ("1,", (1,)),
        ("01", ()), (" 1", ()), ("+1", ()), ("1,x,0", (1,)), ("9", ()), ("-1", ()), ("1,,0", (1,)),
        ("GPU-0000000000000017,0", (2, 0)), ("GPU-dead", ()),
    ],
)  # fmt: skip
def test_hip_reads_numbers_only_as_it_would_write_them(
    mask: str | None, devices: tuple[int, ...]
) -> None:
    assert evaluate_hip_mask(mask, FOUR) == devices


@pytest.mark.parametrize(
    ("environ", "devices"),
    [
        ({}, (0, 1, 2, 3)),
        ({"ROCR_VISIBLE_DEVICES": "2,3", "HIP_VISIBLE_DEVICES": "1"}, (3,)),
        # The classic: Slurm sets both to the same index, the second finds nothing.
        ({"ROCR_VISIBLE_DEVICES": "3", "CUDA_VISIBLE_DEVICES": "3"}, ()),
        (
            {"ROCR_VISIBLE_DEVICES": "3", "HIP_VISIBLE_DEVICES": "", "CUDA_VISIBLE_DEVICES": "0"},
            (3,),
        ),
        ({"HIP_VISIBLE_DEVICES": "1", "CUDA_VISIBLE_DEVICES": "2"}, (1,)),
        ({"ROCR_VISIBLE_DEVICES": "1,0", "GPU_DEVICE_ORDINAL": "3"}, (1, 0)),
        ({"ROCR_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "0"}, ()),
    ],
)
def test_hip_masks_index_what_rocr_left(environ: dict[str, str], devices: tuple[int, ...]) -> None:
    assert evaluate_rocm_masks(environ, FOUR).devices == devices


def test_opencl_reads_its_own_variable() -> None:
    environ = {"GPU_DEVICE_ORDINAL": "1", "HIP_VISIBLE_DEVICES": "2"}
    assert evaluate_rocm_masks(environ, FOUR, opencl=True).devices == (1,)


def test_each_layer_says_what_it_left() -> None:
    environ = {"ROCR_VISIBLE_DEVICES": "2,3", "CUDA_VISIBLE_DEVICES": "1"}
    assert evaluate_rocm_masks(environ, FOUR).layers == (
        ("ROCR_VISIBLE_DEVICES", "2,3", (2, 3)),
        ("CUDA_VISIBLE_DEVICES", "1", (3,)),
    )


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_texts_give_distinct_devices(rocr: str, hip: str) -> None:
    environ = {"ROCR_VISIBLE_DEVICES": rocr, "HIP_VISIBLE_DEVICES": hip}
    devices = evaluate_rocm_masks(environ, FOUR).devices
    assert len(set(devices)) == len(devices)
    assert set(devices) <= set(range(4))
