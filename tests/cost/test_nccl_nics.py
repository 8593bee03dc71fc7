import dataclasses
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.cost.nccl_graph import Communicator, communicator
from clusterlab.cost.predict import predict
from clusterlab.cost.types import Prediction
from clusterlab.topology.design.load import load_fabric
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.failures.breaking import break_fabric
from clusterlab.topology.importing.files import read_files
from clusterlab.topology.place import place_on
from clusterlab.topology.routing.explain import trace
from clusterlab.topology.routing.nics import links_out
from clusterlab.topology.routing.policy import StaticHash
from tests.cost.examples import request
from tests.support import shared_dir

WHOLE = "superpod-h100-1su"
RANKS = 64


def comm_on(fabric: Fabric, ranks: int = RANKS, each: int | None = None) -> Communicator:
    group = place_on(fabric, ranks, ranks_per_host=each).ranks
    return communicator(fabric, group, [r.device or "" for r in group])


def broken(*what: str) -> Fabric:
    return break_fabric(load_fabric(WHOLE), what)


def worst_host_GBps(fabric: Fabric, ranks: int = RANKS) -> float:
    """What the live NICs of the host that has least carry out of it."""
    hosts = fabric.hosts[: ranks // 8]
    return min(
        sum(
            link.capacity_GBps or 0.0
            for nic in fabric.on_host(host, "nic")
            for link in links_out(fabric, nic.name)
        )
        for host in hosts
    )


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32))
def test_a_ring_takes_no_more_than_the_live_nics_of_the_worst_host_carry(seed: int) -> None:
    rng = random.Random(seed)
    what = []
    for host in rng.sample(range(8), rng.randrange(1, 4)):
        for nic in rng.sample(range(8), rng.randrange(1, 8)):
            part = rng.choice(["", f"/nic{nic}/pcie{nic}", f"/nic{nic}/leaf{nic}"])
            name = {"": f"n{host}/nic{nic}"}.get(part, f"n{host}{part}")
            what.append(name + rng.choice([":0", ":0.25", ":half", ":0.75"]))
    fabric = broken(*what)
    whole, hurt = comm_on(load_fabric(WHOLE)), comm_on(fabric)
    GBps = hurt.channels * hurt.ring_GBps
    assert 0 < GBps <= whole.channels * whole.ring_GBps
    assert GBps <= worst_host_GBps(fabric) + 1e-9


@pytest.mark.parametrize(
    ("what", "channels", "ring_GBps"),
    [
        (["n5/nic3"], 7, 48),
        (["n5/nic3", "n6/nic[0-1]"], 6, 48),  # the worst host, wherever it is
        (["osfp4@n2"], 6, 48),
        (["n2/nic[0-6]"], 2, 24),  # one NIC: two channels on it, as with one GPU per host
        (["n2/nic*:half"], 8, 24),
        (["n2/nic[0-6]:half"], 8, 24),  # 9 of 24 there, 8 of 48 elsewhere: the least of each
        (["n2/nic0:half"], 8, 24),  # 15 of 24 there are more than 7 of 48; 8 of 48 elsewhere
        (["n2/nic0/pcie0:half"], 8, 24),  # 8 of 16 lanes
        (["n9/nic*"], 8, 48),  # not among the ranks
        (["n2/nic0/leaf0"], 7, 48),  # its cable, its switch: the NIC's port is down
        (["leaf0"], 7, 48),
    ],
)
def test_channels_are_built_over_the_nics_a_host_has_left(
    what: list[str], channels: int, ring_GBps: float
) -> None:
    found = comm_on(broken(*what))
    assert (found.channels, found.ring_GBps) == (channels, ring_GBps)


def test_a_nic_that_is_not_cabled_counts_like_one_that_is_down() -> None:
    whole = load_fabric(WHOLE)
    ends = [(k.src, k.dst) for k in whole.network_links if "n2/nic3" in (k.src, k.dst)]
    assert comm_on(whole.with_links(dict.fromkeys(ends, ()))) == comm_on(broken("n2/nic3"))


def test_one_rank_per_host_has_no_neighbour_to_send_for_it() -> None:
    """Its own NIC dead, it reaches others through the CPU, but no faster than its own PCIe."""
    found = comm_on(broken("n2/nic0"), ranks=4, each=1)
    assert found.channels * found.ring_GBps <= 48


