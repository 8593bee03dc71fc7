"""NICs of a described host: as said, as such nodes have, and what was assumed."""

from __future__ import annotations

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.cost.scoring.machine import Machine, SystemDescription, machine_of


def machine(gpu: str, inter: str, *, nodes: int = 2, each: int = 8, intra: str = "") -> Machine:
    return machine_of(SystemDescription("x", gpu, nodes, each, nodes * each, intra, inter))


@pytest.mark.parametrize(
    ("gpu", "inter", "transport", "nics", "rate", "assumed"),
    [
        ("H100-SXM", "8x400G IB NDR", "ib", 8, 400, 0),
        ("H100-SXM", "IB NDR", "ib", 8, 400, 1),
        ("H100-SXM", "NDR (400 Gb/s)", "ib", 8, 400, 1),
        ("H100-SXM", "HDR", "ib", 8, 200, 1),
        ("H100-SXM", "RoCE", "roce", 8, 400, 2),
        ("H100-SXM", "100GbE", "roce", 1, 100, 2),
        ("H100-SXM", "25GbE", "tcp", 1, 25, 2),
        ("H100-SXM", "400G per GPU", "ib", 8, 400, 1),
        ("H100-SXM", "", "ib", 8, 400, 3),
        ("MI300X", "", "roce", 8, 400, 3),
        ("H100-SXM", "TCP", "tcp", 1, 400, 2),
        ("A100-SXM", "EFA", "efa", 4, 100, 2),
        ("A100-SXM", "EFA 400G", "efa", 4, 100, 1),
        ("H100-SXM", "EFA", "efa", 32, 100, 2),
        ("H100-SXM", "EFA 3200G", "efa", 32, 100, 1),
        ("H100-SXM", "32x EFA", "efa", 32, 100, 1),
        ("H200", "EFAv3", "efa", 16, 200, 1),
        ("B200", "EFA", "efa", 8, 400, 2),
        ("B300", "EFA", "efa", 16, 400, 2),
        ("H100-SXM", "GPUDirect-TCPX", "tcpx", 4, 200, 2),
        ("H100-SXM", "TCPX 800G", "tcpx", 4, 200, 1),
        ("H100-SXM", "TCPXO 1600G", "tcpxo", 8, 200, 1),
        ("GB300", "RoCE", "roce", 8, 800, 2),
        ("RTX 4090", "100GbE", "roce", 1, 100, 2),
        ("L40S", "RoCE", "roce", 1, 400, 2),
        ("L40S", "2x200G RoCE", "roce", 2, 200, 0),
    ],
)
def test_nics_are_those_said_or_those_that_such_nodes_have(
    gpu: str, inter: str, transport: str, nics: int, rate: float, assumed: int
) -> None:
    each = 8 if gpu != "GB300" else 4
    found = machine(gpu, inter, each=each, nodes=2 if gpu != "GB300" else 20)
    assert found.transport.name == transport
    assert (found.nics, found.nic_Gbps) == (nics if gpu != "GB300" else 4, rate)
    assert len(found.assumed) == assumed, found.assumed


@pytest.mark.parametrize("each", [1, 2, 4, 8])
def test_a_part_of_a_node_has_its_part_of_the_nics(each: int) -> None:
    assert machine("H100-SXM", "EFA", each=each).nics == 4 * each
    assert machine("GH200", "Slingshot", each=min(each, 4)).nics == min(each, 4)


@pytest.mark.parametrize(
    "inter", ["n/a", "loopback", "whatever", "Omni-Path", "wombat 7", "", "none"]
)
def test_on_one_node_no_word_of_the_network_counts(inter: str) -> None:
    found = machine("H100-SXM", inter, nodes=1)
    assert found.nics == 0 and found.assumed == ()


@pytest.mark.parametrize("intra", ["HCCS", "unified memory", "wombat"])
def test_of_one_gpu_no_word_of_its_links_counts(intra: str) -> None:
    assert machine("GH200", "1x400G IB", each=1, intra=intra).unknown
    with pytest.raises(UsageError, match="names no kind of link"):
        machine("H100-SXM", "8x400G IB", intra=intra)


def test_racks_without_a_word_are_one_where_they_fit_and_joined_by_nics_where_not() -> None:
    one = machine("GB200", "", nodes=18, each=4)
    assert (one.racks, one.nics, one.assumed) == (1, 0, ())
    two = machine("GB200", "", nodes=36, each=4)
    assert (two.racks, two.nics) == (2, 4) and len(two.assumed) == 3
    with pytest.raises(UsageError, match="no network between 2 racks"):
        machine("GB200", "none", nodes=36, each=4)


def test_geforce_cards_are_peers_over_their_bridge_alone() -> None:
    plain = machine("RTX 3090", "none", nodes=1, each=4, intra="pcie4")
    bridged = machine("RTX 3090", "none", nodes=1, each=4, intra="nvlink pairs")
    assert plain.settings == {"NCCL_P2P_DISABLE": "1"}
    assert bridged.pairs and bridged.settings == {"NCCL_P2P_LEVEL": "NVL"}
