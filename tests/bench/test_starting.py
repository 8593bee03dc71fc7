"""Ranks begin at one instant of the common clock, whatever their own clocks say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from clusterlab.bench import starting
from clusterlab.bench.starting import LEAD_US, begin_together


class Host:
    """A host whose clock is ``ahead_us`` of rank 0's and moves on at every look; it knows that."""

    def __init__(self, true_us: float, ahead_us: float) -> None:
        self.true_us = true_us
        self.ahead_us = ahead_us

    def look(self) -> float:
        self.true_us += 0.25
        return self.true_us + self.ahead_us

    def common(self, at_us: float) -> float:
        return at_us - self.ahead_us


def begun(hosts: list[Host], monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When each host goes on, by the true clock: all read theirs, then each waits."""
    readings = [host.common(host.look()) for host in hosts]
    for host in hosts:
        control: Any = SimpleNamespace(
            device=SimpleNamespace(type="cuda"),
            largest=lambda values: [max(*values, *readings)],
        )
        monkeypatch.setattr(starting, "monotonic_us", host.look)
        begin_together(control, host)  # type: ignore[arg-type]
    return [host.true_us for host in hosts]


@pytest.mark.parametrize("late_us", [0.0, 30.0, 460.0])
@pytest.mark.parametrize("ahead_us", [0.0, -1e6, 12_345.5])
def test_all_go_on_at_one_instant(
    late_us: float, ahead_us: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = [Host(1000.0, 0.0), Host(1000.0 + late_us, ahead_us), Host(1001.0, 7.0)]
    times = begun(hosts, monkeypatch)
    assert max(times) - min(times) <= 1.0
    assert min(times) >= 1000.0 + late_us + LEAD_US


def test_on_cpus_a_barrier_has_to_do() -> None:
    calls: list[str] = []
    control: Any = SimpleNamespace(
        device=SimpleNamespace(type="cpu"), barrier=lambda: calls.append("barrier")
    )
    begin_together(control, None)  # type: ignore[arg-type]
    assert calls == ["barrier"]
