"""``nvidia-smi nvlink -s`` to a fabric: each GPU's active links to a far end that the file does not name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from clusterlab.core.findings import Finding, Severity
from clusterlab.formats.nvlink_s import NvlinkGpu, parse_nvlink_s
from clusterlab.formats.smi_text import shortened
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.importing.imported import Imported
from clusterlab.topology.importing.pci_tree import both_ways
from clusterlab.topology.parts import Device, Link

HOST = "n0"
FAR_END = "far end unknown"
WIRE_SOURCE = "nvidia-smi nvlink -s: rate of one link per direction, coding included"

_LINKS_OF_MODEL = {
    "P100-SXM2": 4,
    "V100-SXM2": 6,
    "V100-SXM3": 6,
    "A100-SXM4": 12,
    "A800-SXM4": 8,
    "H800": 8,
    "H100 80GB HBM3": 18,
    "H200": 18,
    "B200": 18,
    "B300": 18,
}
"""NVLinks of a module, by a part of its name (NVIDIA's data sheets). PCIe and NVL cards depend on bridges."""


def read_nvlink_s(text: str, *, file: str) -> Imported:
    """The GPUs and their active NVLinks, each GPU's to its own external device. Raises UsageError."""
    gpus = parse_nvlink_s(text, file=file)
    devices: list[Device] = []
    links: list[Link] = []
    for gpu in gpus:
        name = f"{HOST}/gpu{gpu.index}"
        devices.append(Device(name, "gpu", host=HOST, model=gpu.model or None, guid=gpu.uuid))
        rates = Counter(rate for rate in gpu.links.values() if rate is not None)
        if not rates:
            continue
        devices.append(Device(f"{name}-nvlink", "external", host=HOST, model=FAR_END))
        for rate, count in rates.items():
            links += both_ways(
                name,
                f"{name}-nvlink",
                "nvlink",
                wire_GBps=rate,
                wire_source=WIRE_SOURCE,
                multiplicity=count,
            )
    fabric = Fabric(
        name=HOST,
        devices=tuple(devices),
        links=tuple(links),
        description=f"{len(gpus)} GPUs of one host with their NVLinks; far ends unknown",
        origin=file,
    )
    findings = tuple(finding for gpu in gpus for finding in _about(gpu))
    return Imported("nvlink_s", fabric, (*findings, *_unequal(gpus)), _facts(gpus))


def _facts(gpus: list[NvlinkGpu]) -> dict[str, object]:
    return {
        "nvlinks": {
            f"GPU{gpu.index}": {
                "active": sum(r is not None for r in gpu.links.values()),
                "inactive": sorted(k for k, r in gpu.links.items() if r is None),
                "at_least": max(gpu.links, default=-1) + 1 if gpu.elided else len(gpu.links),
                "elided": gpu.elided,
            }
            for gpu in gpus
        }
    }


def _about(gpu: NvlinkGpu) -> Iterator[Finding]:
    name = f"{HOST}/gpu{gpu.index}"
    inactive = sorted(k for k, rate in gpu.links.items() if rate is None)
    if inactive or gpu.all_inactive:
        said = f"links {shortened(list(map(str, inactive)))}" if inactive else "all links"
        yield Finding(
            "nvlink_inactive",
            Severity.WARNING,
            (f"{name}: {said} inactive",),
            "right where no bridge or peer is fitted; else check Fabric Manager, reseat, reset the GPU "
            "(nvidia-smi nvlink -e for its error counters)",
        )
    if gpu.elided:
        seen, top = len(gpu.links), max(gpu.links, default=-1) + 1
        yield Finding(
            "links_elided",
            Severity.WARNING,
            (f"{name}: lines cut out; {seen} links shown, at least {top} by the highest number",),
            "only the shown links are modelled; give the whole output of nvidia-smi nvlink -s",
        )
    if gpu.unreadable:
        yield Finding(
            "link_unreadable",
            Severity.WARNING,
            (f"{name}: lines {shortened(list(map(str, gpu.unreadable)))}",),
            "left out; give the output of nvidia-smi nvlink -s as printed",
        )
    if not gpu.elided and not gpu.all_inactive:
        yield from _missing(gpu, name)


def _missing(gpu: NvlinkGpu, name: str) -> Iterator[Finding]:
    """Fewer lines than the module has links: an incomplete copy, or links the driver does not see."""
    has = next((n for part, n in _LINKS_OF_MODEL.items() if part in gpu.model), 0)
    if len(gpu.links) + len(gpu.unreadable) < has:
        yield Finding(
            "links_missing",
            Severity.WARNING,
            (f"{name}: {len(gpu.links)} of the {has} links of a {gpu.model} listed",),
            "give the whole output of nvidia-smi nvlink -s; if it is whole, the GPU has lost links",
        )


def _unequal(gpus: list[NvlinkGpu]) -> Iterator[Finding]:
    """GPUs of one model with fewer active links than their siblings."""
    active = {g.index: sum(r is not None for r in g.links.values()) for g in gpus if not g.elided}
    for model in dict.fromkeys(g.model for g in gpus):
        counts = {g.index: active[g.index] for g in gpus if g.model == model and g.index in active}
        most = max(counts.values(), default=0)
        fewer = [f"{HOST}/gpu{i}: {n} of {most}" for i, n in counts.items() if n < most]
        if fewer:
            yield Finding(
                "nvlink_counts_uneven",
                Severity.WARNING,
                (shortened(fewer),),
                "these GPUs have lost links (or bridges differ): check nvidia-smi nvlink -e, reset them",
            )
