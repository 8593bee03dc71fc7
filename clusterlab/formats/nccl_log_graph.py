"""What NCCL logs of its search: path types between devices, and the channels of each pattern.

Grammar: NVIDIA/nccl src/graph/paths.cc printNodePaths, search.cc ncclTopoPrintGraph, init.cc.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from clusterlab.formats.nccl_log_lines import LogLine
from clusterlab.formats.nccl_log_system import Key

_NODE = r"([A-Z]{3})/(?:([0-9a-fA-F]{1,2})-)?([0-9a-fA-F]{1,16})"
_PATHS = re.compile(_NODE + r" :(.*)")
_PATH = re.compile(_NODE + r" \((\d{1,4})/(\d{1,9}(?:\.\d{1,9})?)/([A-Z0-9]{3})\)")
_PATTERN = re.compile(
    r"Pattern (\d+), crossNic (\d+), nChannels (\d+), (?:bw|speed) ([\d.]+)/([\d.]+), "
    r"(?:nvlink \d+, )?type ([A-Z0-9]+)/([A-Z0-9]+), sameChannels (\d+)"
)
_CHANNEL = re.compile(r" ?\d{1,3} :((?: [A-Z]{3}/[0-9a-fA-F-]+)+)\s*$")
# SHM's lines have no connection's number; RCCL's say the communicator behind the transport.
_CONNECTION = re.compile(
    r"Channel (\d{1,4})(?:/(\d{1,4}))? : (\d{1,9})\[[0-9a-fA-F]{1,16}\] -> (\d{1,9})\[[0-9a-fA-F]{1,16}\]"
    r"(?: \[(send|receive)\])? via (\S(?:[^\n]{0,100}?\S)??)(?: comm 0x[^\n]*)?\s*$"
)
_RING = re.compile(r"Channel (\d+)/(\d+)\s*:((?:\s+\d+)+)\s*$")


@dataclass(frozen=True, slots=True)
class LogPath:
    """A path NCCL found: hops, GB/s of its narrowest link, and type (LOC, NVL, PIX, … DIS)."""

    src: Key
    dst: Key
    hops: int
    GBps: float
    type: str


@dataclass(frozen=True, slots=True)
class LogGraph:
    """A result of the search. Speeds are GB/s of one channel; a channel lists NCCL's names in order."""

    pattern: int
    cross_nic: int
    channels_declared: int
    speed_intra_GBps: float
    speed_inter_GBps: float
    type_intra: str
    type_inter: str
    channels: tuple[tuple[str, ...], ...]
    line: LogLine


@dataclass(frozen=True, slots=True)
class LogConnection:
    """``Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/2``.

    ``index`` is the number behind the slash: 0 for what collectives use, 1 for sends and receives; None
    where the line has none (SHM). ``via`` is the rest of the line, see nccl_transport.
    """

    channel: int
    index: int | None
    src_rank: int
    dst_rank: int
    side: str | None
    via: str


def log_paths(lines: Iterable[LogLine]) -> list[LogPath]:
    """All paths printed."""
    found: list[LogPath] = []
    for line in lines:
        row = _PATHS.match(line.message)
        if row is None:
            continue
        src = _key(row.group(1), row.group(2), row.group(3))
        for kind, system, ident, hops, GBps, path_type in _PATH.findall(row.group(4)):
            dst = _key(kind, system, ident)
            found.append(LogPath(src, dst, int(hops), float(GBps), path_type))
    return found


def log_graphs(lines: Iterable[LogLine]) -> list[LogGraph]:
    """All graphs printed, with the channels that the same rank printed after each."""
    graphs: list[LogGraph] = []
    latest: dict[object, int] = {}
    for line in lines:
        pattern = _PATTERN.match(line.message)
        if pattern is not None:
            latest[line.writer] = len(graphs)
            graphs.append(_graph(pattern, line))
            continue
        index = latest.get(line.writer)
        channel = _CHANNEL.match(line.message) if index is not None else None
        if index is not None and channel is not None:
            hops = tuple(channel.group(1).split())
            graphs[index] = replace(graphs[index], channels=(*graphs[index].channels, hops))
    return graphs


def log_rings(lines: Iterable[LogLine]) -> dict[int, tuple[int, ...]]:
    """Channel → the ranks of its ring in order, as rank 0 prints them."""
    found: dict[int, tuple[int, ...]] = {}
    for line in lines:
        ring = _RING.match(line.message)
        if ring is not None:
            found.setdefault(int(ring.group(1)), tuple(int(r) for r in ring.group(3).split()))
    return found


def log_connections(lines: Iterable[LogLine]) -> list[LogConnection]:
    """All connections that ranks made."""
    found = []
    for line in lines:
        match = _CONNECTION.match(line.message)
        if match is not None:
            channel, index, src, dst, side, via = match.groups()
            number = int(index) if index else None
            found.append(LogConnection(int(channel), number, int(src), int(dst), side, via))
    return found


def _graph(match: re.Match[str], line: LogLine) -> LogGraph:
    pattern, cross_nic, channels, intra, inter, type_intra, type_inter, _ = match.groups()
    return LogGraph(
        int(pattern),
        int(cross_nic),
        int(channels),
        _number(intra),
        _number(inter),
        type_intra,
        type_inter,
        (),
        line,
    )


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _key(kind: str, system: str, ident: str) -> Key:
    return kind, int(system or "0", 16), int(ident, 16)
