"""The benchmark of ``why``: its curves are what their labels say, and it prints its figures."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.why_bases import SITES, drawn_base
from tests.benchmarks.why_curves import counts_of, labelled_curves
from tests.benchmarks.why_faults import FAULTS, Fault

BENCH = Path(__file__).with_name("bench_why.py")


def test_the_same_seed_makes_the_same_curves_and_another_others() -> None:
    first, again, other = (labelled_curves(seed, 12, 2) for seed in (7, 7, 8))
    assert first == again
    assert first != other
    assert len(first) == 14


def test_a_judge_sees_no_label() -> None:
    for curve in labelled_curves(3, 25, 3):
        seen = repr(curve.points)
        assert not any(fault.code in seen for fault in FAULTS)
        assert not curve.story or curve.story not in seen
        assert {(p.algo, p.proto, p.nccl_version) for p in curve.points} == {("", "", "")}


def test_two_hundred_curves_have_every_cause() -> None:
    counts = dict(counts_of(200))
    assert sum(counts.values()) == 200
    assert counts.keys() == set(FAULTS)
    assert min(counts.values()) >= 1


def test_a_base_rises_with_size_but_for_noise() -> None:
    draw = random.Random(11)
    for _ in range(20):
        base = drawn_base(draw)
        assert base.site in SITES
        assert list(base.sizes) == sorted(base.sizes)
        pairs = [
            (a, b)
            for (s, a), (t, b) in zip(
                list(zip(base.sizes, base.times_us, strict=True))[:-8],
                list(zip(base.sizes, base.times_us, strict=True))[8:],
                strict=True,
            )
            if t > s
        ]
        assert sum(b < 0.8 * a for a, b in pairs) <= 2


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.code)
def test_a_fault_slows_and_only_slows(fault: Fault) -> None:
    draw = random.Random(5)
    found = 0
    for _ in range(400):
        base = drawn_base(draw)
        if not fault.fits(base):
            continue
        made = fault.make(base, draw)
        slower = [t / healthy for t, healthy in zip(made.times_us, base.times_us, strict=True)]
        assert min(slower) > 0.8, "noise is all that may be faster"
        assert max(slower) > 1.1
        found += 1
        if found == 3:
            return
    raise AssertionError("no base to put it on")


@pytest.mark.alone
def test_it_prints_its_figures() -> None:
    done = subprocess.run(
        [sys.executable, BENCH, "--curves", "4", "--healthy", "2", "--misses"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert re.search(
        r"seed 1: first [\d.]+% \(aim 70%\), among three [\d.]+% \(aim 90%\).*"
        r"healthy silent [\d.]+% \(aim 97%\); \d+ ms a curve",
        done.stdout,
    )
    assert "named first instead" in done.stdout
