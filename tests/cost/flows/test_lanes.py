"""Alike lanes drawn together, and totals in a table, give what lane after lane and sorting give."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.cost.flows.ends import NONE, Ends
from clusterlab.cost.flows.lanes import LaneFlows, lane_flows
from clusterlab.cost.flows.patterns import Pattern

PATTERNS: tuple[Pattern, ...] = ("ring", "tree", "doubling", "all")


@st.composite
def hosts_with_lanes(draw: st.DrawFn) -> np.ndarray:
    """[hosts, lanes] kinds of NICs, 2-7 hosts; some lanes copies of others, some NICs missing."""
    hosts, lanes = draw(st.integers(2, 7)), draw(st.integers(1, 4))
    least = draw(st.sampled_from([0, 0, NONE]))
    cells = st.lists(st.integers(least, 3), min_size=hosts, max_size=hosts)
    columns = draw(st.lists(cells, min_size=lanes, max_size=lanes))
    kind = np.array(columns + columns[: draw(st.integers(0, lanes))], dtype=np.int64).T
    kind[(kind == NONE).all(axis=1), 0] = 0  # a host without any NIC is refused
    return kind


def flows(pattern: Pattern, kind: np.ndarray) -> LaneFlows:
    hosts = tuple(f"n{i}" for i in range(len(kind)))
    return lane_flows(pattern, Ends(hosts, kind.astype(np.int32)), kind)


@settings(deadline=None)
@given(hosts_with_lanes(), st.sampled_from(PATTERNS))
def test_lanes_alike_and_totals_in_a_table_change_nothing(
    kind: np.ndarray, pattern: Pattern
) -> None:
    mine = flows(pattern, kind)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "clusterlab.cost.flows.lanes._different",
            lambda k: (k, np.arange(k.shape[1]), np.ones(k.shape[1], dtype=np.int64)),
        )
        patch.setattr("clusterlab.cost.flows.lanes._CELLS", 0)
        plain = flows(pattern, kind)
    assert (mine.src == plain.src).all()
    assert (mine.dst == plain.dst).all()
    for name in ("amount", "sends", "takes"):
        assert getattr(mine, name) == pytest.approx(getattr(plain, name))


@settings(deadline=None)
@given(hosts_with_lanes(), st.sampled_from(PATTERNS))
def test_what_is_sent_is_taken_and_is_the_sum_of_the_flows(
    kind: np.ndarray, pattern: Pattern
) -> None:
    found = flows(pattern, kind)
    assert found.sends.sum() == pytest.approx(found.amount.sum())
    assert found.takes.sum() == pytest.approx(found.amount.sum())


@settings(deadline=None)
@given(hosts_with_lanes(), st.sampled_from(PATTERNS))
def test_no_nic_sends_or_takes_that_a_host_does_not_have(
    kind: np.ndarray, pattern: Pattern
) -> None:
    found = flows(pattern, kind)
    for moved in (found.sends, found.takes):
        assert (moved[kind == NONE] == 0).all()
