"""A hunt in simulation: every kind of fault of any fabric is named, a whole one is not accused."""

from __future__ import annotations

import time

import pytest

from clusterlab.topology.opening import open_fabric
from clusterlab.verdict.localise.hunt import SURE, Budget, Hunted, hunt
from clusterlab.verdict.localise.informative import pool_of
from clusterlab.verdict.localise.types import Probe
from tests.verdict.localise.simulated import simulated, whole_field

FIELDS = {
    name: whole_field(open_fabric(name))
    for name in ("lab-8x1", "lab-rails-4x2", "lab-2to1-4x2", "superpod-h100-1su")
}
POOLS = {name: pool_of(field) for name, field in FIELDS.items()}
BUDGET = Budget(rounds=30)


def hunted(name: str, broken: list[str], *, noise: float = 0.05, seed: int = 1) -> Hunted:
    field = FIELDS[name]
    measure = simulated(field, broken, noise=noise, seed=seed)
    return hunt(field, measure, BUDGET, pool=POOLS[name])


def names(found: Hunted) -> list[str]:
    return [name for fault in found.answer.faults for name in fault.components]


@pytest.mark.parametrize("left", ["", ":half", ":0.7"], ids=["dead", "half", "70%"])
@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_slow_nic_is_named(name: str, left: str, seed: int) -> None:
    found = hunted(name, [f"n1/nic0{left}"], seed=seed)
    assert found.outcome == "named"
    (fault,) = found.answer.faults
    assert fault.name == "n1/nic0 ↔ leaf0"
    assert fault.confidence >= SURE
    assert fault.left == pytest.approx({"": 0.02, ":half": 0.5, ":0.7": 0.7}[left], rel=0.15)


@pytest.mark.parametrize(
    ("name", "broken", "is_named"),
    [
        ("lab-8x1", "leaf0/spine0:half", "leaf0 ↔ spine0"),
        ("lab-8x1", "leaf0:half", "switch leaf0"),
        ("lab-8x1", "spine1:half", "switch spine1"),
        ("lab-8x1", "n2/nic0:half", "host n2"),  # a host with one NIC: its cable stands first
        ("lab-rails-4x2", "leaf1/spine0:half", "leaf1 ↔ spine0"),
        ("lab-rails-4x2", "n2/nic*:half", "host n2"),
        ("lab-rails-4x2", "rail1:half", "rail 1"),
        ("lab-rails-4x2", "rail1", "rail 1"),
        ("lab-2to1-4x2", "leaf0:half", "switch leaf0"),
        ("superpod-h100-1su", "leaf3/spine2#1:half", "leaf3 ↔ spine2#1"),
        ("superpod-h100-1su", "leaf3/spine2:half", "all 8 cables leaf3 ↔ spine2"),
        ("superpod-h100-1su", "leaf5:half", "switch leaf5"),
        ("superpod-h100-1su", "spine1:half", "switch spine1"),
        ("superpod-h100-1su", "n7/nic*:half", "host n7"),
        ("superpod-h100-1su", "rail6:half", "rail 6"),
    ],
)
def test_each_kind_of_fault_is_named(name: str, broken: str, is_named: str) -> None:
    found = hunted(name, [broken])
    assert found.outcome == "named"
    (fault,) = found.answer.faults
    assert is_named in fault.components


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", FIELDS)
def test_a_whole_fabric_is_healthy(name: str, seed: int) -> None:
    found = hunted(name, [], seed=seed)
    assert (found.outcome, found.answer.faults) == ("healthy", ())
    assert found.answer.healthy >= SURE


@pytest.mark.parametrize(
    "broken",
    [
        ["n3/nic1:half", "leaf5/spine3#0:0.6"],
        ["spine1:half", "n9/nic2"],
        ["n3/nic*:half", "n20/nic*:half"],
        ["n4/nic0:half", "n4/nic5:half"],
        ["leaf1/spine0#0:half", "leaf2/spine0#0:half"],
    ],
    ids=" ".join,
)
def test_two_faults_are_two(broken: list[str]) -> None:
    found = hunted("superpod-h100-1su", broken)
    assert found.outcome == "named"
    assert len(found.answer.faults) == 2
    for what in broken:
        ends = what.partition(":")[0].replace("/nic*", "").split("/")
        own = [name for name in names(found) if all(end in name for end in ends)]
        assert own, f"{what} is not among {names(found)}"


def test_what_is_alike_but_far_from_the_fabric_is_not_called_healthy() -> None:
    """All links at 40 %: pairs are alike, and nothing among them stands out."""
    found = hunted("lab-8x1", ["n*/nic0:0.4", "leaf*/spine*:0.4"])
    assert found.outcome == "open"
    assert any("of what the fabric says" in text for text in found.left)


def test_the_budget_ends_a_hunt() -> None:
    measure = simulated(FIELDS["superpod-h100-1su"], [], noise=0.05, seed=0)
    pool = POOLS["superpod-h100-1su"]
    found = hunt(FIELDS["superpod-h100-1su"], measure, Budget(rounds=1), pool=pool)
    assert found.outcome == "open"
    assert len(found.rounds) == 1
    assert "were not looked at" in found.left[0]
    out_of_time = Budget(rounds=30, spent=lambda: True)
    assert hunt(FIELDS["lab-8x1"], measure, out_of_time).rounds == ()


@pytest.mark.parametrize("free", [0.5, 0.25])
def test_busy_cores_are_told_from_slow_nics(free: float) -> None:
    field = FIELDS["lab-8x1"]
    measure = simulated(field, [], noise=0.05, seed=4, cores={"n5": free})
    first = [tuple(Probe("host", (rank,)) for rank in range(8))]
    found = hunt(field, measure, BUDGET, first=first)
    (fault,) = found.answer.faults
    assert fault.name == "host n5, its cores"
    assert fault.left == pytest.approx(free, rel=0.1)


def test_spread_traffic_shows_nics_and_of_cables_at_most_those_that_share_a_choice() -> None:
    """A leaf has 32 uplinks, a spine 8 cables down to it: half of one is 2 % of those, 6 % of these."""
    field = whole_field(open_fabric("superpod-h100-1su"), "adaptive")
    pool, budget = pool_of(field), Budget(rounds=4)
    nic = hunt(field, simulated(field, ["n3/nic2:half"], noise=0.05, seed=1), budget, pool=pool)
    assert [f.name for f in nic.answer.faults] == ["n3/nic2 ↔ leaf2"]
    cable = ["leaf0/spine0#0:half"]
    hidden = hunt(field, simulated(field, cable, noise=0.05, seed=1), budget, pool=pool)
    assert all("leaf0" in f.name and f.left > 0.85 for f in hidden.answer.faults)
    assert any("--routing pinned" in text for text in hidden.left)


def test_of_the_largest_superpod_here_it_takes_seconds() -> None:
    fabric = open_fabric("superpod-h100-4su")
    field = whole_field(fabric)
    began = time.monotonic()
    found = hunt(field, simulated(field, ["leaf17/spine9#1:half"], noise=0.05, seed=3), BUDGET)
    assert [f.name for f in found.answer.faults] == ["leaf17 ↔ spine9#1"]
    assert time.monotonic() - began < 20  # 1 s alone on a core
