"""Distances of PCI paths, and the NICs near a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterlab.topology.discover.distance import NicDistance, nic_distances, pci_distance
from clusterlab.topology.discover.nics import read_nics
from clusterlab.topology.discover.pci import read_pci
from tests.binding.machines import add_nic, bus_id, switch, two_socket_sys

ROOT = ("pci0000:0a", "0000:0a:01.0")


@pytest.mark.parametrize(
    ("other", "same_numa", "distance"),
    [
        ((*ROOT, "0000:0b:00.0", "0000:0d:00.0", "0000:0e:00.0"), True, "PIX"),
        ((*ROOT, "0000:0b:00.0", "0000:0d:00.0", "0000:2e:00.0", "0000:2f:00.0"), True, "PXB"),
        (("pci0000:0a", "0000:0a:02.0", "0000:1e:00.0"), True, "PHB"),
        (("pci0000:30", "0000:30:01.0", "0000:31:00.0"), True, "NODE"),
        (("pci0000:30", "0000:30:01.0", "0000:31:00.0"), False, "SYS"),
    ],
)
def test_distances_have_nvidia_smis_words(
    other: tuple[str, ...], same_numa: bool, distance: str
) -> None:
    mine = (*ROOT, "0000:0b:00.0", "0000:0c:00.0", "0000:10:00.0")
    assert pci_distance(mine, other, same_numa=same_numa)[0] == distance
    assert pci_distance(other, mine, same_numa=same_numa)[0] == distance


def test_two_functions_of_one_card_in_a_root_port_are_one_bridge_apart() -> None:
    card = (*ROOT, "0000:0b:00.0")
    assert pci_distance(card, (*ROOT, "0000:0b:00.1"), same_numa=True)[0] == "PIX"


def near(sys: Path, bus_id: str | None) -> dict[str, NicDistance]:
    nics = read_nics(sys, [])
    pci = {nic.bus_id: read_pci(sys, nic.bus_id) for nic in nics if nic.bus_id}
    place = read_pci(sys, bus_id) if bus_id else None
    return {found.name: found for found in nic_distances(place, nics, pci)}


def test_each_gpu_is_near_the_nic_behind_its_switch(tmp_path: Path) -> None:
    sys = two_socket_sys(tmp_path)
    for i in (0, 1):
        nics = near(sys, bus_id(i))
        assert [n for n, nic in nics.items() if nic.near] == [f"mlx5_{i}"]
        assert nics[f"mlx5_{i}"].distance == "PIX"
        assert nics[f"mlx5_{1 - i}"].distance == "SYS"


def test_a_nic_that_is_down_is_not_the_near_one(tmp_path: Path) -> None:
    sys = two_socket_sys(tmp_path)
    (sys / "class/infiniband/mlx5_0/ports/1/state").write_text("1: DOWN\n")
    nics = near(sys, bus_id(0))
    assert not nics["mlx5_0"].near
    assert nics["mlx5_1"].near


def test_two_ports_of_one_card_are_equally_near_and_names_count_as_numbers(tmp_path: Path) -> None:
    sys = two_socket_sys(tmp_path)
    add_nic(sys, "mlx5_10", f"{switch(0)}/0000:0d:00.0/0000:0e:00.1", 0)
    nics = near(sys, bus_id(0))
    assert list(nics) == ["mlx5_0", "mlx5_1", "mlx5_10"]
    assert [name for name, nic in nics.items() if nic.near] == ["mlx5_0", "mlx5_10"]


def test_without_a_gpu_nics_have_no_distance(tmp_path: Path) -> None:
    nics = near(two_socket_sys(tmp_path), None)
    assert [(nic.distance, nic.near) for nic in nics.values()] == [(None, False)] * 2
    assert near(tmp_path / "none", None) == {}
