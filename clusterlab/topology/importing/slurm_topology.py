"""Slurm's topology.conf and topology.yaml as a fabric of hosts and switches.

Slurm knows nodes by name and which switch stands above which. A block, ring or torus is a locality, not
hardware: it is kept as a group of hosts (``host_groups``) and in ``facts``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from clusterlab.core.findings import Finding, Severity
from clusterlab.formats.slurm_topology import (
    SlurmTopology,
    parse_slurm_topology,
    recognise,
    recognise_yaml,
    template_line,
)
from clusterlab.formats.slurm_topology_yaml import parse_slurm_topology_yaml
from clusterlab.formats.switch_tree import Locality
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.host_groups import GroupKind, group_device
from clusterlab.topology.importing.imported import Imported, NotAFabricError
from clusterlab.topology.importing.switch_tree import aliases, assemble_tree, localities
from clusterlab.topology.parts import Device, Link

__all__ = ["KIND", "read_slurm_topology", "recognise"]

KIND = "slurm_topology"

_MAX_RING = 16
"""topology/ring takes at most this many nodes in a ring (topology.conf(5))."""


def read_slurm_topology(text: str, *, file: str) -> Imported:
    """Hosts and switches with links of unknown rate; blocks, rings and their sizes in ``facts``.

    Raises UsageError naming file and line, NotAFabricError for a template and for a file whose records
    are all commented out.
    """
    line = template_line(text)
    if line is not None:
        raise NotAFabricError(
            "a template, not a topology",
            kind=KIND,
            where=f"{file}:{line}",
            expected="the file that is made from it",
            fix="import what the template was rendered to",
        )
    if recognise_yaml(text):
        found = parse_slurm_topology_yaml(text, file=file)
    else:
        found = (parse_slurm_topology(text, file=file),)
        _refuse_empty(found[0], file)
    return _assemble(found, text, file)


def _refuse_empty(conf: SlurmTopology, file: str) -> None:
    if conf.kinds:
        return
    commented = f"; {conf.commented} are commented out" if conf.commented else ""
    raise NotAFabricError(
        f"no switch, block or ring is defined{commented}",
        kind=KIND,
        where=file,
        expected="SwitchName=, BlockName= or RingName= lines",
        facts={"commented_out": conf.commented, "block_sizes": list(conf.block_sizes)},
    )


def _assemble(found: Sequence[SlurmTopology], text: str, file: str) -> Imported:
    trees = [t for t in found if t.switches]
    devices: dict[str, Device] = {}
    links: dict[tuple[str, str], Link] = {}
    findings: list[Finding] = []
    for topology in found:
        tree = assemble_tree(
            topology.switches,
            file=file,
            extra_hosts=_grouped_hosts(topology),
            prefix=f"{topology.name}/" if len(trees) > 1 else "",
        )
        devices |= {d.name: d for d in tree.devices if d.name not in devices}
        links |= {(link.src, link.dst): link for link in tree.links}
        for group, members in _groups(topology, devices, several=len(found) > 1):
            devices[group.name] = group
            links |= {
                ends: Link(*ends, "network", None)
                for host in members
                for ends in ((host, group.name), (group.name, host))
            }
        findings += [*topology.findings, *tree.findings, *_blocks(topology, file)]
        findings += _rings(topology, file)
    hosts = [d for d in devices.values() if d.kind == "host"]
    switches = [d for d in devices.values() if d.kind != "host"]
    fabric = Fabric(
        name=PurePath(file).stem,
        devices=(*hosts, *switches),
        links=tuple(links.values()),
        description=_describe(found),
        origin=file,
        digest=hashlib.sha256(text.encode()).hexdigest(),
    )
    return Imported(KIND, fabric, tuple(findings), _facts(found))


def _grouped_hosts(topology: SlurmTopology) -> Iterable[str]:
    for group in (*topology.blocks, *topology.rings, *topology.toruses):
        yield from group.nodes


def _groups(
    topology: SlurmTopology, taken: Mapping[str, Device], *, several: bool
) -> Iterable[tuple[Device, tuple[str, ...]]]:
    """Each block, ring and torus as a device, under a name of its own, with its hosts."""
    kinds: tuple[tuple[GroupKind, Sequence[Locality]], ...] = (
        ("block", topology.blocks),
        ("ring", topology.rings),
        ("torus", topology.toruses),
    )
    for kind, groups in kinds:
        for group in groups:
            name = f"{topology.name}/{group.name}" if several else group.name
            if name in taken:
                name = f"{kind}:{name}"
            if name not in taken:  # a name that a broken file has twice
                sizes = topology.block_sizes if kind == "block" else ()
                yield group_device(name, kind, sizes), group.nodes


def _describe(found: Sequence[SlurmTopology]) -> str:
    kinds = ", ".join(dict.fromkeys(kind for t in found for kind in t.kinds))
    return f"Slurm topology ({kinds})"


def _facts(found: Sequence[SlurmTopology]) -> dict[str, Any]:
    """Plain data: how many of each, and the nodes of each as a hostlist."""
    blocks = [b for t in found for b in t.blocks]
    rings = [r for t in found for r in t.rings]
    facts: dict[str, Any] = {"topologies": len(found), "blocks": len(blocks), "rings": len(rings)}
    if any(t.name for t in found):
        facts["topology_kinds"] = {t.name: t.kinds[0] for t in found}
        facts["default"] = next((t.name for t in found if t.default), None)
    sizes = [list(t.block_sizes) for t in found if t.block_sizes]
    if sizes:
        facts["block_sizes"] = sizes[0] if len(sizes) == 1 else sizes
    for name, groups in (
        ("block_nodes", blocks),
        ("ring_nodes", rings),
        ("torus_nodes", [t for f in found for t in f.toruses]),
    ):
        if groups:
            facts[name] = localities(groups)
    if aliases(blocks):
        facts["block_aliases"] = aliases(blocks)
    return facts


def _blocks(topology: SlurmTopology, file: str) -> Iterable[Finding]:
    sizes = topology.block_sizes
    if topology.blocks and sizes:
        small = [b for b in topology.blocks if len(b.nodes) < sizes[0]]
        if small:
            yield Finding(
                "block_below_base_size",
                Severity.WARNING,
                tuple(
                    f"{file}:{b.line}: block {b.name} has {len(b.nodes)} nodes, the base size is {sizes[0]}"
                    for b in small
                ),
                "lower the base block size, or leave such blocks out: Slurm plans in whole base blocks",
            )
        wrong = [s for s in sizes[1:] if not _is_power_of_two_times(s, sizes[0])]
        if wrong:
            yield Finding(
                "block_sizes_not_powers",
                Severity.WARNING,
                (f"{file}: block sizes {', '.join(map(str, sizes))}",),
                "each size after the first is the first times a power of two (topology.conf(5))",
            )
    yield from _node_in_two_blocks(topology, file)


def _node_in_two_blocks(topology: SlurmTopology, file: str) -> Iterable[Finding]:
    seen: dict[str, str] = {}
    twice = [
        f"{file}:{block.line}: {node} is in {seen[node]} and {block.name}"
        for block in topology.blocks
        for node in block.nodes
        if seen.setdefault(node, block.name) != block.name
    ]
    if twice:
        yield Finding(
            "node_in_two_blocks", Severity.WARNING, tuple(twice[:8]), "name each node in one block"
        )


def _is_power_of_two_times(size: int, base: int) -> bool:
    ratio, rest = divmod(size, base) if base else (0, 1)
    return rest == 0 and ratio > 0 and ratio & (ratio - 1) == 0


def _rings(topology: SlurmTopology, file: str) -> Iterable[Finding]:
    long = [r for r in topology.rings if len(r.nodes) > _MAX_RING]
    if long:
        yield Finding(
            "ring_too_long",
            Severity.WARNING,
            tuple(f"{file}:{r.line}: ring {r.name} has {len(r.nodes)} nodes" for r in long),
            f"topology/ring takes at most {_MAX_RING} nodes in a ring",
        )
