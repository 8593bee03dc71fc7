"""PCI functions and NUMA domains of made-up /sys trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterlab.topology.discover.pci import (
    bus_id_of,
    bus_order,
    of_classes,
    pci_path,
    read_pci,
    sysfs_address,
    with_bridges,
)
from clusterlab.topology.host import numa_domains
from tests.topology.discover.trees import Sys


@pytest.mark.parametrize(
    ("nvml", "sys"),
    [
        ("00000000:1B:00.0", "0000:1b:00.0"),
        ("00010000:1B:00.0", "10000:1b:00.0"),
        ("0009:01:00.0", "0009:01:00.0"),
        ("FFFFFFFF:FF:FF.0", None),
        ("fffffff:ffff:ff", None),
        ("", None),
        ("N/A", None),
    ],
)
def test_nvmls_bus_id_is_spelled_as_in_sys(nvml: str, sys: str | None) -> None:
    assert sysfs_address(nvml) == sys


def test_a_path_begins_at_the_last_root_complex_and_ends_at_the_function(tmp_path: Path) -> None:
    folder = tmp_path / "devices/LNXSYSTM:00/VMBUS:01/pci10000:e1/10000:e1:00.0/virtio2"
    folder.mkdir(parents=True)
    link = tmp_path / "device"
    link.symlink_to(folder)
    assert pci_path(link) == ("pci10000:e1", "10000:e1:00.0")
    assert bus_id_of(link) == "10000:e1:00.0"
    assert pci_path(tmp_path / "none") == ()
    link.unlink()
    link.symlink_to(link)  # a loop
    assert bus_id_of(link) is None


def test_a_function_tells_its_links_speed_now_and_at_most(tmp_path: Path) -> None:
    sys = Sys(tmp_path)
    bus_id = sys.gpu(
        "pci0000:10/0000:10:01.0/0000:11:00.0", numa=1, speed="16 GT/s", now=("2.5 GT/s PCIe", 8)
    )
    fact = read_pci(sys.root, bus_id)
    assert fact.path == ("pci0000:10", "0000:10:01.0", "0000:11:00.0")
    assert (fact.pci_class, fact.vendor, fact.numa) == (0x030200, 0x10DE, 1)
    assert (fact.speed_GTps, fact.max_speed_GTps, fact.width, fact.max_width) == (2.5, 16.0, 8, 16)


@pytest.mark.parametrize("lanes", [0, 63, 255])
def test_a_width_that_means_unknown_is_none(tmp_path: Path, lanes: int) -> None:
    sys = Sys(tmp_path)
    bus_id = sys.gpu("pci0000:00/0000:00:06.0", width=lanes, now=("Unknown", lanes))
    fact = read_pci(sys.root, bus_id)
    assert (fact.width, fact.max_width, fact.speed_GTps) == (None, None, None)


def test_a_virtual_function_is_told_by_its_link_to_the_physical_one(tmp_path: Path) -> None:
    sys = Sys(tmp_path)
    sys.pci("pci0000:10/0000:10:01.0/0000:11:00.0")
    virtual = sys.pci("pci0000:10/0000:10:01.0/0000:11:00.2")
    folder = sys.root / "devices/pci0000:10/0000:10:01.0"
    (folder / virtual / "physfn").symlink_to(folder / "0000:11:00.0")
    assert read_pci(sys.root, virtual).is_virtual
    assert not read_pci(sys.root, "0000:11:00.0").is_virtual


def test_gpus_are_found_by_vendor_and_class_in_bus_order(tmp_path: Path) -> None:
    sys = Sys(tmp_path)
    for path in ("pci10000:00/10000:00:01.0", "pci0000:90/0000:90:00.0", "pci0000:10/0000:10:00.0"):
        sys.gpu(path)
    sys.pci("pci0000:10/0000:10:00.1", pci_class="0x040300", vendor="0x10de")  # its audio
    sys.pci("pci0000:20/0000:20:00.0", pci_class="0x030000", vendor="0x1a03")  # a BMC's display
    found = of_classes(sys.root, 0x10DE, (0x0300, 0x0302))
    assert found == ["0000:10:00.0", "0000:90:00.0", "10000:00:01.0"]
    assert sorted(found, key=bus_order) == found


def test_bridges_come_along_once(tmp_path: Path) -> None:
    sys = Sys(tmp_path)
    ends = [sys.gpu(f"pci0000:10/0000:10:01.0/0000:11:00.{i}") for i in (0, 1)]
    assert [fact.bus_id for fact in with_bridges(sys.root, ends)] == ["0000:10:01.0", *ends]
    assert with_bridges(sys.root, ["0000:77:00.0"])[0].path == ()


def test_numa_domains_are_those_with_cores(tmp_path: Path) -> None:
    sys = Sys(tmp_path)
    sys.numa(0, "0-3", kB=1000)
    sys.numa(1, "4-7")
    sys.numa(2, "")
    sys.write("devices/system/node/node3/cpulist", "0-99999999999")
    domains = numa_domains(sys.root)
    assert [(d.index, d.cores) for d in domains] == [(0, (0, 1, 2, 3)), (1, (4, 5, 6, 7))]
    assert domains[0].memory_bytes == 1024000
    assert numa_domains(tmp_path / "none") == ()
