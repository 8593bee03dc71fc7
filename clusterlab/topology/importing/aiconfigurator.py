"""aiconfigurator's system data sheets as a fabric of one node: its GPUs and what joins them.

A sheet gives bandwidths per GPU, no wiring: the GPUs are put on one switch at ``intra_node_bw``. The other
bandwidths, and those between nodes, stay in ``facts``; how many NICs there are is not said.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import PurePath

from clusterlab.core.findings import Finding, Severity
from clusterlab.formats.aiconfigurator import SystemSheet, parse_aiconfigurator
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.importing.imported import Imported
from clusterlab.topology.parts import Device, Link

KIND = "aiconfigurator"

_SM_WITHOUT_NVLINK = {75: "Turing T4", 89: "Ada", 120: "RTX Blackwell", 121: "GB10"}
"""Compute capabilities whose data-centre and workstation cards join GPUs by PCIe only."""


def read_aiconfigurator(text: str, *, file: str) -> Imported:
    """GPUs ``n0/gpu0`` … on one switch. Raises UsageError naming file, line and field.

    The switch is an NVSwitch where a GPU gets more than its PCIe link carries, else a PCIe switch.
    """
    sheet = parse_aiconfigurator(text, file=file)
    switched = _beyond_pcie(sheet)
    hub = (
        Device("n0/nvswitch0", "nvswitch", host="n0")
        if switched
        else Device("n0/pcie0", "pcie_switch", host="n0")
    )
    gpus = [
        Device(f"n0/gpu{i}", "gpu", host="n0", model=sheet.name or None) for i in range(sheet.gpus)
    ]
    rate = sheet.GBps.get("intra_node")
    links = [
        Link(
            src,
            dst,
            "nvlink" if switched else "pcie",
            rate,
            wire_GBps=rate,
            GBps_source="" if rate is None else "aiconfigurator: intra_node_bw / 1e9",
            wire_source="" if rate is None else "aiconfigurator: intra_node_bw / 1e9",
        )
        for gpu in gpus
        for src, dst in ((gpu.name, hub.name), (hub.name, gpu.name))
    ]
    fabric = Fabric(
        name=sheet.name or PurePath(file).stem,
        devices=(*gpus, hub),
        links=tuple(links),
        description="aiconfigurator system data sheet: bandwidths only, no wiring",
        origin=file,
        digest=hashlib.sha256(text.encode()).hexdigest(),
    )
    facts = {
        "gpus_per_node": sheet.gpus,
        "gpus_per_rack": sheet.gpus_per_rack,
        "GBps_per_gpu": dict(sheet.GBps),
        "latency_us": dict(sheet.latency_us),
        "sm_version": sheet.sm_version,
        "gpu_memory_bytes": sheet.memory_bytes,
    }
    return Imported(KIND, fabric, tuple(_findings(sheet, file)), facts)


def _beyond_pcie(sheet: SystemSheet) -> bool:
    inside, pcie = sheet.GBps.get("intra_node"), sheet.GBps.get("pcie")
    return inside is None or pcie is None or inside > pcie


def _findings(sheet: SystemSheet, file: str) -> Iterator[Finding]:
    yield Finding(
        "wiring_assumed",
        Severity.INFO,
        (f"{file}: {sheet.gpus} GPUs on one switch; NICs and PCIe are not described",),
        "take the node's wiring from its topology (nvidia-smi topo -m, NCCL's XML) where it matters",
    )
    yield Finding(
        "data_sheet_rates",
        Severity.INFO,
        (f"{file}: bandwidths are those of data sheets: what the wire carries",),
        "expect less in software: NCCL gets 370 of an H100's 450 GB/s (NVIDIA/nccl#1442)",
    )
    if "intra_node" not in sheet.GBps:
        yield Finding(
            "bandwidth_not_given",
            Severity.WARNING,
            (f"{file}: no node.intra_node_bw",),
            "write it in B/s per GPU and direction; until then it stays unknown",
        )
    without = _SM_WITHOUT_NVLINK.get(sheet.sm_version or 0)
    if without and sheet.gpus > 1 and _beyond_pcie(sheet) and "intra_node" in sheet.GBps:
        yield Finding(
            "bandwidth_beyond_hardware",
            Severity.WARNING,
            (
                f"{file}: intra_node_bw is {sheet.GBps['intra_node']:g} GB/s, but GPUs of sm"
                f" {sheet.sm_version} ({without}) have no NVLink",
            ),
            "correct intra_node_bw: such GPUs reach each other at their PCIe rate",
        )
