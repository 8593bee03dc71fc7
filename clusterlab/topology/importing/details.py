"""What small listings add to a node: ``nvidia-smi nvlink -s`` its GPUs' model and the rate of their NVLinks.

Peer capabilities and port states stay in the part's facts and findings.
"""

from __future__ import annotations

import re
from dataclasses import replace

from clusterlab.core.findings import Finding, Severity
from clusterlab.formats.hostlist import fold_hosts
from clusterlab.formats.pci_names import compute_capability
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.importing.gpu_models import known
from clusterlab.topology.importing.imported import Imported
from clusterlab.topology.parts import Device, Link

_NUMBER = re.compile(r"(\d+)$")


def with_details(node: Fabric, detail: Imported) -> tuple[Fabric, list[Finding]]:
    """``node`` with what ``detail`` says of its links added, and where the two disagree."""
    if detail.kind != "nvlink_s":
        return node, []
    node, findings = _with_models(node, detail.fabric)
    measured = _nvlinks(detail.fabric)
    changes: dict[tuple[str, str], tuple[Link, ...]] = {}
    for gpu in node.of_kind("gpu"):
        known = measured.get(_key(gpu)) or measured.get(_position(gpu))
        if known is None:
            continue
        count, rate, source = known
        links = [x for x in node.links_from(gpu.name) if x.link_class == "nvlink"]
        there = sum(x.multiplicity for x in links)
        if there != count:
            findings.append(
                Finding(
                    code="nvlinks_inactive" if count < there else "nvlink_files_disagree",
                    severity=Severity.WARNING,
                    evidence=(
                        f"{gpu.name}: {count} active in {detail.fabric.origin}, "
                        f"{there} in {node.origin}",
                    ),
                    fix="look at `nvidia-smi nvlink -e` and the fabric manager's log",
                    links=tuple(x.name for x in links),
                )
            )
        for link in links:
            for src, dst in ((link.src, link.dst), (link.dst, link.src)):
                changes[src, dst] = tuple(
                    _with_rate(x, rate, source) for x in node.links_from(src) if x.dst == dst
                )
    return (node.with_links(changes) if changes else node), findings


def _with_models(node: Fabric, listing: Fabric) -> tuple[Fabric, list[Finding]]:
    """``node`` whose GPUs are called as ``listing`` does, where the node's file says less (nothing, sm_90).

    Where both name a GPU and they are of different generations, the node's file is kept. A listing of some
    GPUs (``-i 0``), all of one model, stands for the others.
    """
    named = {key: g.model for g in listing.of_kind("gpu") for key in (_key(g), _position(g))}
    only = next(iter(named.values()), None) if len(set(named.values())) == 1 else None
    models: dict[str, str] = {}
    other: list[str] = []
    alike: list[str] = []
    for gpu in node.of_kind("gpu"):
        model = named.get(_key(gpu)) or named.get(_position(gpu))
        if model is None:
            if only is not None and not known(gpu.model):
                models[gpu.name] = only
                alike.append(gpu.name)
            continue
        if gpu.model is None or not known(gpu.model):
            models[gpu.name] = model
        elif compute_capability(gpu.model) != compute_capability(model):
            other.append(f"{gpu.name}: {model} in {listing.origin}, {gpu.model} in {node.origin}")
        elif gpu.model.startswith("sm_"):
            models[gpu.name] = model
    findings = []
    if other:
        findings.append(
            Finding(
                code="gpu_models_disagree",
                severity=Severity.WARNING,
                evidence=tuple(other[:8]),
                fix=f"are both files of one host? {node.origin} was believed",
            )
        )
    if alike:
        findings.append(
            Finding(
                code="gpu_model_assumed",
                severity=Severity.INFO,
                evidence=(
                    f"{fold_hosts(alike)}: not in {listing.origin}, taken for {only} as well",
                ),
                fix="right where all GPUs of a host are alike; else give the whole `nvidia-smi nvlink -s`",
            )
        )
    if not models:
        return node, findings
    devices = tuple(
        replace(d, model=models[d.name]) if d.name in models else d for d in node.devices
    )
    return replace(node, devices=devices), findings


def _nvlinks(fabric: Fabric) -> dict[str, tuple[int, float, str]]:
    """GPU (by UUID and by number) → its active NVLinks, the rate of one, where that was read."""
    found = {}
    for gpu in fabric.of_kind("gpu"):
        links = [x for x in fabric.links_from(gpu.name) if x.link_class == "nvlink" and x.wire_GBps]
        if links:
            rate = links[0].wire_GBps or 0.0
            known = (sum(x.multiplicity for x in links), rate, links[0].wire_source)
            found[_key(gpu)] = found[_position(gpu)] = known
    return found


def _key(gpu: Device) -> str:
    return gpu.guid or gpu.name


def _position(gpu: Device) -> str:
    number = _NUMBER.search(gpu.name)
    return f"#{number.group(1)}" if number else gpu.name


def _with_rate(link: Link, rate: float, source: str) -> Link:
    """A NVLink with the rate that was read, which says more than a data sheet; as it was where that is less
    than what software gets.
    """
    if link.link_class != "nvlink" or (link.GBps is not None and link.GBps > rate):
        return link
    return replace(link, wire_GBps=rate, wire_source=source)
