"""Figures that are unknown and that a prediction would need. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from clusterlab.core.findings import Finding, Severity
from clusterlab.topology.checks.evidence import bounded
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.failures.faults import connection_name
from clusterlab.topology.host_groups import host_groups
from clusterlab.topology.shapes import counted_links

_COUNTED = {
    "nvlink": "NVLinks as NCCL does for that GPU",
    "xgmi": "xGMI as RCCL does, 36 GB/s",
    "c2c": "C2C as 450 GB/s",
    "pcie": "PCIe as Gen3 x16, 12 GB/s",
    "upi": "the link between CPUs as NCCL does for their vendor",
    "memory": "memory as the host's calibration has it",
}
"""What predictions take for a link of unknown rate: cost/nccl/graphs/rates.py."""
_PORT = "a NIC's cable by the NIC's model (10 Gb/s where that says nothing)"
_ABOVE = "cables between switches as no limit"
_BY_WIRE = "the usual share of a wire rate where that is known"


def _counted(kinds: Iterable[tuple[str, str, str]], *, by_wire: bool) -> str:
    said = [
        _COUNTED.get(link_class, _PORT if "nic" in ends else _ABOVE) for link_class, *ends in kinds
    ]
    return ", ".join(dict.fromkeys([*said, *([_BY_WIRE] if by_wire else [])]))


def unknown(fabric: Fabric) -> list[Finding]:
    """Links without a bandwidth. Predictions count some of them as NCCL does where it reads nothing, which
    may be far off, and the rest as no limit. One line for each class of link and kinds of its ends.
    """
    counts: Counter[tuple[str, str, str]] = Counter()
    example: dict[tuple[str, str, str], str] = {}
    blind: dict[tuple[str, str, str], None] = {}  # their signalling rate is unknown as well
    groups = {group.name for group in host_groups(fabric)}  # joined to hosts by no cable
    for link, times, host in counted_links(fabric):
        if link.GBps is not None or link.src in groups or link.dst in groups:
            continue
        ends = [f"{host}/{end}" if host else end for end in (link.src, link.dst)]
        kinds = sorted(fabric.device(end).kind for end in ends)
        key = (link.link_class, kinds[0], kinds[1])
        # Both directions of a cable are links; a loop (memory) is one.
        counts[key] += link.multiplicity * times * (2 if link.src == link.dst else 1)
        example.setdefault(key, connection_name(*ends))
        if link.wire_GBps is None:
            blind.setdefault(key)
    if not counts:
        return []
    lines = [
        f"{count // 2 or 1} {link_class} links between {a} and {b}, such as {example[link_class, a, b]}"
        for (link_class, a, b), count in counts.items()
    ]
    return [
        Finding(
            code="unknown_bandwidth",
            severity=Severity.INFO,
            evidence=bounded(lines),
            fix=f"predictions count {_counted(blind, by_wire=len(blind) < len(counts))}"
            + ("; a bound that they decide is not given" if blind else "")
            + ". Where traffic crosses them give GBps with its source, or measure it (`clusterlab bench`)",
        )
    ]
