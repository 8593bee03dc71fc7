from __future__ import annotations

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.core.placement import Placement, RankPlacement, local_placement
from clusterlab.topology.design.load import list_designs, load_fabric, outline
from clusterlab.topology.match import chip_name, matching_design, place_like


@pytest.mark.parametrize(
    ("name", "chip"),
    [
        ("NVIDIA H200", "H200"),
        ("H200-SXM5-141GB", "H200"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA GB200", "GB200"),
        ("NVIDIA L40S", "L40S"),
        ("AMD Instinct MI300X", "MI300X"),
        ("Tesla V100-SXM2-32GB", "V100"),
        ("CPU", None),
        ("NVIDIA GeForce RTX 4090", None),
    ],
)
def test_the_chip_is_read_from_the_drivers_name_and_the_designs(
    name: str, chip: str | None
) -> None:
    assert chip_name(name) == chip


def test_the_smallest_design_that_holds_the_ranks_is_chosen() -> None:
    assert matching_design("NVIDIA H200", 1, 2) == "h200-2"
    assert matching_design("NVIDIA H100 80GB HBM3", 1, 8) == "hgx-h100"
    assert matching_design("NVIDIA H100 80GB HBM3", 1, 5) == "hgx-h100"
    assert matching_design("Quadro P400", 1, 1) is None


def test_pcie_cards_and_modules_of_one_chip_are_different() -> None:
    assert matching_design("NVIDIA A100-SXM4-40GB", 1, 4) == "hgx-a100"
    assert matching_design("NVIDIA A100 80GB PCIe", 1, 4) == "a100-pcie-4"
    assert matching_design("NVIDIA H100 PCIe", 1, 2) is None


def test_hosts_joined_by_nvlink_are_chosen_only_where_nothing_else_fits() -> None:
    assert matching_design("NVIDIA H100 80GB HBM3", 32, 8) == "superpod-h100-2su"
    assert matching_design("NVIDIA GB200", 18, 4) == "gb200-nvl72"


@pytest.mark.parametrize("design", list_designs())
def test_every_design_with_gpus_of_one_known_chip_can_be_found(design: str) -> None:
    fabric = load_fabric(design)
    gpus = fabric.of_kind("gpu")
    if not gpus or chip_name(gpus[0].model or "") is None:
        return
    each = len(fabric.on_host(fabric.hosts[0], "gpu"))
    found = matching_design(gpus[0].model or "", len(fabric.hosts), each)
    assert found is not None
    joined = any(d.kind == "nvswitch" for d in outline(design).network_devices)
    assert joined or len(load_fabric(found).of_kind("gpu")) <= len(gpus)


def test_ranks_sit_on_the_designs_hosts_in_order_of_appearance() -> None:
    fabric = load_fabric("dgx-h100-2node")
    observed = Placement((RankPlacement(0, "b", 3), RankPlacement(1, "a", 0)))
    placed = place_like(fabric, observed)
    first, second = fabric.hosts[:2]
    assert placed.ranks[0].device == fabric.on_host(first, "gpu")[3].name
    assert placed.ranks[1].device == fabric.on_host(second, "gpu")[0].name
    assert [r.host for r in placed.ranks] == ["b", "a"]


def test_more_ranks_or_hosts_than_the_design_has_are_refused() -> None:
    with pytest.raises(UsageError, match="local rank 2"):
        place_like(load_fabric("h200-2"), local_placement(3, "x"))
    two = Placement((RankPlacement(0, "a", 0), RankPlacement(1, "b", 0)))
    with pytest.raises(UsageError, match="at most its 1"):
        place_like(load_fabric("h200-2"), two)


@pytest.mark.parametrize(
    ("observed", "expected"),
    [
        (("n3", "n1"), ("n3", "n1")),
        (("n1", "n0", "n2"), ("n1", "n0", "n2")),
        (("a", "b"), ("n0", "n1")),
        (("n3", "other"), ("n0", "n1")),
    ],
)
def test_hosts_that_the_fabric_has_are_themselves(
    observed: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    ranks = [RankPlacement(i, host, 0) for i, host in enumerate(observed)]
    placed = place_like(load_fabric("lab-flat-4x2"), Placement(tuple(ranks)))
    assert tuple(r.device for r in placed.ranks) == tuple(f"{host}/gpu0" for host in expected)
