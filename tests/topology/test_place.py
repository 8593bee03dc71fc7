from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.topology.design.load import load_fabric
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.host import HostFacts, NumaDomain, host_fabric
from clusterlab.topology.parts import Device
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
        *(
            (
                "hgx-h100",
                ranks,
                each,
                f"ranks per host: {each} on .*; expected at most 8, the GPUs of",
            )
            for ranks in (1, 8, 9)
            for each in (9, 99, 10**12)
        ),
        ("dgx-h100-2node", 16, 9, "expected at most 8, the GPUs of n0"),
        ("h100-1", 1, 2, "expected at most 1, the GPUs of"),
    ],
)
def test_what_does_not_fit_is_refused(
    fabric: str, ranks: int, each: int | None, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        place_on(load_fabric(fabric), ranks, ranks_per_host=each)


@given(
    gpus=st.lists(st.integers(0, 4), min_size=1, max_size=5).filter(any),
    world_size=st.integers(1, 20),
    each=st.integers(1, 5),
)
def test_no_host_but_the_last_has_other_than_the_asked_ranks(
    gpus: list[int], world_size: int, each: int
) -> None:
    devices = [
        Device(f"h{h}/gpu{i}", "gpu", host=f"h{h}")
        for h, count in enumerate(gpus)
        for i in range(count)
    ]
    fabric = Fabric("uneven", tuple(devices), ())
    used = [g for g in gpus if g][: -(-world_size // each)]
    if each * len(used) >= world_size and min(used) >= each:
        hosts = Counter(r.host for r in place_on(fabric, world_size, ranks_per_host=each).ranks)
        *full, last = hosts.values()
        assert set(full) <= {each} and last <= each and hosts.total() == world_size
    else:
        with pytest.raises(UsageError, match="ranks"):
            place_on(fabric, world_size, ranks_per_host=each)


def test_ranks_per_host_limits_hosts_without_gpus_too() -> None:
    with pytest.raises(UsageError, match="at most 3 on the 1 hosts"):
        place_on(host_fabric(TWO_SOCKETS), 4, ranks_per_host=3)
