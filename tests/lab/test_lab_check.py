"""Measuring pairs of NICs: the probe by itself, and what is made of its figures."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.lab.check import PairRate, suspects
from clusterlab.lab.commands import module_environment
from clusterlab.lab.fabric_of_lab import open_lab_fabric
from clusterlab.lab.pair_paths import pair_paths
from clusterlab.topology.failures.breaking import break_fabric

FABRIC = open_lab_fabric("lab-rails-4x2", "pinned")
PATHS = pair_paths(FABRIC.fabric, FABRIC.network(), "pinned")
CABLES = sorted({cable for path in PATHS for cable in path.cables})


@settings(deadline=None)
@given(st.sampled_from(CABLES), st.floats(0.0, 0.85), st.booleans())
def test_the_one_slow_cable_is_named(slow: tuple[str, bool], left: float, both: bool) -> None:
    ways = {slow, (slow[0], not slow[1])} if both else {slow}
    rates = [PairRate(p, p.GBps * (1 if ways.isdisjoint(p.cables) else left)) for p in PATHS]
    assert slow[0] in suspects(rates)
    # And only what carries the same pairs, from which nothing tells it.
    off = {p.name for p in PATHS if not ways.isdisjoint(p.cables)}
    for name in suspects(rates):
        assert off <= {p.name for p in PATHS if {(name, True), (name, False)} & set(p.cables)}


@pytest.mark.parametrize(
    ("measured", "off"), [(0.0245, False), (0.0222, False), (0.0268, False), (0.0215, True), (0.028, True)]
)  # fmt: skip
def test_a_pair_is_off_beyond_the_tolerance_either_way(measured: float, off: bool) -> None:
    assert PATHS[0].GBps == 0.0245
    assert PairRate(PATHS[0], measured).is_off() == off
    assert PairRate(PATHS[0], measured).to_json()["off"] == off


def test_nothing_is_suspected_where_all_is_well_or_all_is_lost() -> None:
    assert suspects([PairRate(p, p.GBps) for p in PATHS]) == []
    assert suspects([PairRate(p, 0.0) for p in PATHS]) == []


def test_a_pair_that_no_way_joins_must_stay_silent() -> None:
    network = FABRIC.network(("n1/nic0",))
    fabric = break_fabric(FABRIC.fabric, ["n1/nic0"])
    cut = [p for p in pair_paths(fabric, network, "pinned") if "n1/nic0" in p.name]
    assert {p.GBps for p in cut} == {0.0}
    assert not PairRate(cut[0], 0.0).is_off()
    assert PairRate(cut[0], 1e-6).is_off()


@pytest.fixture
def probe() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-S", "-m", "clusterlab.lab.probe", "127.0.0.2", "127.0.0.3"],
        env=module_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        yield process
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=10) == 0


def ask(probe: subprocess.Popen[str], **request: Any) -> dict[str, Any]:
    assert probe.stdin is not None
    assert probe.stdout is not None
    probe.stdin.write(json.dumps(request) + "\n")
    probe.stdin.flush()
    found: dict[str, Any] = json.loads(probe.stdout.readline())
    return found


def test_the_probe_measures_both_ways_at_once_and_says_who_was_not_there(
    probe: subprocess.Popen[str],
) -> None:
    assert probe.stdout is not None
    ports = json.loads(probe.stdout.readline())
    there, back = ("127.0.0.2", "127.0.0.3"), ("127.0.0.3", "127.0.0.2")
    both = ask(
        probe,
        send=[[*way, ports[way[1]]] for way in (there, back)],
        receive=[there, back],
        seconds=0.2,
    )
    assert both["failed"] == [None, None]
    assert all(rate > 0.01 for rate in both["received"])
    silent = ask(probe, send=[], receive=[there], seconds=0.1)
    assert silent == {"received": [None], "failed": []}
    stranger = ask(probe, send=[[*there, ports[there[1]]]], receive=[], seconds=0.1)
    assert stranger["received"] == []
    # That connection waits for somebody to take it: it is not who comes next.
    again = ask(probe, send=[["127.0.0.4", there[1], ports[there[1]]]], receive=[["127.0.0.4", there[1]]],
                seconds=0.2)  # fmt: skip
    assert again["received"][0] > 0.01
