"""The programs of huge calls stay small enough to be played out."""

from __future__ import annotations

import pytest

from clusterlab.cost.flows.crossing import Routing
from clusterlab.cost.gloo.play import Program
from clusterlab.cost.gloo.programs import PLAYED
from clusterlab.cost.predict import predict
from clusterlab.cost.types import PredictRequest, one_group
from clusterlab.topology.place import place_on
from tests.cost.fabrics import load_fabric


@pytest.mark.parametrize("collective", sorted(PLAYED))
def test_a_huge_call_writes_no_more_steps_than_are_played(
    collective: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = []
    real = PLAYED[collective]

    def counted(n: int, segments: int, pieces: int, root: int) -> list[Program]:
        programs = real(n, segments, pieces, root)
        steps.append(sum(map(len, programs)))
        return programs

    monkeypatch.setitem(PLAYED, collective, counted)
    fabric = load_fabric("lab-rails-4x2")
    groups = one_group(place_on(fabric, 8))
    request = PredictRequest(fabric, groups, collective, 1 << 44, routing="pinned")
    assert predict(request).time_us > 1e9
    assert 0 < sum(steps) < 1_000_000


@pytest.mark.parametrize("routing", ["adaptive", "hash", "pinned"])
@pytest.mark.parametrize("size", [8, 1 << 20, 1 << 34])
@pytest.mark.parametrize("alone", [1, 3])
@pytest.mark.parametrize("collective", sorted(PLAYED))
def test_groups_of_one_rank_change_nothing_for_others(
    collective: str, alone: int, size: int, routing: Routing
) -> None:
    fabric = load_fabric("lab-rails-4x2")
    ranks = place_on(fabric, 8).ranks
    group, singles = ranks[:4], tuple((rank,) for rank in ranks[4 : 4 + alone])
    beside, by_itself = (
        predict(PredictRequest(fabric, groups, collective, size, routing=routing)).time_us
        for groups in ((*singles, group), (group,))
    )
    # The ranks of all groups begin in one random order, which is another one with more of them.
    assert beside == pytest.approx(by_itself, rel=0.03) and beside > 0
