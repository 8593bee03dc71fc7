"""The parts of all ranks as one record. Pure.

Ranks of one node may see different GPUs of it (NVML in a device cgroup) or know different things of the
same GPU (a UUID that only its owner may read): a node is what all of its ranks know together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from clusterlab.binding.records import GpuRecord, JoinedRecord, NodeRecord, join_records


def join_parts(parts: Sequence[JoinedRecord], missing: Sequence[int] = ()) -> JoinedRecord:
    """One record of the ranks' parts. ``missing``: ranks that were waited for and did not come."""
    if not parts:
        return JoinedRecord(missing_ranks=tuple(missing))
    seen: dict[str, list[NodeRecord]] = {}
    for part in parts:
        for host, node in part.nodes.items():
            seen.setdefault(host, []).append(node)
    known = {host: _merged(nodes) for host, nodes in seen.items()}
    whole = [replace(part, nodes={h: known[h] for h in part.nodes}) for part in parts]
    whole[0] = replace(whole[0], missing_ranks=tuple(missing))
    return join_records(whole)


def _merged(nodes: Sequence[NodeRecord]) -> NodeRecord:
    """The node by what each rank on it saw; the first where they cannot differ."""
    first = nodes[0]
    if all(node.gpus == first.gpus for node in nodes):
        return replace(first, numa=_domains(nodes))
    gpus: dict[str, GpuRecord] = {}
    for node in nodes:
        for gpu in node.gpus:
            known = gpus.get(gpu.pci, gpu)
            gpus[gpu.pci] = replace(
                known, uuid=known.uuid or gpu.uuid, model=known.model or gpu.model
            )
    order = sorted(gpus)
    fullest = max(nodes, key=lambda node: len(node.gpus))
    return replace(
        fullest,
        gpus=tuple(replace(gpus[pci], index=i) for i, pci in enumerate(order)),
        numa=_domains(nodes),
    )


def _domains(nodes: Sequence[NodeRecord]) -> dict[int, frozenset[int]]:
    """The domains, unless they do not account for some rank's CPUs: then none are known."""
    return dict(nodes[0].numa) if all(node.numa for node in nodes) else {}
