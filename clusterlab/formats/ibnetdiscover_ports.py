"""The two line-by-line forms of ibnetdiscover: ports (``-p``) and nodes (``-l``).

    CA    88  1 0x1c34… 4x HDR - SW    51 79 0x0f08… ( 'worker20 mlx5_3' - 'leaf-IB01' )
    SW  2052 37 0x506b… 4x ???                        'ib-i4l1s01'
    Ca     : 0x1c34… ports 1 devid 0x101b vendid 0x2c9 "worker20 mlx5_3"

``-p`` gives a port's GUID, so a channel adapter with two ports is two nodes here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from clusterlab.formats.infiniband import (
    IbNetwork,
    IbNode,
    IbPort,
    NodeKind,
    Unread,
    normal_guid,
    rate_of,
)

_KINDS: dict[str, NodeKind] = {"CA": "ca", "SW": "switch", "RT": "router"}
_LISTED: dict[str, NodeKind] = {"ca": "ca", "switch": "switch", "router": "router"}

_LINE = re.compile(
    r"\s*(CA|SW|RT)\s+(\d{1,6})\s+(\d{1,5})\s+0x([0-9a-fA-F]{1,16})\s+(\d{1,2}|\?+)x\s+(\S+)"
    r"(?:\s+-\s+(CA|SW|RT)\s+(\d{1,6})\s+(\d{1,5})\s+0x([0-9a-fA-F]{1,16})\s+"
    r"\(\s*'(.*)'\s+-\s+'(.*)'\s*\)|(?!\s+-\s)(?:\s+(.*))?)\s*$"
)
_BEGINS = re.compile(r"\s*(?:CA|SW|RT)\s+\d")
_LIST = re.compile(
    r"\s*(Ca|Switch|Router)\s*:\s*0x([0-9a-fA-F]{1,16})\s+ports\s+(\d{1,5})\b(.*)$", re.IGNORECASE
)
_LIST_BEGINS = re.compile(r"\s*(?:Ca|Switch|Router)\s*:\s*0x", re.IGNORECASE)
_DEVICE_ID = re.compile(r"devid (0x[0-9a-fA-F]+)")
_QUOTED = re.compile(r"\"(.*)\"")


def has_lines_of(lines: Iterable[str]) -> bool:
    """Whether a line is one of these two forms."""
    return any(_LINE.match(line) or _LIST.match(line) for line in lines)


@dataclass
class _Reading:
    nodes: dict[str, IbNode] = field(default_factory=dict)
    ports: dict[str, list[IbPort]] = field(default_factory=dict)
    unread: list[Unread] = field(default_factory=list)


def read_port_style(lines: list[str]) -> IbNetwork:
    """The nodes of ``ibnetdiscover -p``: those that own a line and those at the far end of one."""
    state = _Reading()
    for number, line in enumerate(lines, 1):
        if found := _LINE.match(line):
            _add_line(state, found, number)
        elif _BEGINS.match(line):
            state.unread.append(Unread(number, line.strip()))
    nodes = tuple(replace(n, ports=tuple(state.ports[n.id])) for n in state.nodes.values())
    return IbNetwork(nodes, "ports", tuple(state.unread))


def _add_line(state: _Reading, found: re.Match[str], number: int) -> None:
    kind, _, port, guid, width, speed = found.groups()[:6]
    far_kind, _, far_port, far_guid, near_name, far_name, only_name = found.groups()[6:]
    near = _node(state, kind, guid, near_name or only_name or "", number)
    far = _node(state, far_kind, far_guid, far_name, number) if far_guid else None
    state.ports[near].append(
        IbPort(
            number=int(port),
            far=far,
            far_port=int(far_port) if far_port else None,
            far_kind=_KINDS.get(far_kind or ""),
            far_description=_bare(far_name or ""),
            rate=rate_of(f"{width}x{speed}")
            if far
            else None,  # a port without a cable idles at SDR
            line=number,
        )
    )


def _node(state: _Reading, kind: str, guid: str, name: str, number: int) -> str:
    """The id of the node with this GUID, entered at its first mention."""
    digits = guid.lower().zfill(16)
    if digits not in state.nodes:
        state.nodes[digits] = IbNode(
            id=digits, kind=_KINDS[kind], guid=digits, description=_bare(name), line=number
        )
        state.ports[digits] = []
    return digits


def _bare(name: str) -> str:
    return name.strip().strip("'").strip()


def read_list_style(lines: list[str]) -> IbNetwork:
    """The nodes of ``ibnetdiscover -l`` (ibhosts, ibswitches): no ports are listed."""
    nodes: dict[str, IbNode] = {}
    unread, repeated = [], []
    for number, line in enumerate(lines, 1):
        found = _LIST.match(line)
        if found is None:
            if _LIST_BEGINS.match(line):
                unread.append(Unread(number, line.strip()))
            continue
        kind, guid, count, rest = found.groups()
        digits = normal_guid(guid) or guid
        if digits in nodes:
            repeated.append(Unread(number, line.strip()))
            continue
        quoted, model = _QUOTED.search(rest), _DEVICE_ID.search(rest)
        nodes[digits] = IbNode(
            id=digits,
            kind=_LISTED[kind.lower()],
            guid=digits,
            description=quoted.group(1).strip() if quoted else "",
            line=number,
            port_count=int(count),
            device_id=model.group(1) if model else None,
        )
    return IbNetwork(tuple(nodes.values()), "list", tuple(unread), tuple(repeated))
