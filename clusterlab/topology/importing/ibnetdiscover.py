"""``ibnetdiscover`` output as a fabric: hosts' NICs, leaves, spines and cores, with rails and faults.

Whose a NIC is comes from its node description, a switch's tier and a leaf's rail from the cables. A link's
GB/s is what its width and speed carry after line coding; what software gets of it is less (NCCL: 46–48 of
50 on NDR), and latency is not in the file.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from clusterlab.core.findings import Finding, Severity
from clusterlab.formats import ibnetdiscover as format_
from clusterlab.formats.ibnetdiscover import parse_ibnetdiscover
from clusterlab.formats.infiniband import IbNetwork, IbNode, Rate
from clusterlab.topology.capacity import most_oversubscribed_leaf, worst_leaf
from clusterlab.topology.checks.cabling import cabling
from clusterlab.topology.checks.isolated import isolated_leaves
from clusterlab.topology.checks.rail_leaves import empty_leaves
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.importing.ib_cables import Cable, cables_of, reading_findings, shortened
from clusterlab.topology.importing.ib_devices import Descriptions, devices_of
from clusterlab.topology.importing.imported import Imported
from clusterlab.topology.parts import Link
from clusterlab.topology.rails.infer import infer_rails, with_rails

KIND = "ibnetdiscover"


def recognise(text: str) -> bool:
    """Whether this is ibnetdiscover's output in one of its forms."""
    return format_.recognise(text)


def read_ibnetdiscover(text: str, *, file: str) -> Imported:
    """The subnet as a fabric, with what is wrong with its cabling. Raises UsageError (``file:line``)
    where there is no node to read.
    """
    network = parse_ibnetdiscover(text, file=file)
    said = Descriptions(network)
    cables, far, findings = cables_of(network, said.names)
    names = {**said.names, **{f.id: f.id for f in far}}
    fabric = with_rails(
        Fabric(
            name=PurePath(file).stem,
            devices=devices_of(said, cables, far),
            links=tuple(_links(cables, names)),
            description=f"InfiniBand subnet of {len(network.nodes)} nodes (ibnetdiscover)",
            origin=file,
            digest=hashlib.sha256(text.encode(errors="replace")).hexdigest(),
        )
    )
    fabric = _with_compute_role(fabric)
    every = (
        *reading_findings(network),
        *findings,
        *_same_names(said),
        *_no_links(network, cables, file),
        *isolated_leaves(fabric),
        *cabling(fabric),
    )
    return Imported(KIND, fabric, every, _facts(fabric))


def _links(cables: Sequence[Cable], names: Mapping[str, str]) -> Iterable[Link]:
    """Both directions of each connection; parallel cables of one rate are one link."""
    found: defaultdict[tuple[str, str, Rate | None], list[tuple[int, int]]] = defaultdict(list)
    for cable in cables:
        (a, p), (b, q) = cable.ends
        found[names[a], names[b], cable.rate].append((p, q))
    for (a, b, rate), ports in found.items():
        ports.sort()
        source = f"ibnetdiscover: {rate.name}" if rate else ""
        link = Link(
            src=a,
            dst=b,
            link_class="ib",
            GBps=rate.data_GBps if rate else None,
            multiplicity=len(ports),
            wire_GBps=rate.wire_GBps if rate else None,
            GBps_source=f"{source} after line coding" if source else "",
            wire_source=source,
            ports=tuple(p for p, _ in ports),
        )
        yield link
        yield replace(link, src=b, dst=a, ports=tuple(q for _, q in ports))


def _with_compute_role(fabric: Fabric) -> Fabric:
    """Hosts that are on every rail compute, unless their name says otherwise."""
    compute = infer_rails(fabric).hosts
    rails = fabric.memo["inferred rails"]
    changed = replace(
        fabric,
        devices=tuple(
            replace(d, role="compute") if d.role is None and d.host in compute else d
            for d in fabric.devices
        ),
    )
    changed.memo["inferred rails"] = rails
    return changed


def _same_names(said: Descriptions) -> list[Finding]:
    """Two adapters of one host and device; with ``-p`` the ports of one adapter are told apart."""
    by_name: defaultdict[tuple[str, str | None], list[IbNode]] = defaultdict(list)
    for node in said.network.nodes:
        adapter = said.adapters.get(node.id)
        if adapter is not None and adapter.host is not None:
            by_name[adapter.host, adapter.device].append(node)
    alike = []
    for (host, device), nodes in by_name.items():
        numbers = [p.number for n in nodes for p in n.ports]
        if len(nodes) > 1 and (said.network.style != "ports" or len(set(numbers)) < len(numbers)):
            guids = ", ".join(n.guid or n.id for n in nodes[:4])
            alike.append(f"{host} {device or ''}".strip() + f": {len(nodes)} adapters ({guids})")
    if not alike:
        return []
    return [
        Finding(
            "adapters_share_a_name",
            Severity.WARNING,
            shortened(alike),
            "set each host's node description (rdma-ndd) so that ports can be told apart",
        )
    ]


def _no_links(network: IbNetwork, cables: Sequence[Cable], file: str) -> list[Finding]:
    if cables:
        return []
    return [
        Finding(
            "no_links",
            Severity.WARNING,
            (f"{file}: {len(network.nodes)} nodes, none of them cabled to another",),
            "import the output of ibnetdiscover without -l, -H or -S",
        )
    ]


def _facts(fabric: Fabric) -> dict[str, Any]:
    rails = infer_rails(fabric)
    leaves = len(fabric.of_kind("leaf"))
    facts: dict[str, Any] = {
        "rails": rails.count if any(d.host for d in fabric.of_kind("nic")) else None,
        "leaves": leaves,
        "spines": len(fabric.of_kind("spine")),
        "cores": len(fabric.of_kind("core")),
        "aggregation_nodes": sum(d.role == "aggregation" for d in fabric.of_kind("nic")),
        "ports_without_host": sum(
            d.host is None and d.role != "aggregation" for d in fabric.of_kind("nic")
        ),
    }
    if rails.groups:
        facts["racks"] = len(rails.groups)
        facts["leaves_expected"] = (
            leaves + len(rails.missing_leaves()) - len(empty_leaves(fabric, rails))
        )
    for fact, leaf in (
        ("worst_leaf", worst_leaf(fabric)),
        ("most_oversubscribed_leaf", most_oversubscribed_leaf(fabric)),
    ):
        if leaf is not None:
            facts[fact] = {
                "name": leaf.name,
                "down": leaf.down.links,
                "up": leaf.up.links,
                "down_GBps": leaf.down.GBps,
                "up_GBps": leaf.up.GBps,
            }
    return facts
