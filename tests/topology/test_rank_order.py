import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.topology.design.load import load_fabric
from clusterlab.topology.rank_order import host_of_each_rank, place_in_order


def test_slurms_three_words() -> None:
    hosts = ["a", "b"]
    assert host_of_each_rank(hosts, 4, 2, "block") == ("a", "a", "b", "b")
    assert host_of_each_rank(hosts, 4, 2, "cyclic") == ("a", "b", "a", "b")
    assert host_of_each_rank(hosts, 6, 4, "plane=2") == ("a", "a", "b", "b", "a", "a")


@given(
    st.integers(1, 5),
    st.integers(1, 6),
    st.data(),
    st.sampled_from(["block", "cyclic", "plane=2", "plane=9"]),
)
def test_no_host_takes_more_than_it_may(
    hosts: int, each: int, data: st.DataObject, word: str
) -> None:
    ranks = data.draw(st.integers(1, hosts * each))
    found = host_of_each_rank([f"n{i}" for i in range(hosts)], ranks, each, word)
    assert len(found) == ranks
    assert max(found.count(host) for host in found) <= each


@pytest.mark.parametrize("word", ["", "blok", "plane", "plane=0", "plane=x", "block=2"])
def test_other_words_are_refused(word: str) -> None:
    with pytest.raises(UsageError, match="--distribution"):
        host_of_each_rank(["a"], 1, 1, word)


def test_ranks_get_the_gpus_of_their_host_in_order() -> None:
    fabric = load_fabric("dgx-h100-2node")
    placed = place_in_order(fabric, ["n1", "n0", "n1"]).ranks
    assert [r.gpu for r in placed] == ["n1/gpu0", "n0/gpu0", "n1/gpu1"]
    assert [r.local_rank for r in placed] == [0, 0, 1]
    with pytest.raises(UsageError, match="9 ranks on n0"):
        place_in_order(fabric, ["n0"] * 9)
    with pytest.raises(UsageError, match="did you mean"):
        place_in_order(fabric, ["n00"])
