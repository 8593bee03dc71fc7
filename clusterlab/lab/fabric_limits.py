"""Which fabrics a lab can stand for, and what to say of the others. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from clusterlab.core.errors import UsageError
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.failures.faults import as_wired
from clusterlab.topology.parts import SWITCH_KINDS, Link
from clusterlab.topology.routing.network import Network, network_of
from clusterlab.topology.routing.path_types import nic_of

MOST_HOSTS = 16
MOST_GPUS = 64
MOST_NICS = 64
MOST_SWITCHES = 48
MOST_CABLES = 256

MOST_GBPS = 0.4
"""All NICs together. Measured on two busy cores: 8 NICs of 0.05 GB/s, paths of four links, 8 ranks: rings
carry 0.98 of the NICs' rate. One flow alone over two links of any rate gets 0.7 GB/s there.
"""

_INTERFACE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,14}")
"""What Linux takes for an interface's name (IFNAMSIZ), and what is plain in a file name."""

_SMALLER = "take a lab-… design of `clusterlab topo list`, or one of your own as small"


def check_can_be_a_lab(fabric: Fabric) -> None:
    """Raise UsageError for the first thing that keeps ``fabric`` from being a lab."""
    where = f"fabric {fabric.name}"
    for what, count, most in _counts(fabric):
        if count > most:
            raise UsageError(
                f"{count} {what}", where=where, expected=f"at most {most} in a lab", fix=_SMALLER
            )
    network = network_of(fabric)
    cables = len(network.low)
    if cables > MOST_CABLES:
        raise UsageError(
            f"{cables} cables", where=where, expected=f"at most {MOST_CABLES}", fix=_SMALLER
        )
    _check_hosts(fabric, where)
    _check_end_points(fabric, network, where)
    _check_rates(fabric, network, where)


def _counts(fabric: Fabric) -> Iterator[tuple[str, int, int]]:
    per_host = [len(fabric.on_host(host, "gpu")) for host in fabric.hosts[:1]]
    gpus = len(fabric.hosts) * sum(per_host)
    yield f"hosts ({gpus} GPUs)", len(fabric.hosts), MOST_HOSTS
    yield "GPUs", len(fabric.of_kind("gpu")), MOST_GPUS
    yield "NICs", len(fabric.of_kind("nic")), MOST_NICS
    switches = sum(d.kind in SWITCH_KINDS for d in fabric.network_devices)
    yield "switches", switches, MOST_SWITCHES


def _check_hosts(fabric: Fabric, where: str) -> None:
    names = tuple(f"n{i}" for i in range(len(fabric.hosts)))
    if fabric.hosts != names:
        raise UsageError(
            f"hosts called {_some(fabric.hosts)}",
            where=where,
            expected=f"{_some(names)}: the names of a lab's nodes",
        )
    shapes = {host: _shape(fabric, host) for host in fabric.hosts}
    first = shapes[names[0]]
    for host, shape in shapes.items():
        if shape != first:
            raise UsageError(
                f"{host} has other GPUs, CPUs or NICs than {names[0]}",
                where=where,
                expected="equal hosts: Slurm's nodes of a lab are",
            )
    if not first["gpu"]:
        raise UsageError("hosts without GPUs", where=where, expected="a GPU for each rank")
    for name in first["nic"]:
        if not _INTERFACE.fullmatch(name):
            raise UsageError(
                f"a NIC called {name!r}",
                where=where,
                expected="a name that Linux takes for an interface: at most 15 letters and digits",
            )


def _shape(fabric: Fabric, host: str) -> dict[str, list[str]]:
    kinds = ("gpu", "cpu", "nic")
    devices = fabric.on_host(host)
    return {k: [d.name.partition("/")[2] for d in devices if d.kind == k] for k in kinds}


def _check_end_points(fabric: Fabric, network: Network, where: str) -> None:
    for node in range(network.switches, len(network.nodes)):
        name = network.nodes[node]
        device = fabric.device(name)
        if device.kind != "nic" or device.host is None:
            raise UsageError(
                f"{name} on a switch is not a host's NIC", where=where, expected="NICs only"
            )
        if len(network.at(node)) > 1:
            raise UsageError(
                f"{name} has {len(network.at(node))} cables",
                where=where,
                expected="one for each NIC",
            )
    wired = as_wired(fabric)
    for host in fabric.hosts:
        if not any(nic.name in network.index for nic in fabric.on_host(host, "nic")):
            raise UsageError(f"{host} has no NIC on a switch", where=where)
        for gpu in fabric.on_host(host, "gpu"):
            if nic_of(wired, gpu.name) is None:
                raise UsageError(
                    f"{gpu.name} reaches no NIC", where=where, expected="PCIe links from GPU to NIC"
                )
    switches = set(network.nodes[: network.switches])
    direct = [k for k in fabric.network_links if switches.isdisjoint((k.src, k.dst))]
    if direct:
        raise UsageError(
            f"{direct[0].name} joins hosts without a switch",
            where=where,
            expected="cables to switches",
        )


def _check_rates(fabric: Fabric, network: Network, where: str) -> None:
    for link in network.links:
        if link.wire_GBps is None and link.GBps is None:
            raise UsageError(
                f"the rate of {link.name} is unknown", where=where, expected="GBps of every cable"
            )
    leaving = [k for k in network.links if fabric.host_of(k.src) is not None]
    total = sum(map(_GBps, leaving))
    if total > MOST_GBPS:
        raise UsageError(
            f"its NICs carry {total:g} GB/s together ({len(leaving)} of up to "
            f"{max(map(_GBps, leaving)):g})",
            where=where,
            expected=f"at most {MOST_GBPS:g}: the machine's cores move every byte",
            fix=_SMALLER,
        )


def _GBps(link: Link) -> float:
    return (link.wire_GBps or link.GBps or 0.0) * link.multiplicity


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
