"""ASTRA-sim's network files as a fabric of GPUs, links and switches.

The simulator knows NPUs and dimensions, no hosts and no technologies. Dimension 0 is taken as the inside of a
host (class nvlink), further ones as the network between hosts (class network); a finding says so. Simulated
links carry what the file says, so it is their usable rate.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath

from clusterlab.core.errors import UsageError
from clusterlab.core.findings import Finding, Severity
from clusterlab.formats.astra_sim import (
    CableLine,
    Dimension,
    LinkList,
    LogicalDims,
    parse_astra_sim,
)
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.importing.imported import Imported, NotAFabricError
from clusterlab.topology.parts import Device, DeviceKind, Link, LinkClass

KIND = "astra_sim"

MAX_LINKS = 2_000_000

_LEAST_LATENCY_US = 0.01
"""No link between accelerators is faster; light covers 2 m in this time. Less is a slip of the unit."""

_TIERS: tuple[DeviceKind, ...] = ("leaf", "spine", "core")


def read_astra_sim(text: str, *, file: str) -> Imported:
    """GPUs named ``n0/gpu0``, links both ways with GB/s and µs.

    Raises UsageError naming file and line, NotAFabricError for logical dimensions without links.
    """
    found = parse_astra_sim(text, file=file)
    if isinstance(found, LogicalDims):
        raise NotAFabricError(
            "logical dimensions of an ns-3 run: sizes without links",
            kind=KIND,
            where=file,
            expected="a physical topology (nodes, switches and links)",
            facts={"npus_count": list(found.counts)},
        )
    if isinstance(found, LinkList):
        devices, links = _wired(found, file)
        findings = _link_list_findings(found, file)
        facts: dict[str, object] = {"format": "simai" if found.npus_per_server else "ns3"}
    else:
        devices, links = _dimensional(found, file)
        findings = _dimension_findings(found, file)
        facts = {
            "format": "analytical",
            "dimensions": [
                {"topology": d.shape, "npus": d.count, "GBps": d.GBps, "latency_us": d.latency_us}
                for d in found
            ],
        }
    fabric = Fabric(
        name=PurePath(file).stem,
        devices=tuple(devices),
        links=tuple(links),
        description="ASTRA-sim network",
        origin=file,
        digest=hashlib.sha256(text.encode()).hexdigest(),
    )
    return Imported(KIND, fabric, tuple(findings), facts)


def _dimensional(dimensions: Sequence[Dimension], file: str) -> tuple[list[Device], list[Link]]:
    """NPU i has coordinate i // (product of the counts before) % count in each dimension."""
    expected_links = sum(_links_of(d, math.prod(e.count for e in dimensions)) for d in dimensions)
    if expected_links > MAX_LINKS:
        raise UsageError(f"{expected_links} links", where=file, expected=f"at most {MAX_LINKS}")
    per_host = dimensions[0].count
    npus = math.prod(d.count for d in dimensions)
    gpus = [f"n{i // per_host}/gpu{i % per_host}" for i in range(npus)]
    devices = [Device(name, "gpu", host=name.partition("/")[0]) for name in gpus]
    links: list[Link] = []
    stride = 1
    for level, dimension in enumerate(dimensions):
        groups = [
            [gpus[base + offset + step * stride] for step in range(dimension.count)]
            for base in range(0, npus, stride * dimension.count)
            for offset in range(stride)
        ]
        for number, members in enumerate(groups):
            switch = _switch(level, number, members[0])
            if dimension.shape == "Switch":
                devices.append(switch)
            links += _both_ways(_pairs(dimension, members, switch.name), dimension, level)
        stride *= dimension.count
    return devices, links


def _links_of(dimension: Dimension, npus: int) -> int:
    n = dimension.count
    return npus * (n - 1 if dimension.shape == "FullyConnected" else 2)


def _switch(level: int, number: int, member: str) -> Device:
    if level == 0:
        host = member.partition("/")[0]
        return Device(f"{host}/nvswitch0", "nvswitch", host=host)
    return Device(f"dim{level}/switch{number}", "leaf")


def _pairs(dimension: Dimension, members: list[str], switch: str) -> Iterator[tuple[str, str]]:
    n = len(members)
    if dimension.shape == "Switch":
        yield from ((member, switch) for member in members)
    elif dimension.shape == "FullyConnected":
        yield from ((a, b) for i, a in enumerate(members) for b in members[i + 1 :])
    elif n > 1:
        # Two NPUs in a ring share one bidirectional link; astra-network-analytical makes no second one.
        yield from ((members[i], members[(i + 1) % n]) for i in range(n if n > 2 else 1))


def _both_ways(
    pairs: Iterable[tuple[str, str]], dimension: Dimension, level: int
) -> Iterator[Link]:
    link_class: LinkClass = "nvlink" if level == 0 else "network"
    for a, b in pairs:
        for src, dst in ((a, b), (b, a)):
            yield Link(
                src,
                dst,
                link_class,
                dimension.GBps,
                dimension.latency_us,
                GBps_source=""
                if dimension.GBps is None
                else "astra_sim: bandwidth (GB/s per link)",
                latency_source="" if dimension.latency_us is None else "astra_sim: latency / 1000",
            )


