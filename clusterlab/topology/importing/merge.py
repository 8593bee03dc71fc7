"""Parts to one fabric: a node (what is inside a host), the network (who hangs where), placement (Slurm).

The node's file describes one host and stands for all; the network's file gives every host's NICs and
their cables; Slurm's file says which hosts belong to the cluster, in which order, and is compared with
the cables. Nothing is matched by order: a NIC of the node and one of the network are the same when their
GUID or their name on the host says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from clusterlab.core.errors import UsageError
from clusterlab.core.findings import Finding, Severity
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.importing.details import with_details
from clusterlab.topology.importing.imported import Imported
from clusterlab.topology.importing.placement import disagreements, on_slurm_switches
from clusterlab.topology.importing.stamp import stamp
from clusterlab.topology.parts import SWITCH_KINDS, Device

_DETAILS = ("nvlink_s", "topo_p2p", "ibstat")
_NODE_RANK = ("discover", "nccl_xml", "lstopo_xml", "nccl_logs", "topo_m", "rocm_smi")
"""Which of two descriptions of one host is taken: the one that knows more of its PCI tree first."""


@dataclass(frozen=True)
class _Parts:
    nodes: tuple[Imported, ...]
    details: tuple[Imported, ...]
    networks: tuple[Imported, ...]
    placements: tuple[Imported, ...]


def merge(parts: Sequence[Imported]) -> Imported:
    """One fabric of all parts. Raises UsageError for parts that cannot belong to one cluster."""
    sorted_parts = _sorted(parts)
    if len(sorted_parts.networks) > 1 or len(sorted_parts.placements) > 1:
        twice = sorted_parts.networks if len(sorted_parts.networks) > 1 else sorted_parts.placements
        raise UsageError(
            "two files of the same part: " + ", ".join(p.fabric.origin for p in twice),
            expected="one network, one placement and one node (or several nodes alone)",
        )
    findings = [f for part in parts for f in part.findings]
    node, more = _node(sorted_parts)
    findings += more
    fabric, more = _joined(node, sorted_parts)
    return Imported(
        kind="merged",
        fabric=fabric,
        findings=(*findings, *more),
        facts=_facts(parts),
    )


def _sorted(parts: Sequence[Imported]) -> _Parts:
    nodes: list[Imported] = []
    details: list[Imported] = []
    networks: list[Imported] = []
    placements: list[Imported] = []
    for part in parts:
        kinds = {d.kind for d in part.fabric.devices}
        if part.kind in _DETAILS:
            details.append(part)
        elif kinds & set(SWITCH_KINDS):
            (placements if "host" in kinds else networks).append(part)
        elif "gpu" in kinds or "nic" in kinds:
            nodes.append(part)
        else:
            placements.append(part)
    return _Parts(tuple(nodes), tuple(details), tuple(networks), tuple(placements))


def _node(parts: _Parts) -> tuple[Fabric | None, list[Finding]]:
    """The hosts' insides, enriched by what the detail files add."""
    if not parts.nodes:
        if parts.details:
            raise UsageError(
                "details of a node without the node: "
                + ", ".join(p.fabric.origin for p in parts.details),
                expected="its NCCL XML or nvidia-smi topo -m as well",
            )
        return None, []
    hosts = [h for p in parts.nodes for h in p.fabric.hosts]
    if len(set(hosts)) == len(hosts) and len(parts.nodes) > 1 and not parts.networks:
        fabric = _side_by_side([p.fabric for p in parts.nodes])
        findings: list[Finding] = []
    else:
        fabric, findings = _best(parts.nodes)
    for detail in parts.details:
        fabric, more = with_details(fabric, detail)
        findings += more
    return fabric, findings


def _side_by_side(fabrics: Sequence[Fabric]) -> Fabric:
    devices = [d for f in fabrics for d in f.devices]
    taken: set[str] = set()
    kept: list[Device] = []
    for d in devices:  # what stands outside the hosts may be named in each file
        if d.name not in taken:
            kept.append(d)
        taken.add(d.name)
    return Fabric(
        name="merged",
        devices=tuple(kept),
        links=tuple(link for f in fabrics for link in f.links),
        origin=_origins(fabrics),
    )


def _best(nodes: Sequence[Imported]) -> tuple[Fabric, list[Finding]]:
    """Several descriptions of one host: the richest, and a finding where another counts differently."""
    best = min(nodes, key=lambda p: (*_NODE_RANK, p.kind).index(p.kind))
    count = len(best.fabric.of_kind("gpu"))
    findings = [
        Finding(
            code="node_files_disagree",
            severity=Severity.WARNING,
            evidence=(
                f"{best.fabric.origin}: {count} GPUs",
                f"{part.fabric.origin}: {len(part.fabric.of_kind('gpu'))} GPUs",
            ),
            fix=f"give one file per kind of node; {best.fabric.origin} was taken",
        )
        for part in nodes
        if len(part.fabric.of_kind("gpu")) != count
    ]
    return best.fabric, findings


def _joined(node: Fabric | None, parts: _Parts) -> tuple[Fabric, list[Finding]]:
    network = parts.networks[0].fabric if parts.networks else None
    placement = parts.placements[0].fabric if parts.placements else None
    if network is not None:
        members = None if placement is None else placement.hosts
        fabric, findings = stamp(node, network, members) if node is not None else (network, [])
        if placement is not None:
            findings = [*findings, *disagreements(network, placement)]
        return fabric, findings
    if placement is not None:
        return (placement, []) if node is None else on_slurm_switches(node, placement)
    if node is None:
        raise UsageError("nothing to merge", expected="a node, a network or a placement")
    return node, []


def _facts(parts: Sequence[Imported]) -> dict[str, Any]:
    return {
        "parts": [{"kind": p.kind, "file": p.fabric.origin, "facts": dict(p.facts)} for p in parts]
    }


def _origins(fabrics: Sequence[Fabric]) -> str:
    return " + ".join(f.origin for f in fabrics if f.origin)
