"""Variables that take a path away: peer access, the network's own transport, GPUDirect, NICs."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from clusterlab.core.collectives import COLLECTIVES
from clusterlab.core.errors import UsageError
from clusterlab.cost.effects.constants import network_class
from clusterlab.cost.nccl.case import Case, case_of
from clusterlab.cost.nccl.graphs.nodes import nodes_of
from clusterlab.cost.nccl.graphs.transports import transport_of
from clusterlab.cost.nccl.hindered import SOCKETS_GBps
from clusterlab.cost.nccl.nic_filter import parse_nic_filter
from clusterlab.cost.nccl.overrides import parse_overrides
from clusterlab.cost.predict import predict
from clusterlab.cost.types import Prediction, PredictRequest, one_group
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import TRANSPORTS, Device
from clusterlab.topology.place import place_on
from tests.cost.fabrics import load_fabric

SIZES = (1 << 3, 1 << 16, 1 << 22, 1 << 30)
NO_PEERS = ({"NCCL_P2P_DISABLE": "1"}, {"NCCL_P2P_LEVEL": "LOC"}, {"NCCL_P2P_LEVEL": "0"})
BY_RING = {"NCCL_NVLS_ENABLE": "0"}


@cache
def design(name: str) -> Fabric:
    return load_fabric(name)


def request(
    name: str, collective: str, size: int, variables: dict[str, str], ranks: int | None = None
) -> PredictRequest:
    fabric = design(name)
    placement = place_on(fabric, ranks or len(fabric.of_kind("gpu")))
    return PredictRequest(
        fabric=fabric, groups=one_group(placement), collective=collective, size_bytes=size,
        backend="nccl", issue="graph", overrides=variables,
    )  # fmt: skip


def asked(
    name: str, collective: str, size: int, variables: dict[str, str], ranks: int | None = None
) -> Prediction:
    return predict(request(name, collective, size, variables, ranks))


def case(name: str, variables: dict[str, str]) -> Case:
    return case_of(request(name, "all_reduce", 1 << 20, variables))


JOINED = ("dgx-h100", "dgx-a100", "mi300x", "alps-gh200", "dgx-1v", "dgx-b200", "gb200-nvl72")


@pytest.mark.parametrize("collective", sorted(COLLECTIVES))
@pytest.mark.parametrize("name", JOINED)
def test_without_peer_access_all_goes_through_host_memory(name: str, collective: str) -> None:
    """Every joined machine, every collective: by far slower than NVLink or xGMI where bytes count.

    Against as many nodes: of a rack that NVLink joins NCCL makes one node, with a chain of 72 ranks for a
    tree, so that by hosts it has fewer steps.
    """
    nodes = BY_RING | {"NCCL_MNNVL_ENABLE": "0"}
    for size in SIZES:
        free = asked(name, collective, size, nodes)
        slow = asked(name, collective, size, {**nodes, "NCCL_P2P_DISABLE": "1"})
        assert slow.time_us >= free.time_us
    assert slow.time_us > 4 * free.time_us


@pytest.mark.parametrize("variables", NO_PEERS)
@pytest.mark.parametrize("name", [*JOINED, "a100-pcie-8"])
def test_all_ways_of_saying_so_are_one(name: str, variables: dict[str, str]) -> None:
    found = case(name, variables)
    assert found.comm == case(name, NO_PEERS[0]).comm
    assert found.comm.host_memory
    assert found.comm.intra == "pcie"
    assert "NVL" not in {g.type_intra for g in found.comm.graphs.values()}


def test_hosts_joined_by_nvlink_fall_apart_without_peer_access() -> None:
    """initTransportsRank of src/init.cc: MNNVL only where NCCL_P2P_LEVEL is not LOC."""
    whole, apart = case("gb200-nvl72", {}), case("gb200-nvl72", NO_PEERS[0])
    assert (whole.comm.nodes, whole.comm.network) == (1, None)
    assert (apart.comm.nodes, apart.comm.ranks_per_node) == (18, 4)
    network = apart.comm.network
    assert network is not None and (network.nics, network.nic_GBps) == (4, 50.0)
    alone = case("gb200-nvl72", {"NCCL_MNNVL_ENABLE": "0"})
    assert (alone.comm.nodes, alone.comm.intra) == (18, "nvlink")


@pytest.mark.parametrize("name", ["dgx-h100", "dgx-b200", "dgx-h100-2node"])
@pytest.mark.parametrize("size", [1 << 24, 1 << 30])
def test_nvls_needs_no_peer_access_and_moves_at_the_same_rate(name: str, size: int) -> None:
    """`ncclNvlsInit` asks for multicast and two GPUs; its search goes by the switches' own paths."""
    algorithm = {"NCCL_ALGO": "nvls,nvlstree"}
    with_peers = asked(name, "all_reduce", size, algorithm)
    without = asked(name, "all_reduce", size, {**algorithm, **NO_PEERS[0]})
    assert without.algorithm == with_peers.algorithm
    assert without.time_us == pytest.approx(with_peers.time_us)
    assert without.bottleneck == with_peers.bottleneck
    off = asked(name, "all_reduce", size, {**NO_PEERS[0], **BY_RING})
    assert not off.algorithm.startswith("nvls")
    assert off.time_us > 4 * without.time_us


def test_nvls_gathers_no_faster_than_a_ring() -> None:
    for collective in ("all_gather", "reduce_scatter"):
        ring, nvls = (
            asked("dgx-h100", collective, 1 << 30, {"NCCL_ALGO": a}).time_us
            for a in ("ring", "nvls")
        )
        assert nvls > ring


