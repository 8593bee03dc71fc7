"""The data network of a lab as plain data: wires between nodes and switches, their rates, who forwards where.

Made of a fabric by ``from_fabric.py``; the lab's own processes read it from a file, without numpy or YAML.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Port:
    """One end of a wire: interface ``name`` on ``host`` (a node or a switch), sending ``bit_s`` at most."""

    host: str
    name: str
    bit_s: int


@dataclass(frozen=True, slots=True)
class Wire:
    """A veth pair in place of the fabric's cable ``cable``. ``up``: any of its capacity is left."""

    cable: str
    low: Port
    high: Port
    up: bool

    @property
    def ports(self) -> tuple[Port, Port]:
        """Both ends."""
        return self.low, self.high


@dataclass(frozen=True, slots=True)
class Nic:
    """A NIC of a node: number ``index`` there, called ``name``, cabled to the switch ``leaf``."""

    node: str
    index: int
    name: str
    address: str
    leaf: str


@dataclass(frozen=True, slots=True)
class Entry:
    """At ``switch``, what is for NIC ``to`` leaves by ``port`` to the switch ``via`` (empty: to the NIC
    itself). An empty ``port``: no way leads there. ``source`` is the sending NIC, where the way
    depends on it. NICs are given by their address.
    """

    switch: str
    to: str
    port: str
    via: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class DataNetwork:
    """``switches`` have an address each. ``by_source``: switches forward by source and destination.
    ``gpu_nics``: the NIC (its ``name``) that each GPU of a node uses, in order.
    ``broken`` is what was taken down or degraded, as `topo break` writes it.
    """

    switches: Mapping[str, str]
    wires: tuple[Wire, ...]
    nics: tuple[Nic, ...]
    entries: tuple[Entry, ...]
    gpu_nics: Mapping[str, tuple[str, ...]]
    by_source: bool = False
    broken: tuple[str, ...] = ()

    def nics_of(self, node: str) -> list[Nic]:
        """The NICs of one node."""
        return [nic for nic in self.nics if nic.node == node]

    def wires_of(self, host: str) -> list[tuple[Wire, Port]]:
        """The wires of a node or switch, each with the end that is there."""
        return [(wire, port) for wire in self.wires for port in wire.ports if port.host == host]

    def to_json(self) -> dict[str, Any]:
        """Plain data that ``from_json`` reads back."""
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> DataNetwork:
        """The inverse of ``to_json``."""
        return DataNetwork(
            switches=dict(data["switches"]),
            wires=tuple(
                Wire(w["cable"], Port(**w["low"]), Port(**w["high"]), w["up"])
                for w in data["wires"]
            ),
            nics=tuple(Nic(**nic) for nic in data["nics"]),
            entries=tuple(Entry(**entry) for entry in data["entries"]),
            gpu_nics={node: tuple(names) for node, names in data["gpu_nics"].items()},
            by_source=data["by_source"],
            broken=tuple(data["broken"]),
        )
