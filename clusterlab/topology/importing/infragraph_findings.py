"""What an InfraGraph file leaves out, contradicts, or says in a suspicious unit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from clusterlab.core.findings import Finding, Severity
from clusterlab.formats.infragraph_model import Infrastructure, LinkType
from clusterlab.topology.importing.infragraph_blueprint import Notes
from clusterlab.topology.importing.infragraph_roles import named_class

_SHOWN = 8
_FASTEST_PORT_GBps = 200.0
"""A port of 1.6 Tb/s, the fastest Ethernet and InfiniBand there is."""

_GIGABITS = re.compile(r"(\d+(?:\.\d+)?)\s*(?:Gbps|Gb/s|Gbit/s|gbps|gpbs)\b")


def untrusted_links(source: Infrastructure) -> frozenset[LinkType]:
    """Links whose bandwidth in gigabytes the file's own text gives in gigabits: one of them is wrong."""
    return frozenset(link for link, _ in _contradictions(source))


def findings_of(
    source: Infrastructure, notes: Notes, used: set[LinkType], file: str
) -> tuple[Finding, ...]:
    """All findings, worst first."""
    return tuple(
        finding
        for found in (
            _unit_findings(source, used, file),
            _missing(notes, file),
            _rates(used, file),
        )
        for finding in found
    )


def _contradictions(source: Infrastructure) -> Iterator[tuple[LinkType, str]]:
    """(link, the words that contradict it)."""
    holders = [(source.links, source.description)]
    holders += [(t.links, t.description) for t in source.templates]
    for links, description in holders:
        for link in links:
            if link.GBps is None or "byte" not in link.unit.lower():
                continue
            words = f"{link.name} {link.description} {description}"
            for match in _GIGABITS.finditer(words):
                if float(match[1]) == link.GBps:
                    yield link, match[0]
                    break


def _unit_findings(source: Infrastructure, used: set[LinkType], file: str) -> Iterator[Finding]:
    contradicted = dict(_contradictions(source))
    if contradicted:
        yield _finding(
            "bandwidth_unit_contradicts",
            Severity.WARNING,
            (
                f"{file}: link {link.name} has {link.GBps:g} {link.unit}, the text says {words}:"
                f" that is {(link.GBps or 0.0) / 8:g} GB/s"
                for link, words in contradicted.items()
            ),
            "gigabits_per_second was probably meant: correct the choice; until then it stays unknown",
        )
    suspect = [
        link
        for link in sorted(used, key=lambda link: link.name)
        if link not in contradicted
        and named_class(link) in ("ethernet", "ib", "network")
        and (link.GBps or 0.0) > _FASTEST_PORT_GBps
        and "byte" in link.unit.lower()
        and not re.match(r"\d+ parallel", link.description)
    ]
    if suspect:
        yield _finding(
            "bandwidth_unit_suspect",
            Severity.WARNING,
            (
                f"{file}: link {link.name} has {link.GBps:g} GB/s, no port is faster than"
                f" {_FASTEST_PORT_GBps:g}"
                for link in suspect
            ),
            "if gigabits were meant, write gigabits_per_second",
        )


def _missing(notes: Notes, file: str) -> Iterator[Finding]:
    if notes.only_templates:
        yield Finding(
            "templates_only",
            Severity.INFO,
            (f"{file}: no instances: one of each device is taken",),
            "add instances, or import the infrastructure that uses these devices",
        )
    for code, severity, listed, fix in (
        (
            "device_not_defined",
            Severity.WARNING,
            [
                f"{file}: instance {name} is of a device that is not in the file"
                for name in notes.undefined
            ],
            "add the device: its inside stays unknown",
        ),
        (
            "instance_not_declared",
            Severity.WARNING,
            [f"{file}: edges use {name}, which is no instance" for name in notes.undeclared],
            "declare the instance with its device and count",
        ),
        (
            "index_beyond_count",
            Severity.WARNING,
            notes.beyond,
            "raise the count or correct the index; such ends are left out",
        ),
        (
            "ends_do_not_match",
            Severity.WARNING,
            notes.unequal,
            "give both ends the same number of parts, or use many2many; the rest is left out",
        ),
        (
            "link_not_defined",
            Severity.WARNING,
            [
                f"{file}: edges use link {name!r}, which is not defined"
                for name in sorted(notes.unknown_links)
            ],
            "define the link with its bandwidth",
        ),
        (
            "count_inferred",
            Severity.INFO,
            [f"{file}: {line}, the most that edges use" for line in notes.inferred],
            "write count where there are more",
        ),
    ):
        if listed:
            yield _finding(code, severity, listed, fix)


def _rates(used: set[LinkType], file: str) -> Iterator[Finding]:
    lanes = sorted((link for link in used if link.gigatransfers), key=lambda link: link.name)
    if lanes:
        yield _finding(
            "bandwidth_per_lane",
            Severity.INFO,
            (f"{file}: link {link.name} has {link.gigatransfers:g} GT/s a lane" for link in lanes),
            "how many lanes is not said: give gigabytes_per_second of the whole link",
        )
    silent = sorted({link.name for link in used if link.GBps is None and not link.gigatransfers})
    if silent:
        yield _finding(
            "bandwidth_not_given",
            Severity.INFO,
            (f"{file}: link {name}" for name in silent),
            "give physical.bandwidth; until then it stays unknown",
        )


def _finding(code: str, severity: Severity, evidence: Iterable[str], fix: str) -> Finding:
    listed = list(dict.fromkeys(evidence))
    shown = listed[:_SHOWN]
    if len(listed) > _SHOWN:
        shown.append(f"and {len(listed) - _SHOWN} more")
    return Finding(code, severity, tuple(shown), fix)