@pytest.mark.parametrize("collective", sorted(COLLECTIVES))
@pytest.mark.parametrize(
    "variables",
    [
        {"NCCL_IB_DISABLE": "1"},
        {"NCCL_NET_GDR_LEVEL": "LOC"},
        {"NCCL_IB_HCA": "nic0"},
    ],
)
def test_a_poorer_network_is_slower_for_every_collective(
    variables: dict[str, str], collective: str
) -> None:
    for size in SIZES:
        plain = asked("dgx-h100-2node", collective, size, {})
        poor = asked("dgx-h100-2node", collective, size, variables)
        assert poor.time_us >= plain.time_us * (1 - 1e-9), size
    one_message = collective in ("send_recv", "send", "ping_pong")
    if not (one_message and "NCCL_IB_HCA" in variables):  # one message has a NIC to itself still
        assert poor.time_us > 1.05 * plain.time_us


@pytest.mark.parametrize("variables", [{"NCCL_IB_DISABLE": "1"}, {"NCCL_NET": "Socket"}])
def test_sockets_carry_what_ranks_move_and_no_nic_s_rate(variables: dict[str, str]) -> None:
    for algorithm in ("ring", "nvlstree"):
        only = {"NCCL_ALGO": algorithm}
        found = asked("dgx-h100-2node", "all_reduce", 1 << 32, variables | only)
        assert 0.7 * 8 * SOCKETS_GBps < found.busbw_GBps <= 2 * 8 * SOCKETS_GBps
    pair = asked("dgx-h100-2node", "send_recv", 1 << 32, variables)
    assert pair.busbw_GBps < 8 * SOCKETS_GBps
    assert network_class(case("dgx-h100-2node", variables).comm) == "tcp"


def test_without_gpudirect_the_network_is_staged() -> None:
    found = case("dgx-h100-2node", {"NCCL_NET_GDR_LEVEL": "LOC"})
    assert network_class(found.comm) == "staged"
    assert network_class(found.plain) == "ib"
    plain = case("dgx-h100-2node", {}).effects
    assert found.effects.network_step_us > plain.network_step_us
    assert found.effects.p2p_network_rate < plain.p2p_network_rate


@pytest.mark.parametrize(
    ("variables", "sockets"),
    [
        ({"NCCL_IB_DISABLE": "1"}, {"ib", "roce"}),
        ({"NCCL_IB_DISABLE": "0"}, set()),
        ({"NCCL_NET": "Socket"}, set(TRANSPORTS)),
        ({"NCCL_NET": "SOCKET"}, set(TRANSPORTS)),
        ({"NCCL_NET": "IB"}, set()),
        ({"NCCL_NET": "AWS Libfabric"}, set()),
    ],
)
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_nccl_s_own_transport_gives_way_to_sockets_and_no_plugin_does(
    transport: str, variables: dict[str, str], sockets: set[str]
) -> None:
    whole = design("dgx-h100-2node")
    spoken = replace(
        whole,
        devices=tuple(
            replace(d, transport=transport) if d.kind == "nic" else d for d in whole.devices
        ),
    )
    nodes = nodes_of(spoken, [d.name for d in spoken.of_kind("gpu")], mnnvl=None)
    found = transport_of(spoken, nodes, parse_overrides(variables).graph)
    assert found == ("tcp" if transport in sockets else transport)


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("mlx5_0", {"mlx5_0"}),
        ("mlx5", {"mlx5_0", "mlx5_1", "mlx5_10"}),
        ("mlx5_1", {"mlx5_1", "mlx5_10"}),
        ("=mlx5_1", {"mlx5_1"}),
        ("=mlx5_1,mlx5_10:1", {"mlx5_1", "mlx5_10"}),
        ("mlx5_0:1", {"mlx5_0"}),
        ("mlx5_0:2", set()),
        ("^mlx5_1", {"mlx5_0", "bond0"}),
        ("^=mlx5_1", {"mlx5_0", "mlx5_10", "bond0"}),
        ("nic3", {"bond0"}),
    ],
)
def test_nccl_ib_hca_selects_as_nccl_does(text: str, allowed: set[str]) -> None:
    known = ("mlx5_0", "mlx5_1", "mlx5_10", "bond0")
    nics = [
        Device(f"n0/nic{i}", "nic", host="n0", interface=name, ports=1)
        for i, name in enumerate(known)
    ]
    chosen = parse_nic_filter("NCCL_IB_HCA", text)
    assert {d.interface for d in nics if chosen.allows(d)} == allowed


@pytest.mark.parametrize("text", ["^", "=", ",", "mlx5_0:", "mlx5_0:x", ":1", "mlx5_0:0"])
def test_a_list_of_nics_that_nccl_could_not_read_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="NCCL_IB_HCA: "):
        parse_nic_filter("NCCL_IB_HCA", text)


def test_nics_left_out_carry_nothing() -> None:
    rates = []
    for names in ("nic", "nic0,nic1,nic2,nic3", "nic0,nic1", "nic0"):
        found = case("dgx-h100-2node", {"NCCL_IB_HCA": names})
        assert found.comm.network is not None
        rates.append(
            asked("dgx-h100-2node", "all_to_all", 1 << 30, {"NCCL_IB_HCA": names}).busbw_GBps
        )
    assert rates == sorted(rates, reverse=True)
    assert rates[0] > 6 * rates[-1]
    plain = asked("dgx-h100-2node", "all_to_all", 1 << 30, {})
    other = asked("dgx-h100-2node", "all_to_all", 1 << 30, {"NCCL_IB_HCA": "mlx5_7"})
    assert other.time_us == plain.time_us
