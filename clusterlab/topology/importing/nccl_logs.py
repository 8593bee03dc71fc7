"""The system section of an NCCL log as a fabric; logs of nccl-tests are measurements and are refused.

NCCL prints the topology it detected with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=GRAPH (or ALL), every
rank its own host's. ``read_nccl_system`` reads that from any log, also from one that holds a table.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import PurePath
from typing import Any

from clusterlab.core.errors import UsageError
from clusterlab.core.findings import Finding, Severity
from clusterlab.formats.nccl_graph import PATTERNS
from clusterlab.formats.nccl_log import NcclLog, parse_nccl_log
from clusterlab.formats.nccl_log_system import SystemSection
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.importing.imported import Imported, NotAFabricError
from clusterlab.topology.importing.nccl_logs_host import NETWORK, LogHost
from clusterlab.topology.parts import Device

KIND = "nccl_logs"
_SHOWN = 16
_MAX_NODES = 20_000


def read_nccl_logs(text: str, *, file: str) -> Imported:
    """The fabric of a log that holds a system section and is not nccl-tests' output.

    Raises NotAFabricError (``measurements``) for nccl-tests tables, NCCL Inspector records and logs
    without a system section; its ``facts`` say what was counted.
    """
    log = parse_nccl_log(text, file=file)
    if log.tests.banner or not any(section.nodes for section in log.sections):
        raise NotAFabricError(
            _what_it_is(log),
            kind=KIND,
            refused="measurements",
            where=file,
            expected="a topology: a log of an application with NCCL's system section, or NCCL's XML",
            fix="NCCL_TOPO_DUMP_FILE=topo.xml writes the topology, with any application",
            facts=_counted(log),
        )
    return _fabric(log, text, file)


def read_nccl_system(text: str, *, file: str) -> Imported:
    """The fabric of the system sections in any log, whatever else it holds.

    Raises NotAFabricError when there is none.
    """
    log = parse_nccl_log(text, file=file)
    if not any(section.nodes for section in log.sections):
        raise NotAFabricError(
            _what_it_is(log),
            kind=KIND,
            refused="measurements",
            where=file,
            expected="NCCL's system section (=== System : …)",
            fix="run with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=GRAPH",
            facts=_counted(log),
        )
    return _fabric(log, text, file)


def _what_it_is(log: NcclLog) -> str:
    """The log in a few words, and what of NCCL's stands in it."""
    parts = []
    if log.tests.rows:
        parts.append(f"measurements: {len(log.tests.rows)} rows of nccl-tests")
    elif log.tests.banner:
        parts.append("an nccl-tests log without a whole row")
    if log.inspector_records:
        parts.append(f"measurements: {log.inspector_records} NCCL Inspector records")
    if not parts:
        parts.append("an NCCL log")
    for count, what in (
        (len(log.ranks), "ranks"),
        (len(log.graphs), "graphs"),
        (len(log.connections), "connections"),
        (len(log.sections), "system sections"),
    ):
        if count:
            parts.append(f"{count} {what}")
    return ", ".join(parts)


def _counted(log: NcclLog) -> dict[str, Any]:
    return {
        "table_rows": len(log.tests.rows),
        "headers": log.tests.headers,
        "inspector_records": log.inspector_records,
        "system_sections": len(log.sections),
        "ranks": len(log.ranks),
        "nccl_versions": list(log.versions),
    }


