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
its own NIC's queue (TCP small queues in Linux), so those of a rank take turns there.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import deque
from collections.abc import Mapping, Sequence

Path = tuple[int, ...]
"""Ports in the order of crossing; none between ranks that share a host."""

Pair = tuple[int, int]
"""The rank that sends and the one that receives."""

SEND, RECEIVE, WAIT = 0, 1, 2
Program = tuple[tuple[int, int, int], ...]
"""What a rank does in a call: (SEND, to, pieces), (RECEIVE, from, 0), or (WAIT, receives, sends), until no
more than so many of either that it posted are outstanding. A message is sent when it is written: sockets
hold all of it.
"""

_WORD, _MESSAGE = 1, 2
_IN_QUEUE = 2
_SETTLING = 4
_CALLS = 8
_LATENESS = 0.3
"""How much later than it could a rank begins, at most, in times of a piece. Only the order matters."""


def us_per_call(
    programs: Mapping[int, Program],
    paths: Mapping[Pair, Path],
    GBps: Sequence[float],
    orders: int,
) -> float:
    """µs a call takes for each byte of a piece, where every rank runs its program again and again.

    ``paths`` are of all pairs that exchange anything, ``GBps`` of the ports. The mean over calls back to
    back, and over ``orders`` random orders in which ranks begin, always the same ones.
    """
    if not any(paths.values()):
        return 0.0
    plays = (_Play(programs, paths, GBps, seed) for seed in range(orders))
    return sum(play.us_per_call() for play in plays) / orders


class _Play:
    """One run of the calls. Times are µs for pieces of one byte."""

    def __init__(
        self,
        programs: Mapping[int, Program],
        paths: Mapping[Pair, Path],
        GBps: Sequence[float],
        seed: int,
    ) -> None:
        self.programs = programs
        self.paths = paths
        self.piece_us = [1e-3 / rate for rate in GBps]
        self.random = random.Random(seed)
        self.latest_us = _LATENESS * min(self.piece_us)
        self.events: list[tuple[float, int, tuple[int, ...]]] = []
        self.number = itertools.count()
        self.free_us = [0.0] * len(GBps)
        self.waiting: dict[Pair, deque[tuple[int, int]]] = {pair: deque() for pair in paths}
        self.in_queue = dict.fromkeys(paths, 0)
        self.asked = dict.fromkeys(paths, 0)
        self.held: dict[Pair, deque[int]] = {pair: deque() for pair in paths}
        self.step = dict.fromkeys(programs, 0)
        self.missing = dict.fromkeys(programs, 0)
        self.unsent = dict.fromkeys(programs, 0)
        self.ended: dict[int, list[float]] = {rank: [] for rank in programs}

    def us_per_call(self) -> float:
        """From the end of the settling calls to the last one's, on the slowest rank."""
        for rank in self.programs:
            self.later(self.random.random() * self.latest_us, (rank,))
        while self.events:
            now, _, event = heapq.heappop(self.events)
            if len(event) == 1:
                self.go_on(event[0], now)
            else:
                self.arrived(event, now)
        first = max(times[_SETTLING - 1] for times in self.ended.values())
        last = max(times[-1] for times in self.ended.values())
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
        if self.asked[pair]:
            self.asked[pair] -= 1
            self.write(pair, pieces, _MESSAGE, now)
        else:
            self.held[pair].append(pieces)
            self.unsent[pair[0]] += 1

    def write(self, pair: Pair, pieces: int, what: int, now: float) -> None:
        """Onto the connection, behind what is there: a message, or the word that one may come."""
        self.waiting[pair].append((pieces, what))
        self.feed(pair, now)

    def feed(self, pair: Pair, now: float) -> None:
        """Fill the connection's share of its NIC's queue."""
        waiting = self.waiting[pair]
        while waiting and (self.in_queue[pair] < _IN_QUEUE or not self.paths[pair]):
            pieces, what = waiting.popleft()
            if pieces > 1:
                waiting.appendleft((pieces - 1, what))
                ends = 0
            else:
                ends = what
                if what == _MESSAGE and waiting and waiting[0][1] == _WORD:
                    ends |= waiting.popleft()[1]  # TCP fills its last packet with what follows
            self.in_queue[pair] += 1
            self.cross(pair, 0, (int(pieces > 0), ends), now)

    def cross(self, pair: Pair, hop: int, piece: tuple[int, int], now: float) -> None:
        """A piece (whether it has bytes, what ends with it) through the port ``hop`` of its path: its first
        packets go on while the last are on their way. A word takes no time but waits its turn.
        """
        path = self.paths[pair]
        if path:
            port = path[hop]
            behind_us = piece[0] * self.piece_us[path[hop - 1]] if hop else 0.0
            begins_us = max(now - behind_us, self.free_us[port])
            now = max(now, begins_us + piece[0] * self.piece_us[port])
            self.free_us[port] = now
        self.later(now, (*pair, hop, *piece))

    def arrived(self, event: tuple[int, ...], now: float) -> None:
        """Behind a port: on to the next, or at the receiver, where the end of something may have come."""
        src, dst, hop, full, ends = event
        pair = (src, dst)
        if hop == 0:
            self.in_queue[pair] -= 1
            self.feed(pair, now)
        if hop + 1 < len(self.paths[pair]):
            self.cross(pair, hop + 1, (full, ends), now)
            return
        if ends & _MESSAGE:
            self.missing[dst] -= 1
            self.woken(dst, now)
        if ends & _WORD:
            self.ready((dst, src), now)

    def ready(self, pair: Pair, now: float) -> None:
        """The receiver of ``pair`` has said that it waits for a message."""
        if self.held[pair]:
            self.unsent[pair[0]] -= 1
            self.write(pair, self.held[pair].popleft(), _MESSAGE, now)
            self.woken(pair[0], now)
        else:
            self.asked[pair] += 1
