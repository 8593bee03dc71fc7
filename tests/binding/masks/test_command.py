"""``clusterlab bind mask`` as people call it."""

from __future__ import annotations

import json

import pytest

from clusterlab.cli.main import main

GPUS = ["--uuid", "GPU-3c2b6a11-77e0-4c1f-9d1b-2f6c1e0a9b01",
        "--uuid", "GPU-b7d4e9f2-0a1c-4e57-8b63-55aa90cd1e72"]  # fmt: skip
NONE = {"code": 100, "name": "CUDA_ERROR_NO_DEVICE"}


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (["--", "1"], {"count": 1, "devices": [1], "error": None}),
        (["--unset"], {"count": 2, "devices": [0, 1], "error": None}),
        (["--", "-1,0"], {"count": 0, "devices": [], "error": NONE}),
        (["--", "--json"], {"count": 0, "devices": [], "error": NONE}),
        (["--", ""], {"count": 0, "devices": [], "error": NONE}),
        (["--", "0\n"], {"count": 1, "devices": [0], "error": None}),
    ],
)
def test_json_is_the_drivers_answer(
    arguments: list[str], answer: object, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bind", "mask", *GPUS, "--json", *arguments]) == 0
    assert json.loads(capsys.readouterr().out) == answer


@pytest.mark.parametrize(
    ("mask", "rest"), [("0-1", "-1"), ("0;1", ";1"), ("0x1", "x1"), ("1,0gpu", "gpu")]
)
def test_what_of_an_entry_is_not_read_is_said(
    mask: str, rest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["bind", "mask", *GPUS, "--", mask])
    assert f"not read: {rest!r} of " in capsys.readouterr().out


def test_a_plain_list_has_nothing_that_is_not_read(capsys: pytest.CaptureFixture[str]) -> None:
    main(["bind", "mask", *GPUS, "--", "1, +0"])
    assert "not read" not in capsys.readouterr().out


def test_people_read_the_hardware_and_what_was_dropped(capsys: pytest.CaptureFixture[str]) -> None:
    main(["bind", "mask", *GPUS, "--", "1,7"])
    assert capsys.readouterr().out.splitlines() == [
        "0  GPU-b7d4e9f2-0a1c-4e57-8b63-55aa90cd1e72",
        "not read: '7', whose first entry names no device",
    ]


@pytest.mark.parametrize("arguments", [[], ["--unset", "--", "0"]])
def test_a_mask_and_no_mask_exclude_each_other(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bind", "mask", *GPUS, *arguments]) == 2
    assert "either a mask after --, or --unset" in capsys.readouterr().err
