"""Slurm's topology.conf: switch trees, blocks and rings.

Grammar as in topology.conf(5) and Slurm's src/common/parse_config.c: lines of ``Key=value``, keys in any
case, ``#`` to the end of the line, a backslash at the end of a line continues it.

    SwitchName=leaf1 Nodes=n[1-4,7]          tree; LinkSpeed is accepted and ignored, as Slurm does
    SwitchName=spine Switches=leaf[1-2]
    BlockName=b1 Nodes=n[1-18]               block (Slurm 23.11)
    BlockSizes=18,36
    RingName=r0 Nodes=n[1-8]                 ring (Slurm 25.11)

Comments carry names that Slurm does not: topograph writes ``# rack11=nvl-1-1`` before block rack11, Azure
CycleCloud ``# ClusterUUID and CliqueID: …``. They are kept as ``alias``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from clusterlab.core.errors import UsageError
from clusterlab.core.findings import Finding, Severity
from clusterlab.formats.hostlist import MAX_HOSTS, expand_hostlist
from clusterlab.formats.switch_tree import MAX_NODES, Locality, TreeSwitch

MAX_CHARACTERS = 16 << 20

_KNOWN = re.compile(r"(?im)^[ \t]*(?:#[ \t]*)?(?:SwitchName|BlockName|BlockSizes|RingName)[ \t]*=")
_KNOWN_YAML = re.compile(r"(?m)^[ \t]*-[ \t]+(?:topology:|(?:tree|block|ring|torus3d):[ \t]*$)")
_TEMPLATE = re.compile(r"\{\{|\{%|<%|\$\{|\$\(")
_PAIR = re.compile(r'([A-Za-z][A-Za-z0-9_]*)\s*=[ \t]*("[^"]*"|(?:[^\s\["=]|\[[^\]\n]*\])*)\s*')
_ALIAS = re.compile(r"([^\s=]+)=(\S+)|ClusterUUID and CliqueID:\s*(\S+)")
_COMMENTED = re.compile(r"(?i)^(SwitchName|BlockName|RingName)\s*=")
_RECORDS = {"switchname": "switch", "blockname": "block", "ringname": "ring"}
_KEYS = {
    "switch": ("switchname", "switches", "nodes", "linkspeed"),
    "block": ("blockname", "nodes"),
    "ring": ("ringname", "nodes"),
}


@dataclass(frozen=True, slots=True)
class SlurmTopology:
    """One topology: a whole topology.conf, or one entry of topology.yaml.

    ``kinds`` are those it uses (tree, block, ring, flat, torus3d); ``commented`` counts records that are
    commented out; ``findings`` are what the text itself shows.
    """

    name: str = ""
    kinds: tuple[str, ...] = ()
    switches: tuple[TreeSwitch, ...] = ()
    blocks: tuple[Locality, ...] = ()
    block_sizes: tuple[int, ...] = ()
    rings: tuple[Locality, ...] = ()
    toruses: tuple[Locality, ...] = ()
    default: bool = False
    commented: int = 0
    findings: tuple[Finding, ...] = ()


@dataclass
class _Reading:
    file: str
    switches: list[TreeSwitch] = field(default_factory=list)
    blocks: list[Locality] = field(default_factory=list)
    rings: list[Locality] = field(default_factory=list)
    block_sizes: tuple[int, ...] = ()
    findings: list[Finding] = field(default_factory=list)
    nodes: int = 0

    def hosts(self, text: str, line: int) -> tuple[str, ...]:
        where = f"{self.file}:{line}"
        found = tuple(expand_hostlist(text, where=where, limit=MAX_HOSTS)) if text else ()
        self.nodes += len(found)
        if self.nodes > MAX_NODES:
            raise UsageError(
                f"more than {MAX_NODES} names", where=where, expected=f"at most {MAX_NODES}"
            )
        return found

    def note(self, code: str, line: int, what: str, fix: str) -> None:
        severity = Severity.WARNING
        self.findings.append(Finding(code, severity, (f"{self.file}:{line}: {what}",), fix))


def recognise(text: str) -> bool:
    """Whether this looks like a topology.conf, commented-out records included, or a topology.yaml."""
    return _KNOWN.search(text) is not None or recognise_yaml(text)


def recognise_yaml(text: str) -> bool:
    """Whether this looks like a topology.yaml (``slurm_topology_yaml`` reads it)."""
    kinds = ("tree:", "block:", "flat:", "ring:", "torus3d:")
    return _KNOWN_YAML.search(text) is not None and any(kind in text for kind in kinds)


def template_line(text: str) -> int | None:
    """The first line outside comments that only a template has (``{{``, ``{%``, ``<%``, ``${``)."""
    for number, line in enumerate(text.splitlines(), 1):
        if _TEMPLATE.search(line.partition("#")[0]):
            return number
    return None


def parse_slurm_topology(text: str, *, file: str) -> SlurmTopology:
    """Read topology.conf. Raises UsageError naming file and line for what is no ``Key=value``."""
    if len(text) > MAX_CHARACTERS:
        raise UsageError(
            f"{len(text)} characters", where=file, expected=f"at most {MAX_CHARACTERS}"
        )
    reading = _Reading(file)
    comments: list[str] = []
    commented = 0
    for number, content, comment in _logical_lines(text):
        if comment is not None:
            comments.append(comment)
            commented += _COMMENTED.match(comment) is not None
        if content:
            _record(reading, number, content, comments)
            comments = []
    kinds = [
        kind
        for kind, found in (
            ("tree", reading.switches),
            ("block", reading.blocks),
            ("ring", reading.rings),
        )
        if found
    ]
    return SlurmTopology(
        kinds=tuple(kinds),
        switches=tuple(reading.switches),
        blocks=tuple(reading.blocks),
        block_sizes=reading.block_sizes,
        rings=tuple(reading.rings),
        commented=commented,
        findings=tuple(reading.findings),
    )


def _logical_lines(text: str) -> Iterator[tuple[int, str, str | None]]:
    """(number of its first line, content, comment) with continuation lines joined."""
    start, content = 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        before, hash_sign, comment = line.partition("#")
        start = start or number
        continues = not hash_sign and before.rstrip().endswith("\\")
        content += before.rstrip().removesuffix("\\") if continues else before
        if continues:
            continue
        yield start, content.strip(), comment.strip() if hash_sign else None
        start, content = 0, ""
    if content.strip():
        yield start, content.strip(), None


def _record(reading: _Reading, line: int, content: str, comments: list[str]) -> None:
    if re.match(r"(?i)include\s", content):
        what = f"{content[:80]!r} is not followed"
        reading.note("include_not_read", line, what, "import the included file itself")
        return
    pairs = _pairs(content, f"{reading.file}:{line}")
    first = next(iter(pairs))
    if first == "blocksizes":
        reading.block_sizes = _sizes(pairs.pop(first), f"{reading.file}:{line}")
        _unknown_keys(reading, line, pairs)
        return
    kind = next((k for key, k in _RECORDS.items() if key in pairs), None)
    if kind is None:
        _unknown_keys(reading, line, pairs)
        return
    name = pairs[f"{kind}name"]
    if not name:
        raise UsageError(
            f"a {kind} without a name",
            where=f"{reading.file}:{line}",
            expected=f"{kind.title()}Name=…",
        )
    _unknown_keys(reading, line, {k: v for k, v in pairs.items() if k not in _KEYS[kind]})
    nodes = _nodes(reading, line, pairs.get("nodes", ""))
    if kind == "switch":
        switches = reading.hosts(pairs.get("switches", ""), line)
        reading.switches.append(TreeSwitch(name, switches, nodes, line))
    else:
        found = Locality(name, nodes, line, _alias(name, comments))
        (reading.blocks if kind == "block" else reading.rings).append(found)


def _nodes(reading: _Reading, line: int, text: str) -> tuple[str, ...]:
    if text.upper() == "ALL":
        reading.note(
            "nodes_all",
            line,
            "Nodes=ALL: which nodes these are, only slurm.conf says",
            "write the nodes out to import them",
        )
        return ()
    return reading.hosts(text, line)


def _pairs(content: str, where: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    position = 0
    while position < len(content):
        match = _PAIR.match(content, position)
        if match is None:
            rest = content[position:]
            what = "brackets do not pair" if rest.startswith("[") else "no Key=value"
            raise UsageError(
                f"{rest[:60]!r}: {what}", where=where, expected="SwitchName=… Nodes=n[1-4]"
            )
        key = match[1].lower()
        if key in pairs:
            raise UsageError(f"{match[1]} twice on one line", where=where, expected="each key once")
        pairs[key] = match[2].strip('"')
        position = match.end()
    return pairs


def _unknown_keys(reading: _Reading, line: int, pairs: dict[str, str]) -> None:
    for key in sorted(pairs):
        what = f"{key} is no key of topology.conf; Slurm refuses it"
        reading.note("unknown_key", line, what, "remove it, or correct its spelling")


def _sizes(text: str, where: str) -> tuple[int, ...]:
    sizes = text.split(",")
    if not all(re.fullmatch(r"\s*[0-9]{1,9}\s*", size) and int(size) for size in sizes):
        raise UsageError(
            f"BlockSizes={text[:60]}",
            where=where,
            expected="whole numbers from 1, such as 18,36",
            fix="give the number of nodes of a base block, then of blocks joined (topology.conf(5))",
        )
    return tuple(int(size) for size in sizes)


def _alias(name: str, comments: list[str]) -> str | None:
    """What the comments right before a record call it."""
    for comment in reversed(comments):
        match = _ALIAS.fullmatch(comment)
        if match and match[3]:
            return match[3]
        if match and match[1] == name:
            return match[2]
    return None
