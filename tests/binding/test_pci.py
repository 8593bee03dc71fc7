"""Distances and NICs of pretend /sys trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterlab.binding.nvml import sysfs_address
from clusterlab.binding.pci import numa_cores, numa_of, pci_device, pci_distance, read_nics
from tests.binding.machines import add_nic, gpu, switch, two_socket_sys

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


def test_each_gpu_is_near_the_nic_behind_its_switch(tmp_path: Path) -> None:
    sys = two_socket_sys(tmp_path)
    for i in (0, 1):
        nics = {nic.name: nic for nic in read_nics(sys, gpu(i).bus_id)}
        assert [n for n, nic in nics.items() if nic.near] == [f"mlx5_{i}"]
        assert nics[f"mlx5_{i}"].distance == "PIX"
        assert nics[f"mlx5_{1 - i}"].distance == "SYS"
        assert nics["mlx5_1"].numa == 1


def test_a_nic_that_is_down_is_not_the_near_one(tmp_path: Path) -> None:
    sys = two_socket_sys(tmp_path)
    (sys / "class/infiniband/mlx5_0/ports/1/state").write_text("1: DOWN\n")
    nics = {nic.name: nic for nic in read_nics(sys, gpu(0).bus_id)}
    assert (nics["mlx5_0"].up, nics["mlx5_0"].near) == (False, False)
    assert nics["mlx5_1"].near


def test_two_ports_of_one_card_are_equally_near_and_names_count_as_numbers(tmp_path: Path) -> None:
    sys = two_socket_sys(tmp_path)
    add_nic(sys, "mlx5_10", f"{switch(0)}/0000:0d:00.0/0000:0e:00.1", 0)
    nics = read_nics(sys, gpu(0).bus_id)
    assert [nic.name for nic in nics] == ["mlx5_0", "mlx5_1", "mlx5_10"]
    assert [nic.name for nic in nics if nic.near] == ["mlx5_0", "mlx5_10"]


def test_without_a_gpu_nics_have_no_distance(tmp_path: Path) -> None:
    nics = read_nics(two_socket_sys(tmp_path), None)
    assert [(nic.distance, nic.near) for nic in nics] == [(None, False)] * 2
    assert read_nics(tmp_path / "none", None) == ()


def test_numa_domains_and_devices_without_one(tmp_path: Path) -> None:
    sys = two_socket_sys(tmp_path)
    assert numa_cores(sys) == {0: tuple(range(8)), 1: tuple(range(8, 16))}
    device = pci_device(sys, gpu(1).bus_id)
    assert numa_of(device) == 1
    (device / "numa_node").write_text("-1\n")
    assert numa_of(device) is None
    assert numa_of(tmp_path / "none") is None


def test_nvmls_bus_id_is_spelled_as_in_sys() -> None:
    assert sysfs_address("00000000:1B:00.0") == "0000:1b:00.0"
    assert sysfs_address("00010000:1B:00.0") == "10000:1b:00.0"
