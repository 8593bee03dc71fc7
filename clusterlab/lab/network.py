"""Which links join the hosts of a lab. Plans (lines for `ip -batch`), not actions. Pure.

One bridge in the lab's outer namespace, and a veth pair per node. Another fabric is another set of
the same four functions.
"""

from __future__ import annotations

from clusterlab.lab.spec import LabSpec, login_address, node_address, node_names

BRIDGE = "br0"
INTERFACE = "eth0"


def login_links() -> list[str]:
    """The login host's side: loopback and the bridge, whose address is the login host's."""
    return [
        "link set lo up",
        # No learning delay: the first packet of a node must pass at once.
        f"link add {BRIDGE} type bridge forward_delay 0",
        f"address add {login_address()}/24 dev {BRIDGE}",
        f"link set {BRIDGE} up",
    ]


def attach_links(spec: LabSpec, index: int, namespace_pid: int) -> list[str]:
    """Join node ``index``, whose network namespace is that of ``namespace_pid``, to the bridge."""
    port = f"veth-{node_names(spec)[index]}"
    return [
        f"link add {port} type veth peer name {INTERFACE} netns {namespace_pid}",
        f"link set {port} master {BRIDGE} up",
    ]


def detach_links(spec: LabSpec, index: int) -> list[str]:
    """Take node ``index`` off. Its pair goes with its namespace, but only some time later."""
    return [f"link delete veth-{node_names(spec)[index]}"]


def node_links(index: int) -> list[str]:
    """The node's side, once INTERFACE is there. PMIx clients reach their server over loopback."""
    return [
        "link set lo up",
        f"address add {node_address(index)}/24 dev {INTERFACE}",
        f"link set {INTERFACE} up",
    ]
