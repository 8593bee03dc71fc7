"""hwloc's NVLink and xGMI matrices to links.

NVLinkBandwidth holds MB/s of all links of a pair: 20 GB/s a link for NVLink 1, 50 for NVLink 5, 25 for
those between (hwloc/topology-nvml.c), so the GPU's model tells how many links there are.
XGMIBandwidth of the ROCm SMI backend is 100,000 for every pair of a hive, whatever lies between
(hwloc/topology-rsmi.c): no rate, and not even that the pair is direct.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from clusterlab.core.findings import Finding, Severity
from clusterlab.formats.lstopo_xml import Lstopo, LstopoMatrix
from clusterlab.formats.smi_text import shortened
from clusterlab.topology.parts import Device, Link

NVLINK_SOURCE = "hwloc NVLinkBandwidth: MB/s of a pair / 1000, by links of the GPU's NVLink version"
XGMI_SOURCE = "hwloc XGMIBandwidth: MB/s of a pair / 1000, as AMD SMI says"
XGMI_CONSTANT_MBps = 100_000

_LINK_MBps = (
    ("P100", 20_000),
    ("B200", 50_000),
    ("B300", 50_000),
    ("B100", 50_000),
    *((model, 25_000) for model in ("V100", "A100", "A800", "H100", "H800", "H200", "GH200")),
)


@dataclass(frozen=True)
class AcceleratorLinks:
    """Links between GPUs, NVSwitches and cpus, and what is doubtful about them."""

    links: tuple[Link, ...]
    findings: tuple[Finding, ...]


def accelerator_links(parsed: Lstopo, devices: Mapping[int, Device]) -> AcceleratorLinks:
    """Links of both matrices. ``devices``: by gp_index; objects that are no device are left out."""
    links: list[Link] = []
    findings: list[Finding] = []
    far = _several_hops(parsed, devices)
    for matrix in parsed.matrices:
        if matrix.name == "NVLinkBandwidth":
            links += _nvlinks(matrix, devices)
        elif matrix.name == "XGMIBandwidth":
            pairs = [p for p in _pairs(matrix, devices) if (p[0].name, p[1].name) not in far]
            links += [_xgmi(a, b, value) for a, b, value in pairs]
            findings += _about_xgmi(pairs)
    findings += _about_switches(links, list(devices.values()))
    return AcceleratorLinks(tuple(links), tuple(findings))


def _pairs(
    matrix: LstopoMatrix, devices: Mapping[int, Device]
) -> Iterator[tuple[Device, Device, int]]:
    """Pairs of two devices with a value above 0."""
    size = len(matrix.objects)
    for place, value in enumerate(matrix.values):
        row, column = divmod(place, size)
        a, b = devices.get(matrix.objects[row]), devices.get(matrix.objects[column])
        if a is not None and b is not None and a.name != b.name and 0 < value < 10**9:
            yield a, b, value


def _nvlinks(matrix: LstopoMatrix, devices: Mapping[int, Device]) -> Iterator[Link]:
    for a, b, value in _pairs(matrix, devices):
        models = f"{a.model or ''} {b.model or ''}"
        each = next((rate for part, rate in _LINK_MBps if part in models), value)
        count = value // each if value % each == 0 else 1
        yield Link(
            a.name,
            b.name,
            "nvlink",
            GBps=None,
            multiplicity=count,
            wire_GBps=value / count / 1000,
            wire_source=NVLINK_SOURCE,
        )


def _xgmi(a: Device, b: Device, value: int) -> Link:
    known = value != XGMI_CONSTANT_MBps
    wire = value / 1000 if known else None
    source = XGMI_SOURCE if known else ""
    return Link(a.name, b.name, "xgmi", GBps=None, wire_GBps=wire, wire_source=source)


def _several_hops(parsed: Lstopo, devices: Mapping[int, Device]) -> set[tuple[str, str]]:
    """Pairs whose way over xGMI is longer than one link; the ROCm SMI backend says 1 for all (hwloc#775)."""
    return {
        (a.name, b.name)
        for matrix in parsed.matrices
        if matrix.name == "XGMIHops"
        for a, b, hops in _pairs(matrix, devices)
        if hops > 1
    }


def _about_xgmi(pairs: Sequence[tuple[Device, Device, int]]) -> Iterator[Finding]:
    constant = [
        f"{a.name}-{b.name}"
        for a, b, value in pairs
        if value == XGMI_CONSTANT_MBps and a.name < b.name
    ]
    if constant:
        yield Finding(
            "xgmi_rate_unknown",
            Severity.INFO,
            (f"{len(constant)} pairs at {XGMI_CONSTANT_MBps} MB/s", shortened(constant, 4)),
            "hwloc writes this constant for every pair of a hive: take rates and direct links from a "
            "design of the machine, or weights from rocm-smi --showtopoweight",
        )


def _about_switches(links: Sequence[Link], devices: Sequence[Device]) -> Iterator[Finding]:
    """GPUs on NVSwitches that no listed link joins: DGX-2 has such links, hwloc does not list them."""
    switches = {d.name for d in devices if d.kind == "nvswitch"}
    of: dict[str, frozenset[str]] = {}
    for link in links:
        if link.dst in switches and link.src not in switches:
            of[link.src] = of.get(link.src, frozenset()) | {link.dst}
    groups = list(dict.fromkeys(of.values()))
    apart = [g for g in groups if not any(g & other for other in groups if other != g)]
    joined = any(link.src in switches and link.dst in switches for link in links)
    if len(apart) > 1 and not joined:
        said = [f"{sum(g == s for s in of.values())} GPUs on {len(g)} NVSwitches" for g in apart]
        yield Finding(
            "nvswitch_groups_unjoined",
            Severity.WARNING,
            tuple(said),
            "hwloc lists no links between NVSwitches; on DGX-2 they join the two boards: use the design "
            "dgx-2 for predictions, or nvidia-smi topo -m",
        )
