"""The devices of a listed InfiniBand subnet: names, tiers, models, ports. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from clusterlab.formats.infiniband import IbNetwork, IbNode
from clusterlab.topology.importing.hca_names import (
    Adapter,
    SwitchName,
    read_adapter,
    read_switch,
    role_named,
    tier_named,
)
from clusterlab.topology.importing.ib_cables import Cable, Far
from clusterlab.topology.importing.tiers import tiers
from clusterlab.topology.parts import Device, DeviceKind

_MODELS = {
    "0x1003": "ConnectX-3",
    "0x1007": "ConnectX-3 Pro",
    "0x1011": "Connect-IB",
    "0x1013": "ConnectX-4",
    "0x1017": "ConnectX-5",
    "0x1019": "ConnectX-5 Ex",
    "0x101b": "ConnectX-6",
    "0x101d": "ConnectX-6 Dx",
    "0x1021": "ConnectX-7",
    "0x1023": "ConnectX-8",
    "0xa2d6": "BlueField-2",
    "0xa2dc": "BlueField-3",
}
"""Device numbers of vendor 15b3 (pci.ids); others keep their number."""

_AGGREGATION_PORT = (41, 65, 81, 129)
"""Port counts of Quantum switches that include the aggregation node's port: 40, 64, 80 and 128 cages."""

_NOT_A_NAME = re.compile(r"[\s#@:]+")


@dataclass(frozen=True)
class Descriptions:
    """What the nodes' descriptions say, by node id."""

    network: IbNetwork

    @cached_property
    def adapters(self) -> Mapping[str, Adapter]:
        """Channel adapters."""
        return {n.id: read_adapter(n.description) for n in self.network.nodes if n.kind == "ca"}

    @cached_property
    def switches(self) -> Mapping[str, SwitchName]:
        """Switches."""
        return {n.id: read_switch(n.description) for n in self.network.nodes if n.kind == "switch"}

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Node id → device name: what the description says, with the GUID where that is nothing or not
        one's own.
        """
        wanted = {n.id: self._wanted(n) for n in self.network.nodes}
        count = Counter(wanted.values())
        taken: set[str] = set()
        names = {}
        for node in self.network.nodes:
            name = wanted[node.id]
            if count[name] > 1:
                name = f"{name}.{node.guid or len(taken)}"
            while name in taken:
                name += "'"
            taken.add(name)
            names[node.id] = name
        return names

    def _wanted(self, node: IbNode) -> str:
        own = node.guid or clean(node.id)
        adapter, switch = self.adapters.get(node.id), self.switches.get(node.id)
        if adapter:
            if adapter.aggregation:
                return f"aggregation-{own}"
            if adapter.host is None:
                return f"hca-{own}"
            return f"{clean(adapter.host)}/{clean(adapter.device or 'hca')}"
        if switch and switch.name:
            board = f".{switch.board.replace('/', '.')}" if switch.board else ""
            return clean(switch.name) + board
        return f"{node.kind}-{own}"


def clean(name: str) -> str:
    """A name that can stand on a command line, where ``#``, ``@`` and ``:`` mean something."""
    return _NOT_A_NAME.sub("-", name)


def devices_of(
    said: Descriptions, cables: Iterable[Cable], far: Iterable[Far]
) -> tuple[Device, ...]:
    """A device for each node; nodes that are known from others only, and routers, are external."""
    cables, far = tuple(cables), tuple(far)
    aggregation = {n for n, a in said.adapters.items() if a.aggregation}
    aggregation |= {f.id for f in far if read_adapter(f.description).aggregation}
    inner_port = _aggregation_ports(aggregation, cables)
    hosts = (said.adapters.keys() | {f.id for f in far if f.kind == "ca"}) - aggregation
    kinds = _kinds(said, cables, hosts)
    return (
        *(_device(said, node, kinds, inner_port) for node in said.network.nodes),
        *(Device(f.id, "external", model=f.description or None) for f in far),
    )


def _kinds(said: Descriptions, cables: Iterable[Cable], hosts: set[str]) -> dict[str, DeviceKind]:
    """The tier of each switch."""
    neighbours: dict[str, set[str]] = {s: set() for s in said.switches}
    count: Counter[str] = Counter()
    for cable in cables:
        (a, _), (b, _) = cable.ends
        for one, other in ((a, b), (b, a)):
            if one in neighbours and other in neighbours:
                neighbours[one].add(other)
            elif one in neighbours and other in hosts:
                count[one] += 1
    named = {s: tier_named(name) for s, name in said.switches.items()}
    alike = {s: name.name and re.sub(r"\d+", "#", name.name) for s, name in said.switches.items()}
    return tiers(neighbours, count, named, alike)


def _device(
    said: Descriptions,
    node: IbNode,
    kinds: Mapping[str, DeviceKind],
    inner_port: Mapping[str, int],
) -> Device:
    name, adapter, switch = (
        said.names[node.id],
        said.adapters.get(node.id),
        said.switches.get(node.id),
    )
    if adapter is not None:
        return Device(
            name=name,
            kind="nic",
            host=None if adapter.host is None else clean(adapter.host),
            model=_model(node),
            role="aggregation" if adapter.aggregation else role_named(adapter.host or ""),
            ports=node.port_count,
            guid=_guid(node),
            interface=adapter.device,
        )
    if switch is not None:
        return Device(
            name=name,
            kind=kinds[node.id],
            model=switch.model,
            in_network=node.id in inner_port,
            ports=_cages(node, inner_port.get(node.id)),
            guid=_guid(node),
        )
    return Device(name, "external", model=node.description or node.kind, guid=_guid(node))


def _aggregation_ports(aggregation: set[str], cables: Iterable[Cable]) -> dict[str, int]:
    """Switch → the port its own aggregation node answers on."""
    found = {}
    for cable in cables:
        for (node, _), (switch, port) in (cable.ends, cable.ends[::-1]):
            if node in aggregation and switch not in aggregation:
                found[switch] = port
    return found


def _cages(node: IbNode, aggregation_port: int | None) -> int | None:
    """How many cables the switch takes: the aggregation node's port, always the last, takes none."""
    if node.port_count is None:
        return None
    inner = aggregation_port == node.port_count or node.port_count in _AGGREGATION_PORT
    return node.port_count - 1 if inner else node.port_count


def _guid(node: IbNode) -> str | None:
    return f"0x{node.guid}" if node.guid else None


def _model(node: IbNode) -> str | None:
    if node.device_id is None:
        return None
    return _MODELS.get(node.device_id.lower(), node.device_id)
