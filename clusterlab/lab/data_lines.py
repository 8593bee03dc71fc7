"""What makes a data network of interfaces: lines for ``ip -batch`` and ``tc -batch``. Plans, not actions.

A switch is a network namespace that forwards by its routes, one /32 for each NIC; a node's NICs are
its interfaces. Both ends of every wire are shaped by a token bucket (tbf) of what they may send.
"""

from __future__ import annotations

from clusterlab.lab.spec import NIC_NETWORK, nic_subnet
from clusterlab.lab.wires import DataNetwork, Entry, Nic, Port, Wire

MTU = 9000
"""Jumbo frames, as RoCE fabrics have: headers cost under 1 %, where 1500 bytes lose 4 %."""

_NIC_TABLE = 100
_SOURCE_TABLE = 200
_LAST_METRIC = 4_000_000

_LEAST_BURST = 80_000
"""A packet as the sender hands it over (64 KiB, GSO) must fit, or tbf cuts it up, which costs cores."""

_BURST_S = 0.005
"""What may pass at once, as time at the rate: more than a tick of the slowest kernel clock (HZ=250)."""

_QUEUE_S = 0.300
"""What a full queue holds, as time at the rate: deep enough that TCP loses nothing when many send to one
NIC, as networks of such clusters do not either (credits, PFC). With 12 ms an all_to_all took up to twice
its time, waiting for what was lost.
"""


def create(wire: Wire, low_pid: int, high_pid: int) -> list[str]:
    """Make a wire between the network namespaces of two processes."""
    return [
        f"link add {wire.low.name} netns {low_pid} mtu {MTU} type veth "
        f"peer name {wire.high.name} netns {high_pid} mtu {MTU}"
    ]


def delete(port: Port) -> list[str]:
    """Take a wire away, at the end where it is called so."""
    return [f"link delete {port.name}"]


def switch_start(network: DataNetwork, switch: str) -> list[str]:
    """A switch before it has wires: its address, and a table for each sender where these matter."""
    lines = ["link set lo up", f"address add {network.switches[switch]}/32 dev lo"]
    if network.by_source:
        for index, nic in enumerate(network.nics):
            lines.append(f"rule add from {nic.address} lookup {_SOURCE_TABLE + index}")
    return lines


def node_start(network: DataNetwork, node: str) -> list[str]:
    """A node whose wires were made just now: what has a NIC's address leaves by this NIC or not at all."""
    lines = []
    for nic in network.nics_of(node):
        table = _NIC_TABLE + nic.index
        lines += [
            f"address add {nic.address}/32 dev {nic.name}",
            f"rule add from {nic.address} lookup {table}",
            f"route add unreachable default metric {_LAST_METRIC} table {table}",
        ]
    return lines


def links(network: DataNetwork, host: str, present: set[str]) -> list[str]:
    """The interfaces of a node or switch up or down, for those of the ``present`` cables."""
    return [
        f"link set {port.name} {'up' if wire.up else 'down'}"
        for wire, port in network.wires_of(host)
        if wire.cable in present
    ]


def shapes(network: DataNetwork, host: str, present: set[str]) -> list[str]:
    """Lines for tc: what each interface of a node or switch may send."""
    return [
        f"qdisc replace dev {port.name} root tbf rate {port.bit_s}bit "
        f"burst {_burst(port.bit_s)} limit {_limit(port.bit_s)}"
        for wire, port in network.wires_of(host)
        if wire.cable in present and wire.up
    ]


def _burst(bit_s: int) -> int:
    return max(_LEAST_BURST, round(bit_s / 8 * _BURST_S))


def _limit(bit_s: int) -> int:
    return 2 * _burst(bit_s) + round(bit_s / 8 * _QUEUE_S)


def routes(network: DataNetwork, host: str, present: set[str]) -> list[str]:
    """Where a node or switch sends what; after ``links``, as a link that goes down takes its routes along."""
    live = {
        (port.host, port.name)
        for wire in network.wires
        for port in wire.ports
        if wire.up and wire.cable in present
    }
    if host in network.switches:
        index = {nic.address: i for i, nic in enumerate(network.nics)}
        mine = (entry for entry in network.entries if entry.switch == host)
        return [_entry(entry, index, there=(host, entry.port) in live) for entry in mine]
    lines = []
    for nic in network.nics_of(host):
        if (host, nic.name) in live:
            lines += _nic_routes(nic, network.switches[nic.leaf])
    return lines


def _entry(entry: Entry, index: dict[str, int], *, there: bool) -> str:
    table = f" table {_SOURCE_TABLE + index[entry.source]}" if entry.source else ""
    if not there:
        return f"route replace unreachable {entry.to}/32{table}"
    via = f" via {entry.via} onlink" if entry.via else ""
    return f"route replace {entry.to}/32{via} dev {entry.port}{table}"


def _nic_routes(nic: Nic, leaf: str) -> list[str]:
    """By the NIC's own table where a socket has its address; one without takes the rail it aims at."""
    way = f"via {leaf} dev {nic.name} onlink"
    return [
        f"route replace {NIC_NETWORK} {way} table {_NIC_TABLE + nic.index}",
        f"route replace {nic_subnet(nic.index)} {way} src {nic.address}",
    ]
