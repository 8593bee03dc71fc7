"""NICs of made-up /sys trees."""

from __future__ import annotations

from pathlib import Path

from clusterlab.topology.discover.facts import NicFact, PortFact
from clusterlab.topology.discover.nics import interface_addresses, read_nics
from tests.topology.discover.trees import Sys

ONE, TWO = "pci0000:10/0000:10:01.0/0000:11:00.0", "pci0000:20/0000:20:01.0/0000:21:00.0"


def nics(sys: Sys, **addresses: list[str]) -> dict[str, NicFact]:
    return {nic.name: nic for nic in read_nics(sys.root, [], lambda: addresses)}


def test_an_infiniband_device_has_its_guid_rate_and_subnet_prefix(tmp_path: Path) -> None:
    sys = Sys(tmp_path)
    sys.rdma("mlx5_0", ONE, guid="b83f:d203:00aa:0001")
    nic = nics(sys)["mlx5_0"]
    assert (nic.guid, nic.bus_id, nic.model, nic.up) == (
        "b83fd20300aa0001", "0000:11:00.0", "MT4129", True,
    )  # fmt: skip
    assert nic.ports == (PortFact(1, True, 400.0, "infiniband", gid_prefix="fe80000000000000"),)


def test_a_port_that_is_down_has_no_rate(tmp_path: Path) -> None:
    sys = Sys(tmp_path)
    sys.rdma("mlx5_0", ONE, state="1: DOWN", rate="10 Gb/sec (4X SDR)")
    nic = nics(sys)["mlx5_0"]
    assert (nic.up, nic.ports[0].rate_Gbps) == (False, None)


def test_roce_has_the_subnets_of_its_interface(tmp_path: Path) -> None:
    sys = Sys(tmp_path)
    sys.rdma("mlx5_0", ONE, layer="Ethernet", interface="ens1np0")
    found = nics(sys, ens1np0=["10.1.4.7/22"], eth0=["192.0.2.1/24"])
    assert list(found) == ["mlx5_0"]  # its interface is no second NIC
    port = found["mlx5_0"].ports[0]
    assert (port.layer, port.interfaces, port.subnets) == (
        "ethernet", ("ens1np0",), ("10.1.4.0/22",),
    )  # fmt: skip
    assert port.gid_prefix is None


def test_a_bonds_address_is_its_devices(tmp_path: Path) -> None:
    sys = Sys(tmp_path)
    sys.rdma("mlx5_bond_0", ONE, layer="Ethernet", interface="ens1np0")
    sys.write("class/infiniband/mlx5_bond_0/ports/1/gid_attrs/ndevs/0", "bond0")
    port = nics(sys, bond0=["10.1.0.7/24"])["mlx5_bond_0"].ports[0]
    assert (port.interfaces, port.subnets) == (("bond0", "ens1np0"), ("10.1.0.0/24",))


def test_an_ethernet_function_without_rdma_is_a_nic_with_its_interfaces_as_ports(
    tmp_path: Path,
) -> None:
    sys = Sys(tmp_path)
    sys.pci(ONE)
    sys.net("eno1", ONE)
    sys.pci(TWO)
    sys.net("eno2", TWO, speed="-1", state="down")
    found = nics(sys, eno1=["10.0.0.4/8"])
    assert found["eno1"].ports == (PortFact(1, True, 25.0, "ethernet", ("eno1",), ("10.0.0.0/8",)),)
    assert (found["eno2"].up, found["eno2"].ports[0].rate_Gbps) == (False, None)


def test_interfaces_without_hardware_are_no_nics(tmp_path: Path) -> None:
    sys = Sys(tmp_path)
    sys.write("class/net/lo/type", "772")
    sys.write("class/net/docker0/type", "1")
    notes: list[str] = []
    (sys.root / "class/infiniband/rxe0").mkdir(parents=True)
    assert read_nics(sys.root, notes) == ()
    assert notes == ["rxe0: an RDMA device in software or not on PCI, left out"]


def test_virtual_functions_made_for_guests_are_left_out_and_a_guests_own_is_its_nic(
    tmp_path: Path,
) -> None:
    sys = Sys(tmp_path)
    virtual = ONE[:-1] + "2"
    sys.pci(ONE)
    sys.net("eno1", ONE)
    sys.pci(virtual)
    sys.net("eno1v0", virtual)
    (sys.root / "devices" / virtual / "physfn").symlink_to(sys.root / "devices" / ONE)
    assert list(nics(sys)) == ["eno1"]
    (sys.root / "devices" / virtual / "physfn").unlink()
    assert list(nics(sys)) == ["eno1", "eno1v0"]


def test_this_machines_addresses_are_networks_with_a_prefix() -> None:
    import ipaddress

    for addresses in interface_addresses().values():
        for address in addresses:
            assert not ipaddress.ip_interface(address).ip.is_loopback
