"""The time of gloo's calls on a network, for the collectives that are played out."""

from __future__ import annotations

from collections.abc import Sequence

from clusterlab.core.collectives import collective
from clusterlab.cost.estimate import Group, Ways
from clusterlab.cost.gloo.play import RECEIVE, SEND, Pair, Path, Program, Wires, us_per_call
from clusterlab.cost.gloo.programs import PLAYED
from clusterlab.cost.gloo.schedule import segments_per_rank
from clusterlab.topology.fabric import Fabric

PIECE_BYTES = 1 << 16
"""What TCP hands to a NIC at once (GSO)."""

SOCKET_BYTES = (4 << 20) * 2 // 3
"""What a socket holds: tcp_wmem's 4 MiB, filled up when a third is free (Linux, sk_stream_is_writeable)."""

_MOST_RANKS = 64
"""Of all groups: as many GPUs as a lab may have."""

_MOST_PIECES = 128
_MOST_AT_ONCE = 16_000
"""Pieces of a call, of all groups: more take seconds, and say no more."""

_MOST_SEGMENTS = 4_000
"""What a reduce's ranks send of them; a larger buffer goes in larger ones here than in gloo."""

_ORDERS = 4
_PIECES_OF_ONE_ORDER = 4_000
"""With more of them the orders in which ranks begin even out."""


def played_us(
    fabric: Fabric,
    name: str,
    groups: Sequence[Group],
    ways: Ways,
    *,
    size_bytes: int,
    routing: str,
    own: Group | None = None,
) -> float | None:
    """µs of a call of ``name`` and ``size_bytes`` (nccl-tests' size) in each of ``groups``, all at once: of
    the group ``own``, or of the slowest.

    None where the collective is not played out, where nothing leaves a host, and for more than _MOST_RANKS.
    Kept by the fabric for messages of as many pieces.
    """
    if name not in PLAYED or sum(len(group.ranks) for group in groups) > _MOST_RANKS:
        return None
    n = max(len(group.ranks) for group in groups)
    segments = min(segments_per_rank(n, size_bytes), max(2, _MOST_SEGMENTS // n**2))
    message = size_bytes / {"reduce": n * segments}.get(name, n if collective(name).per_rank else 1)
    least = _pieces_in_all(_programs(name, groups, segments, 1))
    if least == 0:
        return None
    most = max(1, min(_MOST_PIECES, _MOST_AT_ONCE // least))
    pieces = min(most, -(-int(message) // PIECE_BYTES) or 1)
    devices = tuple((group.devices, group.root) for group in groups)
    held = max(2, min(4 * pieces, int(SOCKET_BYTES * pieces / message)))
    mine = _ranks_of(own, groups)
    key = ("gloo played", name, routing, devices, segments, pieces, held, mine)
    if key not in fabric.memo:
        orders = _ORDERS if least * pieces <= _PIECES_OF_ONE_ORDER else 1
        programs = _programs(name, groups, segments, pieces)
        paths, GBps = _paths(programs, groups, ways)
        fabric.memo[key] = us_per_call(programs, Wires(paths, GBps, held), orders, mine)
    us_per_byte: float = fabric.memo[key]
    return us_per_byte * message / pieces if us_per_byte else None


def _ranks_of(own: Group | None, groups: Sequence[Group]) -> range | None:
    """Its ranks, counted over all groups; None where it is all there is."""
    first = 0
    for group in groups:
        if group is own and len(groups) > 1:
            return range(first, first + len(group.ranks))
        first += len(group.ranks)
    return None


def _programs(name: str, groups: Sequence[Group], segments: int, pieces: int) -> dict[int, Program]:
    """By rank, counted over all groups."""
    found: dict[int, Program] = {}
    for group in groups:
        first = len(found)
        for program in PLAYED[name](len(group.ranks), segments, pieces, group.root):
            found[len(found)] = tuple(
                (kind, a + first, b) if kind in _WITH_A_PEER else (kind, a, b)
                for kind, a, b in program
            )
    return found


_WITH_A_PEER = (SEND, RECEIVE)


def _pieces_in_all(programs: dict[int, Program]) -> int:
    return sum(b for program in programs.values() for kind, _, b in program if kind == SEND)


def _paths(
    programs: dict[int, Program], groups: Sequence[Group], ways: Ways
) -> tuple[dict[Pair, Path], list[float]]:
    """By the ports of network links with a known rate, and these: what is inside hosts takes no time."""
    device_of = [device for group in groups for device in group.devices]
    pairs = {
        pair: None
        for rank, program in programs.items()
        for kind, peer, _ in program
        if kind in _WITH_A_PEER
        for pair in ((rank, peer), (peer, rank))
    }
    ports: dict[int, int] = {}
    GBps: list[float] = []
    paths: dict[Pair, Path] = {}
    for src, dst in pairs:
        path = []
        # A rank's message to itself crosses nothing, and has no way.
        for crossing in ways[device_of[src], device_of[dst]] if src != dst else ():
            link = crossing.link
            if link.link_class in _NETWORK and link.capacity_GBps:
                if id(link) not in ports:
                    ports[id(link)] = len(GBps)
                    GBps.append(link.capacity_GBps)
                path.append(ports[id(link)])
        paths[src, dst] = tuple(path)
    return paths, GBps


_NETWORK = ("ib", "ethernet")