def _fabric(log: NcclLog, text: str, file: str) -> Imported:
    named = {section.first.host for section in log.sections if section.first.host is not None}
    hosts: dict[str, LogHost] = {}
    for host, section, system in _views(log.sections):
        hosts.setdefault(host, LogHost(host)).add(section, system)
    for host, found in hosts.items():
        if len(found.nodes) > _MAX_NODES:
            raise UsageError(
                f"{len(found.nodes)} nodes of host {host}",
                where=file,
                expected=f"at most {_MAX_NODES} in a system section",
            )
        found.assemble(log, host if host in named else None)
    devices = list({d.name: d for found in hosts.values() for d in found.devices.values()}.values())
    links = [link for found in hosts.values() for link in found.links]
    external = [Device(NETWORK, "external")] if any(link.dst == NETWORK for link in links) else []
    fabric = Fabric(
        name=PurePath(file).stem or KIND,
        devices=(*devices, *external),
        links=tuple(links),
        description="from the system section of an NCCL log",
        origin=file,
        digest=hashlib.sha256(text.encode("utf-8", "replace")).hexdigest(),
    )
    facts = {**_counted(log), "graphs": _graph_facts(log), "paths": _path_facts(log, hosts)}
    return Imported(KIND, fabric, _findings(log, hosts), facts)


def _views(sections: tuple[SystemSection, ...]) -> list[tuple[str, SystemSection, int]]:
    """Host name, section, and the host's number in it: whole sections where a host has one."""
    views = []
    for section in sections:
        systems = sorted({node.system for node in section.nodes})
        for system in systems:
            alone = len(systems) == 1
            host = section.first.host if alone and section.first.host else f"n{system}"
            views.append((host, section, system))
    whole = {host for host, section, _ in views if section.complete}
    return [view for view in views if view[1].complete or view[0] not in whole]


def _findings(log: NcclLog, hosts: dict[str, LogHost]) -> tuple[Finding, ...]:
    findings = []
    cut = [s for s in log.sections if not s.complete]
    if cut:
        lines = tuple(f"line {s.first.number}: no end of the section" for s in cut[:_SHOWN])
        findings.append(
            Finding(
                "section_cut_off",
                Severity.WARNING,
                lines,
                "devices may be missing: log each rank to its own file (NCCL_DEBUG_FILE=nccl.%h.%p)",
            )
        )
    unread = [n for s in log.sections for n in s.unread]
    if unread:
        findings.append(
            Finding(
                "lines_not_read",
                Severity.WARNING,
                tuple(f"line {n}" for n in unread[:_SHOWN]),
                "these lines of a system section are broken: log each rank to its own file",
            )
        )
    if any(s.first.host is None for s in log.sections):
        findings.append(
            Finding(
                "hosts_unnamed",
                Severity.INFO,
                ("the lines do not name their host: equal sections count as one host",),
                "keep NCCL's prefix host:pid:tid in the log",
            )
        )
    numa = [d for found in hosts.values() for d in found.devices.values() if d.kind == "cpu"]
    unknown = tuple(d.name for d in numa if d.numa is None)
    if unknown:
        findings.append(
            Finding(
                "numa_unknown",
                Severity.WARNING,
                unknown[:_SHOWN],
                "a VM or firmware hides the NUMA domain: NCCL cannot tell near CPUs from far ones",
            )
        )
    return tuple(findings)


def _graph_facts(log: NcclLog) -> list[dict[str, Any]]:
    """Each different result of the search once, with how many ranks printed it."""
    seen = Counter(
        (
            g.pattern,
            g.channels_declared,
            g.speed_intra_GBps,
            g.speed_inter_GBps,
            g.type_intra,
            g.type_inter,
        )
        for g in log.graphs
    )
    keys = (
        "pattern",
        "channels",
        "speed_intra_GBps",
        "speed_inter_GBps",
        "type_intra",
        "type_inter",
    )
    return [
        {**dict(zip(keys, row, strict=True)), "name": PATTERNS.get(row[0], ""), "printed": times}
        for row, times in seen.items()
    ]


def _path_facts(log: NcclLog, hosts: dict[str, LogHost]) -> dict[str, dict[str, str]]:
    """NCCL's path type between GPUs and ports, by device; for one host only, as keys are a host's."""
    if len(hosts) != 1:
        return {}
    (host,) = hosts.values()
    found: dict[str, dict[str, str]] = {}
    for path in log.paths:
        src, dst = host.names.get(path.src), host.names.get(path.dst)
        if src and dst and src != dst and path.src[0] in {"GPU", "NET"}:
            found.setdefault(src, {})[dst] = path.type
    return found
