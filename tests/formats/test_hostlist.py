from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.formats.hostlist import (
    compress_hostlist,
    expand_counts,
    expand_hostlist,
    fold_hosts,
)

EXPANSIONS = {
    "n0": ["n0"],
    "n[0-3,7]": ["n0", "n1", "n2", "n3", "n7"],
    "n[5]": ["n5"],
    "n[001-003]": ["n001", "n002", "n003"],
    "n[08-11]": ["n08", "n09", "n10", "n11"],
    "n[8-11]": ["n8", "n9", "n10", "n11"],
    "n[9-010]": ["n9", "n10"],
    "a[0-1]b[2-3]": ["a0b2", "a0b3", "a1b2", "a1b3"],
    "n1,n[2-3]-ib,login": ["n1", "n2-ib", "n3-ib", "login"],
    "n[2,0,2]": ["n2", "n0", "n2"],
    " n0 , n1 ": ["n0", "n1"],
    "gpu-a100.cluster.org": ["gpu-a100.cluster.org"],
    "[0-1]": ["0", "1"],
}


@pytest.mark.parametrize(("text", "hosts"), EXPANSIONS.items())
def test_expands_slurms_grammar(text: str, hosts: list[str]) -> None:
    assert expand_hostlist(text) == hosts


BROKEN = (
    *("", ",", "n0,", "n[", "n]", "n[[0]]", "n[]", "n[1-]", "n[a-b]", "n[3-1]", "(null)", "n 0"),
    *("n0;rm", "n[0-99999999]", "n[1-1234567890]", "a[0-999]b[0-999]", "n²", "n[٣]"),
)


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_hostlist_names_the_variable(text: str) -> None:
    with pytest.raises(UsageError, match="SLURM_STEP_NODELIST: "):
        expand_hostlist(text, where="SLURM_STEP_NODELIST")


def test_the_limit_holds_before_anything_is_built() -> None:
    with pytest.raises(UsageError, match="1000000000000 entries; expected at most 65536"):
        expand_hostlist("a[0-9999]b[0-9999]c[0-9999]")


@pytest.mark.parametrize(
    ("hosts", "text"),
    [
        (["n0", "n1", "n2", "n3", "n7"], "n[0-3,7]"),
        (["n8", "n9", "n10"], "n[8-10]"),
        (["n08", "n09", "n10"], "n[08-10]"),
        (["n1", "n01"], "n[1,01]"),
        (["n2", "n0", "n1"], "n[2,0-1]"),
        (["login", "login"], "login,login"),
        (["n0-ib", "n1-ib", "m0"], "n[0-1]-ib,m0"),
        (["0", "1"], "[0-1]"),
    ],
)
def test_compresses_the_last_number(hosts: list[str], text: str) -> None:
    assert compress_hostlist(hosts) == text


names = st.from_regex(r"[a-z]{0,3}(0{0,2}[0-9]{1,3}(-ib|\.x|b[0-9]{1,12})?)?", fullmatch=True)


@given(st.lists(names.filter(bool), min_size=1, max_size=30))
def test_compressing_and_expanding_gives_the_same_hosts_in_the_same_order(hosts: list[str]) -> None:
    assert expand_hostlist(compress_hostlist(hosts)) == hosts


@given(st.integers(0, 3000), st.integers(1, 200), st.integers(1, 6))
def test_a_padded_range_survives(first: int, length: int, width: int) -> None:
    hosts = [f"n{i:0{width}d}" for i in range(first, first + length)]
    assert expand_hostlist(compress_hostlist(hosts)) == hosts


@given(st.text(alphabet="n01[]-,() xé", max_size=30))
def test_any_text_expands_or_is_refused(text: str) -> None:
    try:
        hosts = expand_hostlist(text)
    except UsageError:
        return
    assert hosts
    assert all(hosts)


def test_repeat_counts() -> None:
    assert expand_counts("3,2(x2),1") == [3, 2, 2, 1]
    assert expand_counts("16") == [16]


@pytest.mark.parametrize("text", ["", "x", "2(x)", "2(3)", "-1", "1,,2", "1(x99999999)", "9" * 40])
def test_broken_counts_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="SLURM_STEP_TASKS_PER_NODE"):
        expand_counts(text, where="SLURM_STEP_TASKS_PER_NODE")


def test_hosts_without_an_order_of_their_own_fold_as_people_count() -> None:
    assert fold_hosts(f"c{i:02d}" for i in reversed(range(1, 18))) == "c[01-17]"
    assert fold_hosts(["n10", "n9", "n2", "login", "n9"]) == "login,n[2,9-10]"
    assert fold_hosts([f"r{r}c{i}" for i in (2, 1) for r in (1, 0)]) == "r0c[1-2],r1c[1-2]"


@given(st.lists(st.from_regex(r"[a-c]{0,2}[0-9]{1,3}(-ib)?", fullmatch=True), max_size=30))
def test_folding_loses_no_host_and_gains_none(hosts: list[str]) -> None:
    if hosts:
        assert sorted(expand_hostlist(fold_hosts(hosts))) == sorted(set(hosts))
