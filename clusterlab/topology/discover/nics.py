"""NICs as /sys tells them: RDMA devices, and Ethernet functions without RDMA."""

from __future__ import annotations

import ipaddress
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from clusterlab.topology.discover.facts import NicFact, PortFact
from clusterlab.topology.discover.pci import bus_id_of
from clusterlab.topology.discover.sysfs import entries, read_name, read_number, read_text, real_path

Addresses = Callable[[], Mapping[str, Sequence[str]]]
"""Interface name → its addresses with prefix length (``10.0.1.7/24``)."""

_ETHERNET = 1  # ARPHRD_ETHER, in class/net/*/type
_RATE = re.compile(r"([0-9]{1,5}(?:\.[0-9]+)?) Gb/sec")
_GUID = re.compile(r"[0-9a-f]{16}")


def interface_addresses() -> Mapping[str, Sequence[str]]:
    """This process's interfaces and their IP networks, link-local ones left out."""
    import psutil

    found: dict[str, list[str]] = {}
    for name, addresses in psutil.net_if_addrs().items():
        for one in addresses:
            try:
                place = ipaddress.ip_interface(f"{one.address.split('%')[0]}/{_bits(one.netmask)}")
            except ValueError:  # a hardware address, or one without a mask
                continue
            if not (place.is_link_local or place.is_loopback):
                found.setdefault(name, []).append(str(place))
    return found


def _bits(netmask: str | None) -> str:
    """A mask as ip_interface takes it: IPv6 wants the number of bits."""
    if netmask and ":" in netmask:
        return str(int(ipaddress.IPv6Address(netmask)).bit_count())
    return netmask or "?"


def read_nics(
    sys: Path, notes: list[str], addresses: Addresses | None = None
) -> tuple[NicFact, ...]:
    """The NICs by name, RDMA devices first. What is passed over is said in ``notes``."""
    known = addresses() if addresses else {}
    on_function = _interfaces_by_function(sys)
    rdma = []
    for folder in entries(sys / "class/infiniband"):
        bus_id = bus_id_of(folder / "device")
        if bus_id is None:
            notes.append(f"{folder.name}: an RDMA device in software or not on PCI, left out")
            continue
        rdma.append(_rdma_device(folder, bus_id, on_function.get(bus_id, []), known))
    taken = {nic.bus_id for nic in rdma}
    plain = [
        _ethernet(folders, bus_id, known)
        for bus_id, folders in on_function.items()
        if bus_id not in taken and not _is_guests(folders[0], on_function)
    ]
    return (*rdma, *plain)


def _rdma_device(
    folder: Path, bus_id: str, interfaces: Sequence[Path], known: Mapping[str, Sequence[str]]
) -> NicFact:
    ports = [
        _port(port, int(port.name), interfaces, known)
        for port in entries(folder / "ports", "[0-9]*")
        if port.name.isascii() and port.name.isdigit()
    ]
    guid = (read_text(folder / "node_guid") or "").replace(":", "").lower()
    return NicFact(
        folder.name,
        bus_id,
        rdma=True,
        guid=guid if _GUID.fullmatch(guid) and guid.strip("0") else None,
        model=read_name(folder / "hca_type") or read_name(folder / "board_id"),
        ports=tuple(ports),
    )


def _port(
    port: Path, number: int, interfaces: Sequence[Path], known: Mapping[str, Sequence[str]]
) -> PortFact:
    layer = _layer(read_text(port / "link_layer"))
    rate = _RATE.match(read_text(port / "rate") or "")
    state = read_text(port / "state")
    names = _port_interfaces(port, number, interfaces)
    prefix = (read_text(port / "gids/0") or "").replace(":", "")[:16].lower()
    fabric = layer == "infiniband" and _GUID.fullmatch(prefix) and prefix.strip("0")
    return PortFact(
        number,
        up="ACTIVE" in state if state else None,
        # a port that is down prints a rate that means nothing (10 or 40 Gb/s)
        rate_Gbps=(float(rate.group(1)) or None) if rate and state and "ACTIVE" in state else None,
        layer=layer,
        interfaces=tuple(names),
        subnets=_subnets(names, known),
        gid_prefix=prefix if fabric else None,
    )


def _port_interfaces(port: Path, number: int, interfaces: Sequence[Path]) -> list[str]:
    """The port's network interfaces: what its GID table names (a bond, when it is in one), then its own."""
    named = {read_name(file) for file in entries(port / "gid_attrs/ndevs")[:256]}
    own = [
        folder.name
        for folder in interfaces
        if (read_number(folder / "dev_port") or 0) == number - 1 or len(interfaces) == 1
    ]
    return list(dict.fromkeys([*sorted(name for name in named if name), *own]))


def _layer(text: str | None) -> Literal["infiniband", "ethernet"] | None:
    match text:
        case "InfiniBand":
            return "infiniband"
        case "Ethernet":
            return "ethernet"
    return None


def _subnets(names: Sequence[str], known: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    networks = [
        str(ipaddress.ip_interface(address).network)
        for name in names
        for address in known.get(name, ())
    ]
    return tuple(dict.fromkeys(networks))


def _interfaces_by_function(sys: Path) -> dict[str, list[Path]]:
    """PCI function → its network interfaces; virtual ones, wireless and IPoIB left out."""
    found: defaultdict[str, list[Path]] = defaultdict(list)
    for folder in entries(sys / "class/net"):
        bus_id = bus_id_of(folder / "device")
        wireless = (folder / "wireless").exists() or (folder / "phy80211").exists()
        if bus_id and not wireless and read_number(folder / "type") in (_ETHERNET, None):
            found[bus_id].append(folder)
    return dict(found)


def _is_guests(folder: Path, functions: Mapping[str, object]) -> bool:
    """A virtual function whose physical one has an interface here: made for a guest, not a NIC more."""
    physical = real_path(folder / "device/physfn")
    return physical is not None and physical.name in functions


def _ethernet(folders: Sequence[Path], bus_id: str, known: Mapping[str, Sequence[str]]) -> NicFact:
    ports = []
    for number, folder in enumerate(folders, start=1):
        state, speed = read_text(folder / "operstate"), read_number(folder / "speed")
        ports.append(
            PortFact(
                number,
                up=None if state in (None, "unknown") else state == "up",
                rate_Gbps=speed / 1000 if speed and speed > 0 else None,  # Mb/s; -1: not known
                layer="ethernet",
                interfaces=(folder.name,),
                subnets=_subnets([folder.name], known),
            )
        )
    return NicFact(folders[0].name, bus_id, rdma=False, ports=tuple(ports))
