"""The data network of a lab at work: switches are made, nodes wired to them, changes applied."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence

from clusterlab.core.errors import ClusterlabError
from clusterlab.lab import data_lines
from clusterlab.lab.commands import (
    in_network_of,
    module_environment,
    run_commands,
    run_ip,
    run_tc,
)
from clusterlab.lab.layout import Layout
from clusterlab.lab.namespaces import wait_for_network
from clusterlab.lab.processes import spawn
from clusterlab.lab.wires import DataNetwork, Wire

SWITCH_MARK = "clusterlab.lab.switch"
"""A word in the command line of the process that holds a switch, before the run directory and its name."""

_FORWARD = "echo 1 > /proc/sys/net/ipv4/ip_forward"
# rp_filter would drop what comes in by another rail than the answer leaves by.
_ANY_WAY = "for f in all default; do echo 0 > /proc/sys/net/ipv4/conf/$f/rp_filter; done"
# One TCP for all machines, the only one that every kernel has: BBR, some kernels' default, probes, and an
# all_to_all of 8 ranks takes 10 to 20 % longer. Not from the start again after a pause.
_STEADY = (
    "cd /proc/sys/net/ipv4; echo reno > tcp_congestion_control; echo 0 > tcp_slow_start_after_idle"
)
_HOLD = "echo $2 > /proc/sys/kernel/hostname; while :; do sleep 86400; done"


def read_data_network(layout: Layout) -> DataNetwork | None:
    """The data network of a lab with a fabric; None for another."""
    if not layout.network.exists():
        return None
    return DataNetwork.from_json(json.loads(layout.network.read_text(encoding="utf-8")))


class Switches:
    """The switches of a lab and the nodes that are wired to them, by the pids that hold their namespaces."""

    def __init__(self, layout: Layout, network: DataNetwork) -> None:
        self.layout = layout
        self.network = network
        self.pids: dict[str, int] = {}
        self.present: set[str] = set()

    def start(self) -> None:
        """Make the switches and the wires between them."""
        for name in self.network.switches:
            hold = ["sh", "-c", _HOLD, SWITCH_MARK, str(self.layout.run_dir), name]
            command = ["unshare", "--net", "--uts", *hold]
            pid = spawn(command, module_environment(), self.layout.log / "switches.log")
            self.pids[name] = pid
        for name, pid in self.pids.items():
            if not wait_for_network(pid, timeout_s=5):
                raise ClusterlabError(f"{name} got no network namespace", where=name)
            run_commands([in_network_of(pid, ["sh", "-c", f"{_FORWARD}; {_ANY_WAY}"])])
            run_ip(data_lines.switch_start(self.network, name), pid=pid)
        self._wire([w for w in self.network.wires if {p.host for p in w.ports} <= self.pids.keys()])
        for name in self.network.switches:
            self._configure(name)

    def attach(self, node: str, pid: int) -> None:
        """Wire a node that boots; its network namespace is that of ``pid``."""
        self.detach(node)
        self.pids[node] = pid
        self._wire([wire for wire, _ in self.network.wires_of(node)])
        run_commands([in_network_of(pid, ["sh", "-c", f"{_ANY_WAY}; {_STEADY}"])])
        run_ip(data_lines.node_start(self.network, node), pid=pid)
        for host in {node, *(nic.leaf for nic in self.network.nics_of(node))}:
            self._configure(host)

    def detach(self, node: str) -> None:
        """Forget a node that lost its power. Its wires go with its namespace, but only some time later."""
        self.pids.pop(node, None)
        for wire, _ in self.network.wires_of(node):
            if wire.cable in self.present:
                self.present.remove(wire.cable)
                with contextlib.suppress(ClusterlabError):
                    run_ip(data_lines.delete(wire.high), pid=self.pids[wire.high.host])

    def apply(self) -> None:
        """Take over what the file says now: other rates, other routes."""
        network = read_data_network(self.layout)
        if network is None:
            raise ClusterlabError("no data network", where=str(self.layout.network))
        self.network = network
        for host in self.pids:
            self._configure(host)

    def _wire(self, wires: Sequence[Wire]) -> None:
        lines: list[str] = []
        for wire in wires:
            lines += data_lines.create(wire, *(self.pids[port.host] for port in wire.ports))
        run_ip(lines)
        self.present |= {wire.cable for wire in wires}

    def _configure(self, host: str) -> None:
        pid, network, present = self.pids[host], self.network, self.present
        run_ip(data_lines.links(network, host, present), pid=pid)
        run_tc(data_lines.shapes(network, host, present), pid=pid)
        run_ip(data_lines.routes(network, host, present), pid=pid)
