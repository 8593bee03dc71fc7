from __future__ import annotations

from pathlib import Path

import pytest

from clusterlab.cost.fit_gloo import MeasuredTime
from clusterlab.runs.selfcal import LocalTimes, calibration_path, fit_and_keep, kept_calibration
from clusterlab.topology.host import HostFacts, NumaDomain

FACTS = HostFacts("a", "some CPU", "Linux 6", (NumaDomain(0, (0, 1), 1 << 30),))


def made_up_times() -> list[MeasuredTime]:
    """Times of a host whose messages cost 50 µs and whose bytes cost 300 µs a MiB."""
    names = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "reduce",
             "send_recv")  # fmt: skip
    times = []
    for name in names:
        op = "sum" if "reduce" in name else None
        dtypes = ("float32", "float16", "bfloat16") if op else ("float32",)
        for dtype in dtypes:
            for size in (1 << s for s in range(10, 25, 2)):
                time_us = 50 * 4 + 300 * size / (1 << 20)
                times += [MeasuredTime(name, dtype, op, 2, size, time_us * x) for x in (1, 1.02)]
    return times


def test_what_was_calibrated_is_kept_and_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    said: list[str] = []
    assert kept_calibration(FACTS, 2, "gloo", progress=said.append) is None
    fresh = fit_and_keep(LocalTimes(made_up_times(), 0.0), FACTS, 2, "gloo", progress=said.append)
    kept = kept_calibration(FACTS, 2, "gloo", progress=said.append)
    assert kept is not None, said
    assert kept.constants == fresh.constants
    assert kept.residuals == fresh.residuals
    assert calibration_path(FACTS, 2, "gloo").is_relative_to(tmp_path)


def test_a_damaged_calibration_is_said_and_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = calibration_path(FACTS, 2, "gloo")
    path.parent.mkdir(parents=True)
    path.write_text("format: 1\nsystem: [")
    said: list[str] = []
    assert kept_calibration(FACTS, 2, "gloo", progress=said.append) is None
    assert "calibrating again" in said[0]
    assert str(path) in said[0]
