import pytest

from clusterlab.core.errors import UsageError
from clusterlab.topology.design.load import load_fabric
from clusterlab.topology.host import HostFacts, NumaDomain, host_fabric
from clusterlab.topology.place import place_on

TWO_SOCKETS = HostFacts(
    "node", "CPU", "Linux", (NumaDomain(0, (0, 1), None), NumaDomain(1, (2, 3), None))
)


def test_ranks_fill_the_gpus_of_one_host_after_the_other() -> None:
    placement = place_on(load_fabric("dgx-h100-2node"), 10)
    assert [(r.host, r.local_rank) for r in placement.ranks[7:]] == [
        ("n0", 7),
        ("n1", 0),
        ("n1", 1),
    ]
    assert placement.ranks[8].device == "n1/gpu0"
    assert placement.ranks[4].numa == 1


def test_fewer_ranks_per_host_spread_over_more_hosts() -> None:
    placement = place_on(load_fabric("dgx-h100-2node"), 2, ranks_per_host=1)
    assert placement.hosts == ("n0", "n1")


def test_ranks_without_gpus_share_the_numa_domains_in_turn() -> None:
    placement = place_on(host_fabric(TWO_SOCKETS), 5)
    assert [r.numa for r in placement.ranks] == [0, 1, 0, 1, 0]
    assert all(r.gpu is None for r in placement.ranks)


@pytest.mark.parametrize(
    ("fabric", "ranks", "each", "message"),
    [
        ("hgx-h100", 9, None, "ranks: 9 ranks on fabric hgx-h100; expected at most its 8 GPUs"),
        ("dgx-h100-2node", 9, 4, r"at most its 8 GPUs \(4 per host\)"),
        ("hgx-h100", 0, None, "ranks: 0 ranks; expected at least 1"),
        ("hgx-h100", 1, 0, "0 ranks per host; expected at least 1"),
    ],
)
def test_what_does_not_fit_is_refused(
    fabric: str, ranks: int, each: int | None, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        place_on(load_fabric(fabric), ranks, ranks_per_host=each)


def test_ranks_per_host_limits_hosts_without_gpus_too() -> None:
    with pytest.raises(UsageError, match="at most 3 on the 1 hosts"):
        place_on(host_fabric(TWO_SOCKETS), 4, ranks_per_host=3)
