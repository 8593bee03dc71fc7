"""ibnetdiscover's grammar: what real files contain, and what is told of broken ones."""

from __future__ import annotations

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.formats.ibnetdiscover import parse_ibnetdiscover, recognise
from clusterlab.formats.infiniband import Rate, rate_of
from tests.support import shared_dir

BLOCKS = """\
ibwarn: [77] mad_rpc: _do_madrpc failed; dport (Lid 12)
# Initiated from node 0002c90300a1 port 0002c90300a2
Chassis 1 (guid 0x2c902)

# Spine Nodes
vendid=0x2c9
devid=0xbd36
sysimgguid=0x2c9020041e7a0\t\t# Chassis 1
switchguid=0x2c90200400001(2c90200400001)\t# ISR9288 Line 3
   Switch\t36 "S-0002c90200400001"\t\t# "Infiniscale "quoted" Technologies" base port 0 lid 3 lmc 0
[1][ext 5]\t"H-0002c90300a10000"[2](2c90300a10002) \t\t# "node 1 HCA-1" lid 4 4x???
[2]\t"S-0x2c90200400005"[7][ext 1]\t\t# "gw;02:X/U1" lid 9 4x??? s=4 w=2 v=4 e=4
[9]

Non-Chassis Nodes
vendid=0x2c9
devid=0x1003
caguid=0x2c90300a10000
Ca\t2 "H-0002c90300a10000"\t\t# "node 1 HCA-1"
[2](2c90300a10002) \t"S-0002c90200400001"[1][ext 5]\t\t# lid 4 lmc 0 "Infiniscale-IV" lid 3 4xQDR
Ca\t2 "H-0002c90300a10000"\t\t# "node 1 HCA-1"
[1](2c90300a10001) \t"S-0002c90200400001"[3]\t\t# lid 4 lmc 0 "Infiniscale-IV" lid 3 4xQDR
Switch\t36 "S-00
"""


def test_blocks_with_grouping_extended_speeds_and_chatter_are_read() -> None:
    network = parse_ibnetdiscover(BLOCKS, file="x")
    switch, adapter = network.nodes
    assert (switch.kind, switch.id, switch.port_count, switch.chassis) == (
        "switch",
        "S-0002c90200400001",
        36,
        "1",
    )
    assert switch.description == 'Infiniscale "quoted" Technologies'
    assert [(p.number, p.far, p.far_port, p.rate) for p in switch.ports] == [
        (1, "H-0002c90300a10000", 2, None),
        (2, "S-0002c90200400005", 7, Rate(4, "HDR")),
    ]
    assert (adapter.device_id, adapter.chassis, adapter.description) == (
        "0x1003",
        None,
        "node 1 HCA-1",
    )
    assert [p.number for p in adapter.ports] == [2]


def test_what_could_not_be_read_is_told_with_its_line() -> None:
    network = parse_ibnetdiscover(BLOCKS, file="x")
    assert [item.line for item in network.unread] == [13, 23]
    assert [item.line for item in network.repeated] == [21]
    assert [item.line for item in network.scan_errors] == [1]


def test_port_lines_are_nodes_by_guid_with_bare_and_padded_names() -> None:
    text = (
        "CA    78  1 0x10 4x HDR - SW    51 81 0x0020 ( 'it's node1 mlx5_0' - ' leaf-IB01 ' )\n"
        "SW    25 37 0x50 4x ???                                    ' spine-IB02 '\n"
        "SW   478 22 0x70 4x QDR     Infiniscale-IV Mellanox Technologies\n"
        "SW   478 2\n"
    )
    network = parse_ibnetdiscover(text, file="x")
    assert [(n.kind, n.description) for n in network.nodes] == [
        ("ca", "it's node1 mlx5_0"),
        ("switch", "leaf-IB01"),
        ("switch", "spine-IB02"),
        ("switch", "Infiniscale-IV Mellanox Technologies"),
    ]
    assert network.nodes[0].ports[0].rate == Rate(4, "HDR")
    assert network.nodes[2].ports[0].far is None
    assert network.nodes[3].ports[0].rate is None
    assert [u.line for u in network.unread] == [4]


def test_lists_of_nodes_are_read() -> None:
    text = (
        'Ca\t: 0x0002c90300a1 ports 1 devid 0x1003 vendid 0x2c9 "node01 mlx4_0"\n'
        'Switch  : 0x10e08028b9a0a0 ports 36 "SUN DCS 36P sw-ibs0 10.1.45.65" enhanced port 0 lid 2\n'
    )
    ca, switch = parse_ibnetdiscover(text, file="x").nodes
    assert (ca.kind, ca.device_id, ca.description) == ("ca", "0x1003", "node01 mlx4_0")
    assert (switch.port_count, switch.description) == (36, "SUN DCS 36P sw-ibs0 10.1.45.65")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SwitchName=s0 Nodes=n[0-3]\n",
        "Switch 36\n[1] broken\n",
        "CA 'mlx5_0'\n\tCA type: MT4129\n",
        "hello\n" * 3,
    ],
)
def test_text_without_nodes_is_refused_with_its_place(text: str) -> None:
    assert not recognise(text)
    with pytest.raises(UsageError, match="no node") as error:
        parse_ibnetdiscover(text, file="net.out")
    assert str(error.value).startswith("net.out:1: ")


def test_endless_lines_are_passed_over_and_told() -> None:
    text = BLOCKS + "[3]" + " " * 300_000 + "x\n"
    network = parse_ibnetdiscover(text, file="x")
    assert [u.line for u in network.unread] == [13, 23, 24]


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("lid 4 4xFDR10", Rate(4, "FDR10")),
        ("100 Gb/sec (4X EDR)", Rate(4, "EDR")),
        ("2xNDR", Rate(2, "NDR")),
        ("12xQDR", Rate(12, "QDR")),
        ("3xQDR", None),
        ("4x???", None),
        ("lid 4", None),
    ],
)
def test_rates_are_read_as_written(text: str, rate: Rate | None) -> None:
    assert rate_of(text) == rate


def test_no_file_of_another_kind_is_claimed() -> None:
    others = [
        path
        for path in (shared_dir() / "samples").rglob("*")
        if path.is_file() and path.parent.name != "ibnetdiscover" and path.suffix != ".src"
    ]
    assert others
    assert [p.name for p in others if recognise(p.read_text(errors="replace"))] == []


def test_a_description_far_beyond_its_64_bytes_is_cut_and_the_node_kept() -> None:
    words = "x" * 3000
    leaf = "0000000000000002"
    blocks_text = (
        f'Ca\t1 "H-0000000000000001"\t\t# "{words}"\n[1]\t"S-{leaf}"[7]\t\t# "leaf" 4xNDR\n'
    )
    ports_text = f"CA  5  1 0x0000000000000001 4x NDR - SW  7  7 0x{leaf} ( '{words}' - 'leaf' )\n"
    for text in (blocks_text, ports_text):
        assert recognise(text)
        network = parse_ibnetdiscover(text, file="f")
        assert network.nodes[0].description == "x" * 64
        assert network.unread == ()
