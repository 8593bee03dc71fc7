"""The benchmark of predictions runs and prints a line a case; how long it takes is for people to judge."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).with_name("bench_predict.py")
FIGURES = r"( +[\d.]+ ms){4} +\d+ us +\d+ MB"


@pytest.mark.parametrize(
    ("case", "ranks", "backend", "several_ways"),
    [
        ("h200-2", 2, "nccl", True),
        ("dgx-h100-2node:3", 3, "nccl", True),
        ("this-host", 8, "gloo", False),
    ],
)
def test_a_small_case_is_one_line_of_figures(
    case: str, ranks: int, backend: str, several_ways: bool
) -> None:
    done = subprocess.run(
        [sys.executable, BENCH, "--repeat", "1", case], check=True, capture_output=True, text=True
    )
    _, line = done.stdout.splitlines()
    name = case.partition(":")[0]
    found = re.fullmatch(rf"{name} +{ranks} {backend} +217 +(\d+){FIGURES}", line)
    assert found, line
    assert (int(found.group(1)) > 217) == several_ways
