import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.core.findings import Severity
from clusterlab.topology.checks.all_checks import check
from clusterlab.topology.design.load import list_designs, load_fabric
from clusterlab.topology.failures.breaking import break_fabric
from tests.topology.clusters import small, superpod


@pytest.mark.parametrize("name", list_designs())
def test_shipped_designs_are_healthy(name: str) -> None:
    found = [f for f in check(load_fabric(name)) if f.severity != Severity.INFO]
    assert found == []


def test_the_worst_comes_first_and_every_fault_is_told() -> None:
    findings = check(
        break_fabric(superpod(31, 4), ["n5/nic3", "leaf3/spine2#1:half", "n3/gpu2/pcie2:half"])
    )
    order = ["fatal", "error", "warning", "info"]
    ranks = [order.index(f.severity) for f in findings]
    assert ranks == sorted(ranks)
    assert {f.code for f in findings} == {
        "nic_down",
        "link_degraded",
        "unequal_bundle",
        "nic_distance",
    }


PAIRS = sorted({(k.src, k.dst) for k in small().links})


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(PAIRS), st.sampled_from(["", ":half", "#0", "#0:half"])),
        min_size=1,
        max_size=40,
    )
)
def test_whatever_is_broken_is_found_and_stays_short(
    broken: list[tuple[tuple[str, str], str]],
) -> None:
    findings = check(break_fabric(small(), [f"{a}/{b}{how}" for (a, b), how in broken]))
    assert any(f.code.endswith(("_down", "_degraded")) for f in findings)
    assert all(len(f.evidence) <= 11 and f.fix for f in findings)


def test_what_is_down_is_not_also_missing() -> None:
    findings = check(break_fabric(superpod(127, 16), ["leaf3/spine2#1", "spine7", "n5/nic3"]))
    assert {f.code for f in findings} == {
        "link_down",
        "spine_down",
        "nic_down",
        "nic_distance",
        "oversubscription_mismatch",
    }


def test_a_leaf_cut_from_every_spine_is_an_error() -> None:
    findings = check(break_fabric(superpod(31, 4), ["leaf3/spine*"]))
    assert findings[0].code == "leaf_isolated"
    assert findings[0].severity == Severity.ERROR
    assert findings[0].links == ("leaf3",)
    assert "0 of 32 uplinks live" in findings[0].evidence[0]


def test_a_leaf_that_is_down_itself_is_not_also_isolated() -> None:
    assert "leaf_isolated" not in {f.code for f in check(break_fabric(superpod(31, 4), ["leaf3"]))}