def _dimension_findings(dimensions: Sequence[Dimension], file: str) -> Iterator[Finding]:
    yield Finding(
        "technology_assumed",
        Severity.INFO,
        (
            f"{file}: dimension 0 ({dimensions[0].count} NPUs) is taken as the inside of one host,"
            " class nvlink; further dimensions as class network",
        ),
        "ASTRA-sim names neither hosts nor link technologies: correct them in the design if they matter",
    )
    for what, missing in (
        ("bandwidth", [i for i, d in enumerate(dimensions) if d.GBps is None]),
        ("latency", [i for i, d in enumerate(dimensions) if d.latency_us is None]),
    ):
        if missing:
            yield Finding(
                f"{what}_not_given",
                Severity.WARNING,
                tuple(f"{file}: no number for {what} of dimension {i}" for i in missing),
                f"write the {what} of each dimension; until then it stays unknown",
            )

    short = [
        f"{file}: {d.latency_us * 1000:g} ns in dimension {i}"
        for i, d in enumerate(dimensions)
        if d.latency_us is not None and 0 < d.latency_us < _LEAST_LATENCY_US
    ]
    if short:
        yield Finding(
            "latency_unit_suspect",
            Severity.WARNING,
            tuple(short),
            "latency is in ns; links between accelerators take hundreds: was µs meant?",
        )


def _wired(found: LinkList, file: str) -> tuple[list[Device], list[Link]]:
    kinds = _kinds(found)
    names = _names(found, kinds, file)
    devices = [
        Device(
            names[i],
            kinds[i],
            host=names[i].partition("/")[0] if kinds[i] in ("gpu", "nvswitch") else None,
            model=found.npu_model if kinds[i] == "gpu" else None,
        )
        for i in range(found.nodes)
    ]
    cables = Counter((c.src, c.dst, c.GBps, c.latency_us) for c in found.links)
    links = []
    for (a, b, GBps, latency_us), count in cables.items():
        inside = "nvswitch" in (kinds[a], kinds[b])
        for src, dst in ((a, b), (b, a)):
            links.append(
                Link(
                    names[src],
                    names[dst],
                    "nvlink" if inside else "network",
                    GBps,
                    latency_us,
                    multiplicity=count,
                    GBps_source="astra_sim: link rate / 8",
                    latency_source="astra_sim: link delay",
                )
            )
    return devices, links


def _kinds(found: LinkList) -> list[DeviceKind]:
    """GPUs, NVSwitches, and switches by their distance from the nearest GPU."""
    kinds: list[DeviceKind] = ["gpu"] * found.nodes
    for i in found.nvswitches:
        kinds[i] = "nvswitch"
    near: list[list[int]] = [[] for _ in range(found.nodes)]
    for cable in found.links:
        near[cable.src].append(cable.dst)
        near[cable.dst].append(cable.src)
    switches = set(found.switches)
    depth = {i: 0 for i in range(found.nodes) if i not in switches and kinds[i] == "gpu"}
    queue = deque(depth)
    while queue:
        here = queue.popleft()
        for there in near[here]:
            if there in switches and there not in depth:
                depth[there] = depth[here] + 1
                queue.append(there)
    for i in found.switches:
        kinds[i] = _TIERS[min(depth.get(i, 1), len(_TIERS)) - 1]
    return kinds


def _names(found: LinkList, kinds: Sequence[DeviceKind], file: str) -> list[str]:
    """GPUs in order on hosts; an NVSwitch on the host of its first GPU; switches by kind and number."""
    per_host = found.npus_per_server or 1
    names = [""] * found.nodes
    numbers: Counter[str] = Counter()
    for order, i in enumerate(i for i in range(found.nodes) if kinds[i] == "gpu"):
        names[i] = f"n{order // per_host}/gpu{order % per_host}"
    homes = _homes(found.links, kinds, names)
    for i in range(found.nodes):
        if kinds[i] == "nvswitch":
            if i not in homes:
                raise UsageError(
                    f"NVSwitch {i} is linked to no GPU", where=file, expected="links to GPUs"
                )
            names[i] = f"{homes[i]}/nvswitch{numbers[homes[i]]}"
            numbers[homes[i]] += 1
        elif not names[i]:
            names[i] = f"{kinds[i]}{numbers[kinds[i]]}"
            numbers[kinds[i]] += 1
    return names


def _homes(
    cables: Iterable[CableLine], kinds: Sequence[DeviceKind], names: Sequence[str]
) -> Mapping[int, str]:
    homes: dict[int, str] = {}
    for cable in cables:
        for one, other in ((cable.src, cable.dst), (cable.dst, cable.src)):
            if kinds[one] == "nvswitch" and kinds[other] == "gpu":
                homes.setdefault(one, names[other].partition("/")[0])
    return homes


def _link_list_findings(found: LinkList, file: str) -> Iterator[Finding]:
    if len(found.links) != found.declared_links:
        yield Finding(
            "link_count_differs",
            Severity.WARNING,
            (f"{file}: {len(found.links)} links, the first line says {found.declared_links}",),
            "the file may be cut off: write it again, or correct the first line",
        )
    lossy = [c for c in found.links if c.error_rate]
    if lossy:
        yield Finding(
            "lossy_links",
            Severity.INFO,
            tuple(f"{file}:{c.line}: error rate {c.error_rate:g}" for c in lossy[:8]),
            "error rates are not part of a fabric; they are left out",
        )
