"""ibnetdiscover files as fabrics: names, ports, real samples, broken text."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.topology.checks.all_checks import check
from clusterlab.topology.design.load import fabric_from_yaml
from clusterlab.topology.design.saving import fabric_to_yaml
from clusterlab.topology.importing.hca_names import (
    Adapter,
    SwitchName,
    read_adapter,
    read_switch,
    role_named,
)
from clusterlab.topology.importing.ibnetdiscover import read_ibnetdiscover, recognise
from clusterlab.topology.importing.imported import Imported
from clusterlab.topology.parts import SWITCH_KINDS
from tests.support import shared_dir
from tests.topology.importing.ib_sites import Builder, blocks, port_lines
from tests.topology.importing.mangled import mangled


def sample(name: str) -> Imported:
    path = shared_dir() / "samples" / "ibnetdiscover" / name
    return read_ibnetdiscover(path.read_text(), file=name)


@pytest.mark.parametrize(
    ("text", "host", "device"),
    [
        ("node01 mlx5_5", "node01", "mlx5_5"),
        ("node01 HCA-6", "node01", "HCA-6"),
        ("a b HCA-1", "a b", "HCA-1"),
        ("RMD70 ibp11s0f0", "RMD70", "ibp11s0f0"),
        ("node01 hca", "node01", "hca"),
        ("n1 mlx5_bond_0", "n1", "mlx5_bond_0"),
        ("cel01 S 192.168.10.5,192.168.10.6 HCA-1", "cel01", "HCA-1"),
        ("node01/MT4129", "node01", "MT4129"),
        ("Hca0", "Hca0", None),
        ("MT4129 ConnectX7   Mellanox Technologies", None, None),
        ("MT23108 InfiniHost Mellanox Technologies", None, None),
        ("localhost HCA-1", None, "HCA-1"),
        ("localhost.localdomain mlx5_0", None, "mlx5_0"),
        ("", None, None),
    ],
)
def test_descriptions_name_host_and_device_or_neither(
    text: str, host: str | None, device: str | None
) -> None:
    assert read_adapter(text) == Adapter(host, device)


def test_the_aggregation_node_is_no_host() -> None:
    assert read_adapter("Mellanox Technologies Aggregation Node").aggregation


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("MF0;A09-LEAF-04:MQM9701/U1", SwitchName("A09-LEAF-04", "MQM9701")),
        ("MF0;big-1:MCS8500/L02/U1", SwitchName("big-1", "MCS8500", "L02")),
        ("MF0;big-1:MCS8500/S11/U1", SwitchName("big-1", "MCS8500", "S11")),
        (" 5FB-spine-IB02 ", SwitchName("5FB-spine-IB02", None)),
        ("SwitchIB Mellanox Technologies", SwitchName(None, "SwitchIB Mellanox Technologies")),
        ("", SwitchName(None, None)),
    ],
)
def test_descriptions_name_switch_model_and_board(text: str, name: SwitchName) -> None:
    assert read_switch(text) == name


@pytest.mark.parametrize(
    ("host", "role"),
    [
        ("lustre-oss1", "storage"),
        ("nsd03", "storage"),
        ("B11-P1-CUFM-02", "management"),
        ("login01", "management"),
        ("stage18", None),
        ("ossuary", None),
        ("smaug-01", None),
    ],
)
def test_roles_are_read_from_whole_words_only(host: str, role: str | None) -> None:
    assert role_named(host) == role


def test_the_aggregation_port_takes_no_cable_and_reduces_in_the_switch() -> None:
    site = Builder()
    leaf = site.switch("leaf1", "MQM9700")
    site.nic("n0 mlx5_0", leaf)
    site.nic("Mellanox Technologies Aggregation Node", leaf)
    text = blocks(site.site()).replace("[2]\t", "[65]\t").replace('"[2]', '"[65]')
    found = read_ibnetdiscover(text.replace("Switch\t36", "Switch\t65"), file="x")
    (switch,) = found.fabric.of_kind("leaf")
    assert (switch.ports, switch.in_network, switch.model) == (64, True, "MQM9700")
    roles = Counter(d.role for d in found.fabric.of_kind("nic"))
    assert roles == {None: 1, "aggregation": 1}
    assert found.facts["aggregation_nodes"] == 1


def test_nodes_that_share_a_name_are_told_apart_by_guid() -> None:
    site = Builder()
    one, other = site.switch("ib"), site.switch("ib")
    site.join(one, other)
    site.nic("n0 mlx5_0", one)
    site.nic("n0 mlx5_0", other)
    found = read_ibnetdiscover(blocks(site.site()), file="x")
    assert [f.code for f in found.findings] == ["adapters_share_a_name"]
    assert len({d.name for d in found.fabric.devices}) == 4
    assert all(d.guid is not None and d.guid[2:] in d.name for d in found.fabric.devices)


def test_names_can_stand_on_a_command_line() -> None:
    site = Builder()
    switch = site.switch("SUN DCS 36P #2 sw@ib0")
    site.nodes[switch] = "SUN DCS 36P #2 sw@ib0: main"
    site.nic("node 7 HCA-1", switch)
    found = read_ibnetdiscover(blocks(site.site()), file="x")
    assert [d.name for d in found.fabric.devices] == ["SUN-DCS-36P-2-sw-ib0-main", "node-7/HCA-1"]


def test_a_node_known_from_the_other_end_only_is_external_and_told() -> None:
    site = Builder()
    leaf = site.switch("leaf")
    site.nic("n0 mlx5_0", leaf)
    text = blocks(site.site())
    cut = text[: text.index("vendid=0x2c9\ndevid=0x1021")]
    found = read_ibnetdiscover(cut, file="x")
    assert [f.code for f in found.findings] == ["nodes_without_entry"]
    assert [d.kind for d in found.fabric.devices] == ["leaf", "external"]
    assert len(found.fabric.links) == 2


def test_two_cables_in_one_port_are_told_and_the_one_both_ends_list_is_kept() -> None:
    site = Builder()
    leaf = site.switch("leaf")
    first = site.nic("n0 mlx5_0", leaf)
    site.nic("n1 mlx5_0", leaf)
    text = blocks(site.site()).replace('[2]\t"H-', '[1]\t"H-', 1)
    found = read_ibnetdiscover(text, file="x")
    assert "port_with_two_cables" in [f.code for f in found.findings]
    guid = f"0x{first[2:]}"
    (nic,) = [d for d in found.fabric.of_kind("nic") if d.guid == guid]
    assert [k.dst for k in found.fabric.links_from(nic.name)] == ["leaf"]


SMALL = Builder()
_LEAVES, _SPINES = SMALL.switches("leaf", 3), SMALL.switches("spine", 2)
for _leaf in _LEAVES:
    for _spine in _SPINES:
        SMALL.join(_leaf, _spine, 2)
    for _host in range(3):
        SMALL.nic(f"{SMALL.nodes[_leaf][4:10]}x{_host} mlx5_0", _leaf)


@pytest.mark.parametrize("written", [blocks, port_lines])
@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_mangled_text_is_imported_or_refused_in_words(
    written: Callable[..., str], data: st.DataObject
) -> None:
    text = data.draw(mangled(written(SMALL.site())))
    recognise(text)
    try:
        found = read_ibnetdiscover(text, file="x")
    except UsageError as error:
        assert str(error).startswith("x:")
    else:
        assert found.fabric.devices


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 20_000))
def test_a_file_cut_anywhere_is_imported_or_refused_in_words(cut: int) -> None:
    text = blocks(SMALL.site())
    try:
        read_ibnetdiscover(text[: cut % len(text)], file="x")
    except UsageError as error:
        assert str(error).startswith("x:")


def test_samples_have_the_nodes_they_are_known_for() -> None:
    samples = shared_dir() / "samples"
    with (samples / "expect.csv").open() as table:
        rows = [row for row in csv.DictReader(table) if row["kind"] == "ibnetdiscover"]
    assert rows
    for row in rows:
        text = (samples / row["path"]).read_text()
        assert recognise(text)
        fabric = read_ibnetdiscover(text, file=row["path"]).fabric
        switches = sum(len(fabric.of_kind(kind)) for kind in SWITCH_KINDS)
        assert len(fabric.of_kind("nic")) == int(row["nics"] or 0), row["path"]
        assert switches == int(row["switches"] or 0), row["path"]


def test_the_ndr_site_has_its_rails_its_missing_leaf_and_its_swapped_cables() -> None:
    found = sample("topograph_ndr_dgx.out")
    facts = found.facts
    assert {k: facts[k] for k in ("rails", "racks", "leaves", "leaves_expected", "spines")} == {
        "rails": 4,
        "racks": 8,
        "leaves": 31,
        "leaves_expected": 32,
        "spines": 9,
    }
    assert (facts["worst_leaf"]["down"], facts["worst_leaf"]["up"]) == (16, 14)
    (missing,) = [f for f in found.findings if f.code == "missing_leaf"]
    assert "A09-P1-IBLEAF-03-01" in missing.evidence[0]
    (crossed,) = [f for f in found.findings if f.code == "cross_wired_rails"]
    assert crossed.links == (
        "b08-p1-dgx-08-c01/HCA-5/B09-P1-IBLEAF-04-08",
        "b08-p1-dgx-08-c01/HCA-6/B09-P1-IBLEAF-03-08",
    )
    assert "B09-P1-IBLEAF-04-08 port 1" in crossed.fix
    assert "B09-P1-IBLEAF-03-08 port 1" in crossed.fix
    short = [
        line.partition(":")[0]
        for f in found.findings
        if f.code in ("missing_uplinks", "uneven_parallel_links")
        for line in f.evidence
    ]
    assert len(short) == len(set(short)) == 12
    assert [f.code for f in found.findings] == [
        "cross_wired_rails",
        "missing_leaf",
        "missing_uplinks",
        "uneven_parallel_links",
        "ports_without_host",
    ]


def test_the_saved_ndr_site_has_the_same_findings_and_no_more() -> None:
    found = sample("topograph_ndr_dgx.out")
    saved = fabric_to_yaml(found.fabric)
    fabric = fabric_from_yaml(saved, file="saved.yaml", default_name="site")
    assert check(fabric) == list(found.findings)


@pytest.mark.parametrize(
    ("name", "tiers", "codes"),
    [
        ("loginoff_topo.txt", {"leaf": 6, "spine": 2}, ["uneven_parallel_links"]),
        ("superbench_hdr.txt", {"leaf": 5, "spine": 2, "core": 1}, ["nodes_without_entry"]),
        ("fattree_k4n3_sim.topo", {"leaf": 32, "spine": 32, "core": 16}, []),
    ],
)
def test_other_sites_have_sensible_tiers_and_only_true_findings(
    name: str, tiers: dict[str, int], codes: list[str]
) -> None:
    found = sample(name)
    kinds = Counter(d.kind for d in found.fabric.devices if d.kind in SWITCH_KINDS)
    assert kinds == tiers
    assert [f.code for f in found.findings] == codes
    assert found.facts["rails"] == 1
