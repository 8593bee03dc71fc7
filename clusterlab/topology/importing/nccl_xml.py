"""NCCL's and RCCL's topology XML as a fabric: one host (several, where NCCL fused them over NVLink).

A PCI device of GPU or NIC class without ``<gpu>`` or ``<net>`` (static cloud files) is a device too:
NCCL fills it in when it runs. A network port leads to the external device ``network``.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import PurePath
from typing import Any

from clusterlab.core.errors import UsageError
from clusterlab.formats import nccl_graph, nccl_xml
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.importing.imported import Imported, NotAFabricError
from clusterlab.topology.importing.nccl_xml_findings import Evidence
from clusterlab.topology.importing.nccl_xml_host import NETWORK, HostParts
from clusterlab.topology.parts import Device

KIND = "nccl_xml"


MAX_GPUS = 576
"""NCCL_TOPO_MAX_NODES (NCCL's src/graph/topo.h): an NVLink domain of 576 is the largest it takes."""


def read_nccl_xml(text: str, *, file: str) -> Imported:
    """The fabric of a topology file. Raises NotAFabricError for a graph file, UsageError for other text.

    GBps are what NCCL counts: its PCIe table, its NVLink and xGMI constants, ports at their speed.
    """
    if nccl_graph.recognise(text):
        raise _graph_refused(text, file)
    gpus = text.count("<gpu")
    if gpus > MAX_GPUS:
        raise UsageError(
            f"{gpus} GPUs", where=file, expected=f"at most {MAX_GPUS}, as many as NCCL holds"
        )
    system = nccl_xml.parse_nccl_xml(text, file=file)
    evidence = Evidence()
    hashes = dict.fromkeys(cpu.host_hash for cpu in system.cpus)
    shared = len(hashes) > 1
    hosts = [
        HostParts(f"n{i}", [c for c in system.cpus if c.host_hash == h], shared, evidence)
        for i, h in enumerate(hashes)
    ]
    for host in hosts:
        host.build(file)
    devices = [d for host in hosts for d in host.all_devices()]
    switches = {d.name: d for host in hosts for d in host.nvswitches.values()}
    links = [link for host in hosts for link in host.links]
    external = [Device(NETWORK, "external")] if any(link.dst == NETWORK for link in links) else []
    _file_findings(system, evidence)
    fabric = Fabric(
        name=PurePath(file).stem or KIND,
        devices=(*devices, *switches.values(), *external),
        links=tuple(links),
        description="from an NCCL topology file"
        if system.version != 2
        else "from an RCCL topology file",
        origin=file,
        digest=hashlib.sha256(text.encode("utf-8", "replace")).hexdigest(),
    )
    facts: dict[str, Any] = {"xml_version": system.version}
    for host in hosts:
        for key, value in host.facts.items():
            facts.setdefault(key, {}).update(value)
    if filled := facts.get("filled_in_by_nccl"):
        kinds = Counter(fabric.device(name).kind for name in filled)
        for kind, count in kinds.items():
            evidence.add("filled_in_by_nccl", f"{count} PCI devices, here of kind {kind}")
    return Imported(KIND, fabric, evidence.findings(), facts)


def _graph_refused(text: str, file: str) -> NotAFabricError:
    graphs = nccl_graph.parse_nccl_graph(text, file=file)
    channels = sum(len(graph.channels) for graph in graphs)
    return NotAFabricError(
        f"NCCL's graph file: {len(graphs)} results of its search with {channels} channels, which name "
        "GPUs in order but no links",
        kind=KIND,
        where=file,
        expected="a topology file (root <system>)",
        fix="NCCL_TOPO_DUMP_FILE=topo.xml writes the topology the search ran on",
        facts={"graphs": len(graphs), "channels": channels},
    )


def _file_findings(system: nccl_xml.NcclSystem, evidence: Evidence) -> None:
    for what in system.unreadable:
        evidence.add("nccl_reader_refuses", what)
    if system.version == 2:
        evidence.add("rccl_topology", "version 2, which RCCL writes and NCCL refuses")
