"""What ``ibnetdiscover`` prints: every node of an InfiniBand subnet with its ports.

Three forms: blocks (the default, with ``-f`` and ``-g`` too), one line a port (``-p``), nodes only
(``-l``, also ibhosts and ibswitches). Grammar: infiniband-diags, src/ibnetdiscover.c, and "Topology file
format" in ibnetdiscover(8). Lines are kept apart by what they begin with, so chatter of the tool and
section titles pass; a line that begins as a node or port and does not go on as one is reported.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from clusterlab.core.errors import UsageError
from clusterlab.formats.ibnetdiscover_ports import has_lines_of, read_list_style, read_port_style
from clusterlab.formats.infiniband import (
    IbNetwork,
    IbNode,
    IbPort,
    NodeKind,
    Rate,
    Unread,
    normal_guid,
    rate_of,
)

MAX_LINES = 4_000_000
"""The largest subnet has 48k LIDs; a node takes a handful of lines and one a port."""

_LONGEST = 2000
"""Characters of a line: a description has at most 64, so anything near this is no line of ours."""

_LONG_WORDS = re.compile(r"""(["'])([^"']{64})[^"']*(["'])""")
"""A quoted description beyond the 64 bytes that NodeDescription holds (InfiniBand specification)."""

_KINDS: dict[str, NodeKind] = {
    "switch": "switch",
    "ca": "ca",
    "hca": "ca",  # ibsim's network files
    "rt": "router",
    "router": "router",
}
_PREFIXES: dict[str, NodeKind] = {"S": "switch", "H": "ca", "R": "router"}

_NODE = re.compile(
    r"\s*(Switch|Ca|Hca|Rt|Router)\s+(\d{1,5})\s+\"([^\"]+)\"\s*(?:#\s*(.*))?$", re.IGNORECASE
)
_PORT = re.compile(
    r"\s*\[(\d{1,5})\](?:\[ext \d+\])?\s*(?:\([^)]*\))?"
    r"\s*\"([^\"]+)\"\s*\[(\d{1,5})\](?:\[ext \d+\])?\s*(?:\([^)]*\))?\s*(?:#\s*(.*))?$"
)
_BEGINS = re.compile(r"\s*(?:\[\d|(?:Switch|Ca|Hca|Rt|Router)\s+\d)", re.IGNORECASE)
_QUOTED = re.compile(r"\"(.*)\"")
_HEADER = re.compile(
    r"\s*(vendid|devid|sysimgguid|switchguid|caguid|rtguid)=(\S+)\s*(?:#\s*(.*))?$"
)
_CHASSIS = re.compile(r"Chassis (\d+)")
_FULL = re.compile(r"\b([swe])=(\d{1,3})\b")
_ERROR = re.compile(r"\s*(?:ibwarn|iberror|ibpanic)[:\s]|.*\bmad_rpc")

_WIDTH_CODES = {1: 1, 2: 4, 4: 8, 8: 12, 16: 2}
_SPEED_CODES = {1: "SDR", 2: "DDR", 4: "QDR"}
_EXTENDED_CODES = {1: "FDR", 2: "EDR", 4: "HDR", 8: "NDR", 16: "XDR"}
"""LinkWidthActive, LinkSpeedActive and LinkSpeedExtActive of PortInfo, printed by ``--full``."""


def recognise(text: str) -> bool:
    """Whether ``text`` holds a node block, a port line or a list line of ibnetdiscover."""
    lines = [line for line in map(_cut, text.splitlines()) if len(line) <= _LONGEST]
    return any(_NODE.match(line) for line in lines) or has_lines_of(lines)


def _cut(line: str) -> str:
    """A line that is far too long with its descriptions cut to their 64 characters."""
    return _LONG_WORDS.sub(r"\1\2\3", line) if len(line) > _LONGEST else line


def parse_ibnetdiscover(text: str, *, file: str) -> IbNetwork:
    """The nodes and ports in ``text``. Raises UsageError where there is no node, or far too many lines."""
    lines = list(map(_cut, text.splitlines()))
    if len(lines) > MAX_LINES:
        raise UsageError(
            f"{len(lines)} lines", where=file, expected=f"at most {MAX_LINES} (one subnet)"
        )
    long = tuple(
        Unread(number, f"{line[:80]}… ({len(line)} characters)")
        for number, line in enumerate(lines, 1)
        if len(line) > _LONGEST
    )
    lines = [line if len(line) <= _LONGEST else "" for line in lines]
    network = _read_blocks(lines)
    if not network.nodes:
        network = read_port_style(lines)
    if not network.nodes:
        network = read_list_style(lines)
    if not network.nodes:
        first = network.unread[0].line if network.unread else 1
        raise UsageError(
            "no node of an InfiniBand subnet",
            where=f"{file}:{first}",
            expected='blocks that begin with Switch or Ca, such as: Ca 1 "H-<guid>" # "node01 mlx5_0"',
            fix="save the whole output of ibnetdiscover (as root, on a host with an active port)",
        )
    errors = tuple(
        Unread(number, line.strip()) for number, line in enumerate(lines, 1) if _ERROR.match(line)
    )
    return replace(network, unread=(*network.unread, *long), scan_errors=errors)


@dataclass
class _Reading:
    """Where the reader of blocks stands."""

    nodes: dict[str, IbNode] = field(default_factory=dict)
    ports: dict[str, list[IbPort]] = field(default_factory=dict)
    unread: list[Unread] = field(default_factory=list)
    repeated: list[Unread] = field(default_factory=list)
    header: dict[str, str] = field(default_factory=dict)
    current: str | None = None


def _read_blocks(lines: list[str]) -> IbNetwork:
    state = _Reading()
    for number, line in enumerate(lines, 1):
        if node := _NODE.match(line):
            _begin_node(state, node, number, line)
        elif port := _PORT.match(line):
            _add_port(state, port, number, line)
        elif header := _HEADER.match(line):
            if header.group(1) == "vendid":
                state.header.clear()
            state.header[header.group(1)] = header.group(2)
            if found := _CHASSIS.search(header.group(3) or ""):
                state.header["chassis"] = found.group(1)
        elif _BEGINS.match(line):
            state.unread.append(Unread(number, line.strip()))
    nodes = tuple(replace(n, ports=tuple(state.ports[n.id])) for n in state.nodes.values())
    return IbNetwork(nodes, "blocks", tuple(state.unread), tuple(state.repeated))


def _begin_node(state: _Reading, found: re.Match[str], number: int, line: str) -> None:
    node_id = normal_id(found.group(3))
    header = dict(state.header)
    state.header.clear()
    if node_id in state.nodes:
        state.repeated.append(Unread(number, line.strip()))
        state.current = None
        return
    comment = _QUOTED.search(found.group(4) or "")
    state.current = node_id
    state.ports[node_id] = []
    state.nodes[node_id] = IbNode(
        id=node_id,
        kind=_KINDS[found.group(1).lower()],
        guid=normal_guid(node_id.partition("-")[2]),
        description=comment.group(1).strip() if comment else "",
        line=number,
        port_count=int(found.group(2)),
        device_id=header.get("devid"),
        chassis=header.get("chassis"),
    )


def _add_port(state: _Reading, found: re.Match[str], number: int, line: str) -> None:
    if state.current is None:
        if not state.repeated:  # ports of a repeated block are passed over with it
            state.unread.append(Unread(number, line.strip()))
        return
    far = normal_id(found.group(2))
    comment = found.group(4) or ""
    quoted = _QUOTED.search(comment)
    state.ports[state.current].append(
        IbPort(
            number=int(found.group(1)),
            far=far,
            far_port=int(found.group(3)),
            far_kind=_PREFIXES.get(far.partition("-")[0]),
            far_description=quoted.group(1).strip() if quoted else "",
            rate=_rate(comment[quoted.end() :] if quoted else comment),
            line=number,
        )
    )


def normal_id(text: str) -> str:
    """``S-0002c902…`` with the GUID in 16 digits; any other id as it stands (simulators name freely)."""
    prefix, dash, rest = text.strip().partition("-")
    guid = normal_guid(rest) if dash and prefix.upper() in _PREFIXES else None
    return f"{prefix.upper()}-{guid}" if guid else text.strip()


def _rate(comment: str) -> Rate | None:
    """The rate as named, else as ``--full`` codes it: an older ibnetdiscover names HDR ``???``."""
    named = rate_of(comment)
    if named is not None:
        return named
    codes = {letter: int(value) for letter, value in _FULL.findall(comment)}
    width = _WIDTH_CODES.get(codes.get("w", 0))
    speed = _EXTENDED_CODES.get(codes.get("e", 0)) or _SPEED_CODES.get(codes.get("s", 0))
    return Rate(width, speed) if width and speed else None
