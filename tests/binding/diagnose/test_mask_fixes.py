"""A mask printed in a fix never repeats the fault: the driver makes a device of every entry of it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.binding.diagnose import diagnose
from clusterlab.binding.diagnose.masks import ordinals
from clusterlab.binding.masks import evaluate_cuda_mask
from tests.binding.diagnose.jobs import job, node

GPUS = 8
NODE = node("n0", models=("H100",) * GPUS)
UUIDS = [g.uuid or "" for g in NODE.gpus]


def printed_masks(mask: str) -> list[str]:
    """The masks that the commands of all fixes export, for a job whose ranks all have ``mask``."""
    record = job(lambda rank, local: {"CUDA_VISIBLE_DEVICES": mask}, nodes={"n0": NODE},
                 per_node=2, visible=None, selected_device=None)  # fmt: skip
    fixes = [line for f in diagnose(record) for line in f.fix.split("\n")]
    return [
        m[1]
        for line in fixes
        if (m := re.match(r"(?:export )?CUDA_VISIBLE_DEVICES=([^$ ]*)", line))
    ]


def assert_sound(printed: str) -> None:
    result = evaluate_cuda_mask(printed, UUIDS)
    assert result.error is None, printed
    assert len(result.devices) == len(printed.split(",")), printed


BROKEN = {
    "0,1,2,3,4,5,6,06": "0,1,2,3,4,5,6",
    "0,1,2,+1": "0,1,2",
    "0,4294967296": "0",
    f"{UUIDS[0]},{UUIDS[0][:14].upper()}": UUIDS[0],
    "0x0,0x1": "0,1",
    "0,1,2,3,4,5,6,8": "0,1,2,3,4,5,6",
    "7,8": "0,7",
    "0,1,2,3,-1,9": "0,1,2,3",
    "0,1,2,3;9": "0,1,2,3",
    "0,1,GPU-11": "0,1",
    "0-3": "0,1,2,3",
    f"{UUIDS[0]},GPU-x": UUIDS[0],
    "00000000:31:00.0": "1",
}


@pytest.mark.parametrize("mask", BROKEN)
def test_the_printed_mask_is_what_is_sound_of_the_broken_one(mask: str) -> None:
    printed = printed_masks(mask)
    for text in printed:
        assert_sound(text)
    assert BROKEN[mask] in printed


@pytest.mark.parametrize("mask", ["0.0,0.1", "\uff10,\uff11"])
def test_what_names_no_device_is_not_taken_for_indices(mask: str) -> None:
    record = job(lambda rank, local: {"CUDA_VISIBLE_DEVICES": mask}, nodes={"n0": NODE},
                 per_node=2, visible=None, selected_device=None)  # fmt: skip
    assert any("unset CUDA_VISIBLE_DEVICES" in f.fix for f in diagnose(record))
    assert printed_masks(mask) == []


ENTRY = st.one_of(
    st.integers(-3, 12).map(str),
    st.sampled_from(["", " ", "06", "+6", "4294967296", "9" * 5000, "0x1", "0.1", "cuda:2", "0-3",
                     "none", "GPU-", "GPU-x", "GPU-11", "MIG-", "00000000:31:00.0", "\uff11", "'1'"]),
    st.tuples(st.sampled_from(UUIDS), st.integers(3, 40)).map(lambda t: t[0][: t[1]]),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(ENTRY, max_size=6), st.sampled_from([",", ";", " , "]))
def test_every_printed_mask_gives_a_device_for_each_entry(entries: list[str], comma: str) -> None:
    for printed in printed_masks(comma.join(entries)):
        assert_sound(printed)


def test_an_ordinal_of_thousands_of_digits_is_a_number() -> None:
    assert ordinals("9" * 5000)[0] > 10**18
