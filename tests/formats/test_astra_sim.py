"""ASTRA-sim's network files as plain data."""

from __future__ import annotations

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.formats.astra_sim import (
    Dimension,
    LinkList,
    LogicalDims,
    parse_astra_sim,
    recognise,
)

YAML = """
topology: [ Switch, Ring ]  # innermost first
npus_count: [ 8, 2 ]
bandwidth: [ 400, tbd ]  # GB/s
latency: [ 936.25, 1e3 ]  # ns
"""
OLD = """{"topologies-per-dim": ["Ring", "AllToAll"], "units-count": [2, 8],
 "link-latency": [500, 500], "link-bandwidth": [250, 12.5]}"""
NS3 = "3 1 2\n2\n0 2 400Gbps 0.0005ms 0\n1 2 400Gbps 500ns 0.1\n"
SIMAI = (
    "5 2 1 2 3 H20\n2 3\n4\n0 2 900Gbps 0.000025ms 0\n0 3 200Gbps 0.001ms 0\n3 4 400Gbps 1us 0\n"
)


def test_dimensions_with_figures_that_are_missing() -> None:
    assert parse_astra_sim(YAML, file="x") == (
        Dimension("Switch", 8, 400.0, 0.93625),
        Dimension("Ring", 2, None, 1.0),
    )


def test_the_older_json_says_the_same() -> None:
    assert parse_astra_sim(OLD, file="x") == (
        Dimension("Ring", 2, 250.0, 0.5),
        Dimension("FullyConnected", 8, 12.5, 0.5),
    )


def test_ns3_links_with_their_units() -> None:
    found = parse_astra_sim(NS3, file="x")
    assert isinstance(found, LinkList)
    assert (found.nodes, found.switches, found.declared_links) == (3, (2,), 2)
    assert [(c.src, c.dst, c.GBps, c.latency_us) for c in found.links] == [
        (0, 2, 50.0, 0.5),
        (1, 2, 50.0, 0.5),
    ]
    assert found.links[1].error_rate == 0.1


def test_an_ns3_ring_has_no_switches_and_an_empty_line() -> None:
    found = parse_astra_sim("2 0 1\n\n0 1 25Gbps 0.005ms 0\n", file="x")
    assert isinstance(found, LinkList)
    assert found.switches == ()
    assert found.links[0].GBps == pytest.approx(3.125)


def test_simai_names_nvswitches_before_switches() -> None:
    found = parse_astra_sim(SIMAI, file="x")
    assert isinstance(found, LinkList)
    assert (found.nvswitches, found.switches) == ((2,), (3, 4))
    assert (found.npus_per_server, found.npu_model) == (2, "H20")


def test_logical_dimensions_are_sizes_only() -> None:
    assert parse_astra_sim('{"logical-dims": ["8", "2"]}', file="x") == LogicalDims((8, 2))


@pytest.mark.parametrize("text", [YAML, OLD, NS3, SIMAI, '{"logical-dims": ["8"]}'])
def test_each_form_is_recognised(text: str) -> None:
    assert recognise(text)


@pytest.mark.parametrize("text", ["1 2 3\nwords\n", "topology: tree\n", "", "- topology: a\n"])
def test_other_texts_are_not(text: str) -> None:
    assert not recognise(text)


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("topology: [Star]\nnpus_count: [2]\nbandwidth: [1]\nlatency: [1]\n", "x:1", "Star"),
        (
            "topology: [Ring]\nnpus_count: [2, 2]\nbandwidth: [1]\nlatency: [1]\n",
            "x:2",
            "2 entries",
        ),
        ("topology: [Ring]\nnpus_count: [0]\nbandwidth: [1]\nlatency: [1]\n", "x:2", "'0'"),
        ("topology: [Ring]\nnpus_count: [2]\nbandwidth: [0]\nlatency: [1]\n", "x:3", "0"),
        ("topology: [Ring]\nnpus_count: [2]\nbandwidth: [1]\nlatency: [-1]\n", "x:4", "-1"),
        (
            "topology: [Ring, Ring]\nnpus_count: [9999, 9999]\nbandwidth: [1, 1]\nlatency: [1, 1]\n",
            "x:2",
            "NPUs",
        ),
        ("2 0 1\n\n0 1 25Gbps\n", "x:3", "no link"),
        ("2 0 1\n\n0 9 25Gbps 1ms 0\n", "x:3", "from 0 to 9"),
        ("2 0 1\n\n0 1 1.2.3Gbps 1ms 0\n", "x:3", "no link"),
        ("3 1 1\n7\n0 1 25Gbps 1ms 0\n", "x:2", "'7'"),
        ("3 2 1\n1\n", "x:2", "1 switch ids"),
        ("999999999 0 1\n\n0 1 25Gbps 1ms 0\n", "x:1", "nodes"),
    ],
)
def test_errors_name_line_and_value(text: str, where: str, what: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_astra_sim(text, file="x")
    assert (caught.value.where or "").startswith(where)
    assert what in caught.value.message
