"""``ibstat`` and ``ibstatus`` output as a fabric: one host's NICs, each port cabled to something outside.

What is at the other end is not in the file. A port that is not active is a link without capacity, and its
rate is not taken over: the tools print 10 or 40 for a port without a cable.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from clusterlab.core.findings import Finding, Severity
from clusterlab.formats import ibstat as format_
from clusterlab.formats.ibstat import RdmaDevice, RdmaPort, parse_ibstat
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.importing.imported import Imported
from clusterlab.topology.parts import Device, Link, LinkClass

KIND = "ibstat"

_HOST = "n0"
"""Neither tool names its host."""

_CLASSES: dict[str | None, LinkClass] = {"InfiniBand": "ib", "Ethernet": "ethernet"}


def recognise(text: str) -> bool:
    """Whether this is ibstat's or ibstatus's output."""
    return format_.recognise(text)


def read_ibstat(text: str, *, file: str) -> Imported:
    """The host's NICs with a link each port. Raises UsageError (``file:line``) where there is no device."""
    found = parse_ibstat(text, file=file)
    links: list[Link] = []
    for device in found:
        for port in device.ports:
            out = _link(device, port)
            links += [out, replace(out, src=out.dst, dst=out.src)]
    fabric = Fabric(
        name=PurePath(file).stem,
        devices=(
            *(_nic(d) for d in found),
            *(Device(_outside(d, p), "external") for d in found for p in d.ports),
        ),
        links=tuple(links),
        description=f"RDMA ports of one host ({len(found)} devices)",
        origin=file,
        digest=hashlib.sha256(text.encode(errors="replace")).hexdigest(),
    )
    findings = (*_down(found), *_mixed(found), *_cut(found, file))
    return Imported(KIND, fabric, findings, _facts(found))


def _nic(device: RdmaDevice) -> Device:
    return Device(
        name=f"{_HOST}/{device.name}",
        kind="nic",
        host=_HOST,
        model=device.model,
        ports=len(device.ports) or None,
        guid=f"0x{device.guid}" if device.guid else None,
        interface=device.name,
    )


def _outside(device: RdmaDevice, port: RdmaPort) -> str:
    return f"beyond-{device.name}-port{port.number}"


def _link(device: RdmaDevice, port: RdmaPort) -> Link:
    data, wire = _rates(port)
    source = f"ibstat: rate {port.rate_Gbps:g} Gb/s" if data is not None else ""
    coded = port.link_layer == "InfiniBand" and wire is not None and data != wire
    return Link(
        src=f"{_HOST}/{device.name}",
        dst=_outside(device, port),
        link_class=_CLASSES.get(port.link_layer, "network"),
        GBps=data,
        wire_GBps=wire,
        health=1.0 if port.active else 0.0,
        GBps_source=f"{source} after line coding" if coded else source,
        wire_source=source,
    )


def _rates(port: RdmaPort) -> tuple[float | None, float | None]:
    """GB/s of data and on the wire; (None, None) for a port that is not active.

    InfiniBand's printed rates up to 40 (QDR) are signalling rates of 8b/10b code and 56 is FDR's of
    64b/66b, while from 100 (EDR) on they are data rates; Ethernet's are data rates.
    """
    if not port.active or port.rate_Gbps is None:
        return None, None
    whole = port.rate_Gbps / 8
    if port.link_layer != "InfiniBand":
        return whole, whole
    if port.rate is not None:
        return port.rate.data_GBps, port.rate.wire_GBps
    if port.rate_Gbps in (2.5, 5, 10, 20, 40):
        return whole * 8 / 10, whole
    return (whole * 64 / 66, whole) if port.rate_Gbps in (14, 56) else (whole, whole)


def _ports(found: Iterable[RdmaDevice]) -> list[tuple[RdmaDevice, RdmaPort]]:
    return [(d, p) for d in found for p in d.ports]


def _said(device: RdmaDevice, port: RdmaPort) -> str:
    return f"{device.name} port {port.number}"


def _down(found: Sequence[RdmaDevice]) -> list[Finding]:
    down = [(d, p) for d, p in _ports(found) if p.state is not None and not p.active]
    if not down:
        return []
    waiting = any((p.physical or "").lower() == "linkup" for _, p in down)
    return [
        Finding(
            "port_down",
            Severity.WARNING,
            tuple(
                f"{_said(d, p)}: {p.state}"
                + (f", physical state {p.physical}" if p.physical else "")
                + (", its printed rate means nothing" if p.rate_Gbps is not None else "")
                for d, p in down
            ),
            "check the cable and the switch port; ports without a cable may stay down"
            + ("; LinkUp without Active waits for a subnet manager" if waiting else ""),
            links=tuple(f"{_HOST}/{d.name}/{_outside(d, p)}" for d, p in down),
        )
    ]


def _mixed(found: Sequence[RdmaDevice]) -> list[Finding]:
    """Active ports of one model and link layer that run at different rates."""
    alike: defaultdict[tuple[str | None, str | None], list[tuple[RdmaDevice, RdmaPort]]]
    alike = defaultdict(list)
    for device, port in _ports(found):
        if port.active and port.rate_Gbps is not None:
            alike[device.model, port.link_layer].append((device, port))
    findings = []
    for (model, layer), ports in alike.items():
        rates = Counter(p.rate_Gbps for _, p in ports)
        if len(rates) < 2:
            continue
        of_rate = [
            f"{rate:g} Gb/s: {', '.join(_said(d, p) for d, p in ports if p.rate_Gbps == rate)}"
            for rate in sorted(r for r in rates if r is not None)
        ]
        what = " ".join(filter(None, (model, layer))) or "RDMA"
        findings.append(
            Finding(
                "mixed_rates",
                Severity.WARNING if model else Severity.INFO,
                (f"{what} ports of one host run at different rates", *of_rate),
                "fine where they serve different networks; else check the slower ports' cables",
            )
        )
    return findings


def _cut(found: Sequence[RdmaDevice], file: str) -> list[Finding]:
    lines = [f"{file}:{d.line}: {d.name} has no port" for d in found if not d.ports]
    for device, port in _ports(found):
        lacking = [
            word
            for word, value in (
                ("state", port.state),
                ("rate", port.rate_Gbps),
                ("link layer", port.link_layer),
            )
            if value is None
        ]
        if lacking:
            lines.append(
                f"{file}:{port.line}: {_said(device, port)} has no {', no '.join(lacking)}"
            )
    if not lines:
        return []
    return [
        Finding(
            "incomplete_ports",
            Severity.WARNING,
            tuple(lines[:12]),
            "import the whole output; what is not stated stays unknown",
        )
    ]


def _facts(found: Sequence[RdmaDevice]) -> dict[str, Any]:
    return {
        "ports": [
            {
                "device": d.name,
                "port": p.number,
                "state": p.state,
                "link_layer": p.link_layer,
                "rate_Gbps": p.rate_Gbps if p.active else None,
            }
            for d, p in _ports(found)
        ]
    }