def test_a_host_without_a_live_nic_is_refused() -> None:
    with pytest.raises(UsageError, match="no NIC of n2 leads into the network"):
        comm_on(broken("n2/nic*"))


@pytest.mark.parametrize(
    ("what", "share"),
    [(["osfp4@n2"], 6 / 8), (["n2/nic*:half"], 1 / 2), (["n2/nic[0-6]"], 1 / 8)],
)
def test_large_buffers_slow_down_as_the_worst_host_s_nics_and_these_are_the_limit(
    what: list[str], share: float
) -> None:
    def answer(fabric: Fabric) -> Prediction:
        return predict(request(fabric, RANKS, "all_reduce", 16 << 30, backend="nccl"))

    whole, hurt = answer(load_fabric(WHOLE)), answer(broken(*what))
    assert hurt.busbw_GBps == pytest.approx(share * whole.busbw_GBps, rel=0.02)
    assert hurt.bottleneck.name == "NICs"
    assert hurt.bottleneck.utilisation > 0.95


def test_a_time_raised_to_the_bound_is_limited_by_what_bounds_it() -> None:
    """Of the cables only the wire's rate is known: no limit to NCCL's search, but to the bound."""
    fabric = load_fabric("dgx-h100-2node")
    links = tuple(
        dataclasses.replace(link, GBps=None, wire_GBps=1.0) if link.link_class == "ib" else link
        for link in fabric.links
    )
    slow = dataclasses.replace(fabric, links=links)
    answer = predict(request(slow, 16, size_bytes=1 << 30, backend="nccl"))
    assert f"raised to the bound ({answer.bound.limited_by})" in answer.notes
    assert (answer.bottleneck.name, answer.bottleneck.utilisation) == (answer.bound.limited_by, 1.0)


def test_machines_known_by_other_names_have_the_same_nics() -> None:
    fabric = load_fabric("dgx-h100-2node")
    group = place_on(fabric, 16).ranks
    renamed = [dataclasses.replace(rank, host=f"machine-{rank.host}") for rank in group]
    devices = [rank.device or "" for rank in group]
    expected = communicator(fabric, group, devices)
    fabric.memo.clear()
    assert communicator(fabric, renamed, devices) == expected


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_there_is_a_time_where_there_is_a_way(seed: int) -> None:
    """And the way leaves by a NIC that the channels are built over."""
    rng = random.Random(seed)
    fabric = load_fabric("dgx-h100-2node")
    gone = rng.sample(range(8), rng.randrange(9))
    hurt = break_fabric(fabric, [f"n1/nic{i}" for i in gone])
    way = trace(hurt, f"n1/gpu{rng.randrange(8)}", f"n0/gpu{rng.randrange(8)}", StaticHash())
    if len(gone) == 8:
        assert way.type == "DIS"
        with pytest.raises(UsageError, match=r"no NIC of n1|no path from n0"):
            comm_on(hurt, 16)
        return
    out = [hop.src for hop in way.hops if hop.dst == "leaf0"]
    assert len(out) == 1
    assert out[0] not in {f"n1/nic{i}" for i in gone}
    assert comm_on(hurt, 16).channels >= 8 - len(gone)


def test_an_a100_host_in_a_network_of_which_it_has_two_ports_has_a_way_and_a_time() -> None:
    samples = shared_dir() / "samples"
    files = ("nccl_xml/dgx_a100_nccl_topo.xml", "ibnetdiscover/topograph_ndr_dgx.out")
    fabric = read_files([samples / name for name in files]).fabric
    src, dst = (
        f"{host}/gpu{i}" for host, i in (("a08-p1-dgx-04-c01", 0), ("b06-p1-dgx-06-c01", 3))
    )
    assert trace(fabric, src, dst, StaticHash()).type == "NET"
    placed = place_on(fabric, len(fabric.of_kind("gpu"))).ranks
    chosen = [r for r in placed if r.host in (fabric.host_of(src), fabric.host_of(dst))]
    assert len(chosen) == 16
    comm = communicator(fabric, chosen, [r.device or "" for r in chosen])
    cabled = [n for n in fabric.on_host(chosen[0].host, "nic") if links_out(fabric, n.name)]
    assert 0 < comm.channels * comm.ring_GBps <= 24 * len(cabled)
