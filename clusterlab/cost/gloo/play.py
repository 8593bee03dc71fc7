"""gloo's calls played out, one after the other: which rank waits for which, and how long.

A message goes when both ranks have asked for it: the sender by its call, the receiver by a word that its
buffer is there (localPendingSend_ and NOTIFY_RECV_READY in gloo/transport/tcp/pair.cc). Words go on the
connection that carries messages the other way, behind what was written before. This is why an all_to_all
takes longer than its bytes. It posts the send to rank + i before the receive from rank - i. To a rank that
is late its peers' words have come: it writes the message to rank + i at once, and for i up to n/2 the word
to that rank after it. So half of its peers answer only when they have its message. It ends late by as much,
and is the late one of the next call. Ranks never end quite together: calls that began together come to this
by themselves.

Messages go in pieces, through ports that serve in order of arrival. A connection has two pieces at most in
its own NIC's queue (TCP small queues in Linux), so those of a rank take turns there. Its socket holds so much
that was not received yet, and a send is done when the socket has all of it.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Path = tuple[int, ...]
"""Ports in the order of crossing; none between ranks that share a host."""

Pair = tuple[int, int]
"""The rank that sends and the one that receives."""

SEND, RECEIVE, WAIT = 0, 1, 2
Program = tuple[tuple[int, int, int], ...]
"""What a rank does in a call: (SEND, to, pieces), (RECEIVE, from, 0), or (WAIT, receives, sends), until no
more than so many of either that it posted are outstanding.
"""

_WORD, _MESSAGE = 1, 2
_IN_QUEUE = 2
_SETTLING = 4
_CALLS = 8
_LATENESS = 0.3
"""How much later than it could a rank begins, at most, in times of a piece. Only the order matters."""


@dataclass(frozen=True, slots=True)
class Wires:
    """``paths`` of all pairs that exchange anything, by ports of ``GBps``; a socket holds ``held`` pieces."""

    paths: Mapping[Pair, Path]
    GBps: Sequence[float]
    held: int


def us_per_call(
    programs: Mapping[int, Program], wires: Wires, orders: int, counted: range | None = None
) -> float:
    """µs a call takes for each byte of a piece, where every rank runs its program again and again: on all
    ranks, or on those ``counted``.

    The mean over calls back to back, and over ``orders`` random orders in which ranks begin, always the
    same ones.
    """
    if not any(wires.paths.values()):
        return 0.0
    plays = (_Play(programs, wires, seed) for seed in range(orders))
    return sum(play.us_per_call(counted) for play in plays) / orders


@dataclass(slots=True)
class _Connection:
    """From one rank to another. ``asked``: receives that the other has said; ``held``: sends that wait for
    one. ``written``, ``taken`` and ``received`` count pieces of messages: handed to it, sent on, and arrived;
    ``unwritten`` are ends of messages for which the socket has no room yet.
    """

    path: Path
    waiting: deque[tuple[int, int]] = field(default_factory=deque)
    in_queue: int = 0
    asked: int = 0
    held: deque[int] = field(default_factory=deque)
    written: int = 0
    taken: int = 0
    received: int = 0
    unwritten: deque[int] = field(default_factory=deque)


class _Play:
    """One run of the calls. Times are µs for pieces of one byte."""

    def __init__(self, programs: Mapping[int, Program], wires: Wires, seed: int) -> None:
        self.programs = programs
        self.piece_us = [1e-3 / rate for rate in wires.GBps]
        self.room = wires.held
        self.random = random.Random(seed)
        self.latest_us = _LATENESS * min(self.piece_us)
        self.events: list[tuple[float, int, tuple[int, ...]]] = []
        self.number = itertools.count()
        self.free_us = [0.0] * len(wires.GBps)
        self.connections = {pair: _Connection(path) for pair, path in wires.paths.items()}
        self.step = dict.fromkeys(programs, 0)
        self.missing = dict.fromkeys(programs, 0)
        self.unsent = dict.fromkeys(programs, 0)
        self.ended: dict[int, list[float]] = {rank: [] for rank in programs}

    def us_per_call(self, counted: range | None) -> float:
        """From the end of the settling calls to the last one's, on the slowest rank (``counted`` ones)."""
        for rank in self.programs:
            self.later(self.random.random() * self.latest_us, (rank,))
        while self.events:
            now, _, event = heapq.heappop(self.events)
            if len(event) == 1:
                self.go_on(event[0], now)
            else:
                self.arrived(event, now)
        looked_at = [self.ended[rank] for rank in counted or self.ended]
        first = max(times[_SETTLING - 1] for times in looked_at)
        last = max(times[-1] for times in looked_at)
        return (last - first) / _CALLS

    def later(self, at_us: float, event: tuple[int, ...]) -> None:
        heapq.heappush(self.events, (at_us, next(self.number), event))

    def go_on(self, rank: int, now: float) -> None:
        """Do the steps of a rank's program up to where it has to wait, or to the end of the call."""
        program = self.programs[rank]
        while self.step[rank] < len(program):
            kind, a, b = program[self.step[rank]]
            if kind == WAIT:
                if self.missing[rank] > a or self.unsent[rank] > b:
                    return
            elif kind == SEND:
                self.post((rank, a), b, now)
            else:
                self.missing[rank] += 1
                self.write((rank, a), 0, _WORD, now)
            self.step[rank] += 1
        self.step[rank] = 0
        self.ended[rank].append(now)
        if len(self.ended[rank]) < _SETTLING + _CALLS:
            self.later(now + self.random.random() * self.latest_us, (rank,))

    def woken(self, rank: int, now: float) -> None:
        """Something that a rank may wait for has come about."""
        if self.step[rank]:
            self.go_on(rank, now)

    def post(self, pair: Pair, pieces: int, now: float) -> None:
        connection = self.connections[pair]
        self.unsent[pair[0]] += 1
        if connection.asked:
            connection.asked -= 1
            self.write(pair, pieces, _MESSAGE, now)
        else:
            connection.held.append(pieces)

    def write(self, pair: Pair, pieces: int, what: int, now: float) -> None:
        """Onto the connection, behind what is there: a message, or the word that one may come."""
        connection = self.connections[pair]
        connection.waiting.append((pieces, what))
        connection.written += pieces
        if what == _MESSAGE:
            connection.unwritten.append(connection.written)
            self.make_room(pair[0], connection)
        self.feed(pair, connection, now)

    def make_room(self, rank: int, connection: _Connection) -> bool:
        """Whether a send is done: the socket has room for all of it (within a host at once)."""
        unwritten, done = connection.unwritten, False
        while unwritten and (
            unwritten[0] - connection.received <= self.room or not connection.path
        ):
            unwritten.popleft()
            self.unsent[rank] -= 1
            done = True
        return done

    def feed(self, pair: Pair, connection: _Connection, now: float) -> None:
        """Fill the connection's share of its NIC's queue."""
        waiting, here = connection.waiting, not connection.path
        while waiting and (
            here
            or (
                connection.in_queue < _IN_QUEUE
                and connection.taken - connection.received < self.room
            )
        ):
            pieces, what = waiting.popleft()
            if pieces > 1:
                waiting.appendleft((pieces - 1, what))
                ends = 0
            else:
                ends = what
                if what == _MESSAGE and waiting and waiting[0][1] == _WORD:
                    ends |= waiting.popleft()[1]  # TCP fills its last packet with what follows
            full = int(pieces > 0)
            connection.in_queue += 1
            connection.taken += full
            self.cross(pair, connection.path, (0, full, ends), now)

    def cross(self, pair: Pair, path: Path, piece: tuple[int, int, int], now: float) -> None:
        """A piece (hop, whether it has bytes, what ends with it) through a port of its path: its first
        packets go on while the last are on their way. A word takes no time but waits its turn.
        """
        hop, full, _ = piece
        if path:
            port = path[hop]
            behind_us = full * self.piece_us[path[hop - 1]] if hop else 0.0
            begins_us = max(now - behind_us, self.free_us[port])
            now = max(now, begins_us + full * self.piece_us[port])
            self.free_us[port] = now
        self.later(now, (*pair, *piece))

    def arrived(self, event: tuple[int, ...], now: float) -> None:
        """Behind a port: on to the next, or at the receiver, where the end of something may have come."""
        src, dst, hop, full, ends = event
        pair = (src, dst)
        connection = self.connections[pair]
        if hop == 0:
            connection.in_queue -= 1
            self.feed(pair, connection, now)
        if hop + 1 < len(connection.path):
            self.cross(pair, connection.path, (hop + 1, full, ends), now)
            return
        connection.received += full
        if self.make_room(src, connection):
            self.woken(src, now)
        self.feed(pair, connection, now)
        if ends & _MESSAGE:
            self.missing[dst] -= 1
            self.woken(dst, now)
        if ends & _WORD:
            self.ready((dst, src), now)

    def ready(self, pair: Pair, now: float) -> None:
        """The receiver of ``pair`` has said that it waits for a message."""
        connection = self.connections[pair]
        if connection.held:
            self.write(pair, connection.held.popleft(), _MESSAGE, now)
            self.woken(pair[0], now)
        else:
            connection.asked += 1
