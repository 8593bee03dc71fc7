"""CUDA masks: a real driver's answers, a second implementation, and the shape of every answer."""

from __future__ import annotations

import csv
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.binding.masks import MigInstance, evaluate_cuda_mask
from tests.binding.masks.slow_cuda import slow_cuda
from tests.support import shared_dir

UUIDS = [
    "GPU-3c2b6a11-77e0-4c1f-9d1b-2f6c1e0a9b01",
    "GPU-b7d4e9f2-0a1c-4e57-8b63-55aa90cd1e72",
]


def shared_beginning(uuids: list[str]) -> str:
    alike = (i for i, chars in enumerate(zip(*uuids, strict=True)) if len(set(chars)) > 1)
    return uuids[0][: next(alike)]


def spelled(placeholder: str, uuids: list[str]) -> str:
    """A mask of the table with these UUIDs in place of the words between < and >."""

    def fill(match: re.Match[str]) -> str:
        word = match[1]
        if word.startswith("common prefix"):
            return shared_beginning(uuids)
        number = re.match(r"(UUID|uuid)([0-9])", word)
        assert number, word
        uuid = uuids[int(number[2])]
        if number[1] == "uuid":
            return uuid.lower()
        cut = re.search(r"\[:([0-9]+)\]", word)
        uuid = uuid[: int(cut[1])] if cut else uuid
        uuid = uuid.removeprefix("GPU-") if word.endswith("without GPU-") else uuid
        return uuid.upper() if word.endswith(".upper") else uuid

    return re.sub(r"<([^>]+)>", fill, placeholder)


def truth() -> list[dict[str, str]]:
    path = shared_dir() / "facts/cuda_visible_devices_truth.csv"
    if not path.exists():
        pytest.skip("no truth table here")
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_mask_of_the_table_gives_what_the_driver_gave() -> None:
    rows = truth()
    wrong = []
    for row in rows:
        mask = None if row["mask"] == "<unset>" else spelled(row["mask"], UUIDS)
        found = evaluate_cuda_mask(mask, UUIDS)
        devices = [int(d) for d in row["devices_in_unmasked_order"].split("|") if d]
        code = found.error.code if found.error else 0
        if (code, list(found.devices)) != (int(row["cuInit"]), devices):
            wrong.append((row, found))
    assert not wrong
    assert len(rows) == 56


PIECES: list[str] = [
    *"0123456789", "10", "00", "01", "007", "+1", "-1", " 1", "1 ", "\t2", "1\n", "0x1", "1gpu", "gpu", "",
    "2147483647", "2147483648", "4294967296", "4294967297", "99999999999999999999", "none", "１", "-",
    "+", "--1", "'0'", "1;2", "0-3", "GPU-", "MIG-1", "GPU-deadbeef", "GPU-3c2b6a1", "GPU-3C2B6A11",
]  # fmt: skip


def random_uuid(rng: random.Random) -> str:
    digits = "".join(rng.choice("0123456789abcdef") for _ in range(32))
    # few first digits, so that beginnings are shared
    digits = rng.choice("0a") + digits[1:]
    return f"GPU-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def random_entry(rng: random.Random, uuids: list[str]) -> str:
    kind = rng.random()
    if kind < 0.45:
        return str(rng.randrange(len(uuids) + 1))
    if kind < 0.75:
        uuid = rng.choice(uuids)
        piece = uuid[: rng.choice([4, 5, 6, 8, 12, len(uuid)])]
        return rng.choice([piece, piece, piece.upper(), piece.lower(), piece[4:], piece + "0"])
    if kind < 0.95:
        return rng.choice(PIECES)
    return "".join(rng.choice(" \t+-0123xXgG,;'é") for _ in range(rng.randrange(5)))


def test_a_second_implementation_agrees_on_a_hundred_thousand_masks() -> None:
    rng = random.Random(20261130)
    errors = truncated = 0
    for _ in range(1000):
        uuids = [random_uuid(rng) for _ in range(rng.randrange(1, 9))]
        for _ in range(100):
            mask = ",".join(random_entry(rng, uuids) for _ in range(rng.randrange(1, 6)))
            found = evaluate_cuda_mask(mask, uuids)
            code, devices = slow_cuda(mask, uuids)
            assert (found.error.code if found.error else 0, list(found.devices)) == (
                code,
                devices,
            ), mask
            errors += code != 0
            truncated += bool(found.devices and found.ignored)
    # the masks tried are of every sort
    assert 20_000 < errors < 80_000
    assert truncated > 10_000


@given(st.text(max_size=40), st.integers(0, 9))
def test_any_text_gives_distinct_devices_or_an_error(mask: str, count: int) -> None:
    uuids = [f"GPU-{i:08x}-0000-0000-0000-000000000000" for i in range(count)]
    found = evaluate_cuda_mask(mask, uuids)
    assert len(set(found.devices)) == len(found.devices)
    assert set(found.devices) <= set(range(count))
    assert (found.error is None) == bool(found.devices)


def test_no_mask_shows_every_device_and_no_device_is_an_error() -> None:
    assert evaluate_cuda_mask(None, UUIDS).to_json() == {
        "count": 2,
        "devices": [0, 1],
        "error": None,
    }
    assert evaluate_cuda_mask(None, []).error == evaluate_cuda_mask("", UUIDS).error


def test_what_is_dropped_is_said() -> None:
    assert evaluate_cuda_mask("0,7,1", UUIDS).ignored == ("7", "1")
    assert evaluate_cuda_mask("1,0", UUIDS).ignored == ()


MIG = [MigInstance("MIG-aaaa", 0), MigInstance("MIG-bbbb", 0), MigInstance("MIG-cccc", 1)]


@pytest.mark.parametrize(
    ("mask", "instance", "device"),
    [("MIG-bbbb", "MIG-bbbb", 0), ("MIG-cccc,MIG-aaaa", "MIG-cccc", 1), ("1", "MIG-cccc", 1),
     (None, "MIG-aaaa", 0), ("0,1", "MIG-aaaa", 0)],
)  # fmt: skip
def test_of_mig_instances_one_is_enumerated(mask: str | None, instance: str, device: int) -> None:
    found = evaluate_cuda_mask(mask, UUIDS, mig=MIG)
    assert (found.devices, found.mig) == ((device,), instance)


def test_an_unknown_mig_instance_is_no_device() -> None:
    found = evaluate_cuda_mask("MIG-dddd,0", UUIDS, mig=MIG)
    assert found.error is not None and found.error.code == 100
