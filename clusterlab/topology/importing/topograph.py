"""Files of NVIDIA topograph as a fabric: models and provider answers of switches, hosts and GPUs."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any

from clusterlab.core.errors import UsageError
from clusterlab.core.findings import Finding, Severity
from clusterlab.formats.topograph import (
    ComputeNode,
    GraphNode,
    Model,
    NetworkGraph,
    parse_topograph,
)
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.importing.imported import Imported, NotAFabricError
from clusterlab.topology.importing.switch_tree import assemble_tree, localities
from clusterlab.topology.parts import Device, DeviceKind, Link

KIND = "topograph"

_TIERS: dict[int, DeviceKind] = {1: "leaf", 2: "spine", 3: "core"}


def read_topograph(text: str, *, file: str) -> Imported:
    """A model: hosts and switches; NetQ's compute nodes: GPUs; NetQ's graph: NICs, switches and cables.

    Raises UsageError naming file and line, NotAFabricError for service configurations and API payloads.
    """
    found = parse_topograph(text, file=file)
    if isinstance(found, str):
        raise NotAFabricError(
            f"a {found} of topograph: it holds no topology"
            if found.startswith("s")
            else f"an {found} of topograph: it asks for a topology",
            kind=KIND,
            where=file,
            expected="a model with switches and blocks, or a provider's answer",
            fix="import what topograph generates from it (topology.conf or topology.yaml)",
            facts={"holds": found},
        )
    if isinstance(found, Model):
        devices, links, findings, facts = _model(found, file)
    elif isinstance(found, NetworkGraph):
        devices, links, findings, facts = _graph(found, file)
    else:
        devices, links, findings, facts = _compute_nodes(found, file)
    fabric = Fabric(
        name=PurePath(file).stem,
        devices=tuple(devices),
        links=tuple(links),
        description="topograph",
        origin=file,
        digest=hashlib.sha256(text.encode()).hexdigest(),
    )
    return Imported(KIND, fabric, tuple(findings), facts)


_Parts = tuple[Iterable[Device], Iterable[Link], list[Finding], dict[str, Any]]


def _model(model: Model, file: str) -> _Parts:
    tree = assemble_tree(model.switches, file=file, extra_hosts=model.loose)
    findings = list(tree.findings)
    if model.loose:
        findings.append(
            Finding(
                "host_without_switch",
                Severity.WARNING,
                (f"{file}: {len(model.loose)} nodes stand under no switch: {model.loose[0]}, …",),
                "name the switch of their block",
            )
        )
    facts: dict[str, Any] = {"switches": len(model.switches)}
    if model.domains:
        facts["accelerator_domains"] = localities(model.domains)
    return tree.devices, tree.links, findings, facts


def _compute_nodes(nodes: tuple[ComputeNode, ...], file: str) -> _Parts:
    """GPUs by host. How they are joined is not said; that they share an NVLink domain is."""
    twice = [name for name, n in Counter(node.name for node in nodes).items() if n > 1]
    if twice:
        raise UsageError(
            f"two compute nodes are called {twice[0]!r}", where=file, expected="each name once"
        )
    devices = [
        Device(f"{node.name}/gpu{i}", "gpu", host=node.name)
        for node in nodes
        for i in range(len(node.gpus))
    ]
    domains: dict[str, list[str]] = {}
    for node in nodes:
        if node.domain:
            domains.setdefault(node.domain, []).append(node.name)
    return devices, (), [], {"compute_nodes": len(nodes), "accelerator_domains": domains}


def _graph(graph: NetworkGraph, file: str) -> _Parts:
    """Switches by tier; every interface of another node is a NIC of a host. LLDP, so Ethernet."""
    by_name = {node.name: node for node in graph.nodes}
    if len(by_name) < len(graph.nodes):
        name = Counter(n.name for n in graph.nodes).most_common(1)[0][0]
        raise UsageError(f"two nodes are called {name!r}", where=file, expected="each name once")
    devices: dict[str, Device] = {
        node.name: Device(node.name, _tier(node), role="compute")
        for node in graph.nodes
        if _is_switch(node)
    }
    cables: Counter[tuple[str, str]] = Counter()
    for link in graph.links:
        ends = []
        for name, interface in zip(link.nodes, link.interfaces, strict=True):
            if name not in devices:
                device = _interface(name, interface)
                devices.setdefault(device.name, device)
                name = device.name  # noqa: PLW2901  # from here on the end is the NIC
            ends.append(name)
        cables[ends[0], ends[1]] += 1
    seen = {d.host for d in devices.values()}
    silent = [n.name for n in graph.nodes if not _is_switch(n) and n.name not in seen]
    devices |= {name: Device(name, "host", host=name) for name in silent}
    links = [
        Link(src, dst, "ethernet", None, multiplicity=count)
        for (a, b), count in cables.items()
        if a != b
        for src, dst in ((a, b), (b, a))
    ]
    hosts = [n for n in graph.nodes if not _is_switch(n)]
    assumed = Counter(n.device_type or "unknown" for n in hosts)
    facts = {"nodes": len(graph.nodes), "cables": len(graph.links), "taken_as_hosts": dict(assumed)}
    return devices.values(), links, [], facts


def _is_switch(node: GraphNode) -> bool:
    return node.device_type == "switch"


def _tier(node: GraphNode) -> DeviceKind:
    return _TIERS.get(node.tier or 1, "core")


def _interface(host: str, interface: str) -> Device:
    if not interface:
        return Device(host, "host", host=host)
    return Device(f"{host}/{interface}", "nic", host=host, interface=interface)
