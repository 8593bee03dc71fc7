"""Fabrics made of a table's words: the right GPUs, links, NICs and switches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.cost.scoring.fabrics import fabric_for, settings_for
from clusterlab.cost.scoring.machine import SystemDescription, machine_of
from clusterlab.topology.fabric import Fabric


def described(
    gpu: str = "H100-SXM-80G",
    nodes: int | None = 1,
    each: int | None = 8,
    *,
    intra: str = "",
    inter: str = "none",
    system: str = "somewhere",
    ranks: int | None = None,
) -> SystemDescription:
    return SystemDescription(
        system, gpu, nodes, each, ranks or (nodes or 1) * (each or 1), intra, inter
    )


def nvlink_GBps(fabric: Fabric, gpu: str) -> float:
    return sum(
        link.capacity_GBps or 0 for link in fabric.links_from(gpu) if link.link_class == "nvlink"
    )


def test_a_slug_alone_is_one_whole_node() -> None:
    fabric = fabric_for(described("", None, None, system="h200_sxm", ranks=4))
    assert len(fabric.hosts) == 1 and len(fabric.of_kind("gpu")) == 8
    assert nvlink_GBps(fabric, "n0/gpu0") == pytest.approx(18 * 20.6)
    assert not fabric.of_kind("nic")


def test_nics_of_a_node_are_those_the_table_names_near_their_gpus() -> None:
    fabric = fabric_for(described(nodes=2, inter="EFA 3200G (32x100G)"))
    assert len(fabric.of_kind("nic")) == 64 and len(fabric.of_kind("leaf")) == 8
    nic = fabric.device("n1/nic7")
    assert nic.transport == "efa" and nic.rail == 1 and nic.model == "EFAv2"
    (pcie,) = [k.dst for k in fabric.links_from("n1/gpu1") if k.link_class == "pcie"]
    assert pcie in [k.dst for k in fabric.links_from("n1/nic7")]
    (cable,) = [k for k in fabric.links_from("n1/nic7") if k.dst == "leaf1"]
    assert cable.wire_GBps == 12.5 and cable.GBps is None


def test_fewer_nics_than_gpus_serve_several_each() -> None:
    fabric = fabric_for(described(nodes=2, inter="GPUDirect-TCPX 800G (4x200G)"))
    assert [fabric.device(f"n0/gpu{i}").rail for i in range(8)] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_a_rack_joins_its_trays_by_nvlink_and_two_racks_by_nics() -> None:
    one = fabric_for(described("GB200", 18, 4, intra="nvlink5-nvl72", inter="none (MNNVL)"))
    assert len(one.of_kind("gpu")) == 72 and len(one.of_kind("nvswitch")) == 18
    assert not one.of_kind("nic")
    two = fabric_for(
        described("GB200", 32, 4, intra="nvlink5-nvl72", inter="4x400G IB NDR per node")
    )
    assert len(two.of_kind("nvswitch")) == 36 and len(two.of_kind("leaf")) == 4
    assert {k.dst.split("-")[0] for k in two.links_from("n15/gpu0") if "switch" in k.dst} == {
        "rack0"
    }
    assert {k.dst.split("-")[0] for k in two.links_from("n16/gpu0") if "switch" in k.dst} == {
        "rack1"
    }


def test_a_node_that_is_a_rack_is_taken_apart_into_trays() -> None:
    fabric = fabric_for(described("GB300", 1, 72, intra="nvlink5-nvl72"))
    assert len(fabric.hosts) == 18 and len(fabric.of_kind("nvswitch")) == 18


def test_cards_are_bridged_where_the_table_says_pairs() -> None:
    plain = fabric_for(described("A100-PCIE-40G", 1, 4, intra="pcie"))
    pairs = fabric_for(described("A100-PCIE-40G", 1, 4, intra="nvlink3 pairs"))
    assert nvlink_GBps(plain, "n0/gpu0") == 0
    assert [k.dst for k in pairs.links_from("n0/gpu2") if k.link_class == "nvlink"] == ["n0/gpu3"]


def test_pcie_runs_at_the_generation_the_table_names() -> None:
    for text, GBps in (("pcie3", 12.0), ("pcie5", 48.0)):
        fabric = fabric_for(described("A100-PCIE-40G", 1, 2, intra=text))
        assert {k.GBps for k in fabric.links if k.link_class == "pcie"} == {GBps}


def test_no_peer_access_is_a_setting() -> None:
    assert settings_for(described("RTX4090", 1, 4, intra="pcie4")) == {"NCCL_P2P_DISABLE": "1"}
    modified = settings_for(described("RTX4090", 1, 4, intra="pcie4 (P2P driver mod)"))
    assert modified == {"NCCL_P2P_LEVEL": "SYS"}
    assert settings_for(described("L40S", 1, 4, intra="pcie4")) == {}


def test_what_the_words_leave_open_is_said() -> None:
    machine = machine_of(described("A100-SXM4-80G", 2, inter="RoCE 8 NICs"))
    assert machine.assumed == ("NICs of 200 Gb/s",) and machine.nic_Gbps == 200


@pytest.mark.parametrize(
    ("description", "place"),
    [
        (described("Voodoo2"), "gpu"),
        (described("", None, None, system="voodoo2", ranks=2), "system"),
        (described(nodes=2, inter="none"), "inter_fabric"),
        (described(each=16), "gpus_per_node"),
        (described(nodes=1, each=2, ranks=8), "n_ranks"),
        (described("", None, None, system="h100_sxm", ranks=16), "n_ranks"),
        (described(nodes=10**6, each=8, inter="8x400G IB"), "n_nodes"),
        (described(nodes=2, inter="900x400G IB"), "inter_fabric"),
        (described(nodes=2, inter="8x9000G IB"), "inter_fabric"),
    ],
)
def test_what_cannot_be_built_names_the_column(description: SystemDescription, place: str) -> None:
    with pytest.raises(UsageError) as caught:
        fabric_for(description)
    assert caught.value.where == place


def test_a_description_has_one_fabric() -> None:
    assert fabric_for(described()) is fabric_for(described())


@given(
    gpu=st.sampled_from(["H100-SXM", "A100-PCIe", "GB200", "MI300X", "RTX4090", "V100-SXM2", "L40S"]),
    nodes=st.integers(1, 20),
    each=st.integers(1, 9),
    inter=st.sampled_from(["none", "1x400G IB", "8x200G RoCE", "EFA 3200G", "3 NICs", "16x100G TCP"]),
    intra=st.sampled_from(["", "pcie4", "nvlink5-nvl72", "nvlink3 pairs", "none"]),
)  # fmt: skip
def test_every_description_is_a_fabric_with_its_gpus_and_nics_or_a_usage_error(
    gpu: str, nodes: int, each: int, inter: str, intra: str
) -> None:
    description = described(gpu, nodes, each, inter=inter, intra=intra)
    try:
        fabric = fabric_for(description)
    except UsageError:
        return
    machine = machine_of(description)
    assert len(fabric.of_kind("gpu")) == nodes * each
    assert len(fabric.of_kind("nic")) == machine.hosts * machine.nics
