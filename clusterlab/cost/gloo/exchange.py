"""gloo's all_to_all, call after call: a late rank makes its peers answer late, and its next call begins late.

A message goes when both ranks have asked for it: the sender by its call, the receiver by a word that its
buffer is there (localPendingSend_ and NOTIFY_RECV_READY in gloo/transport/tcp/pair.cc). For i = 1, 2, … a
rank posts the send to rank + i, then the receive from rank - i (gloo/alltoall.cc). To a rank that is late the
peers' words have come already: it writes the message to rank + i at once, and for i up to n/2 the word to
that rank goes on the same connection later, behind all of the message. So half of its peers answer only when
they have its message. It ends late by as much, and is the late one of the next call. Ranks never end quite
together, so calls that began together come to this by themselves.

What is played out is just this: messages in pieces, through ports that serve in order of arrival. A
connection has two pieces at most in its own NIC's queue (TCP small queues in Linux), so those of a rank take
turns there.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import deque
from collections.abc import Mapping, Sequence

Path = tuple[int, ...]
"""Ports in the order of crossing; none between ranks that share a host."""

PIECE_BYTES = 1 << 16
"""What TCP hands to a NIC at once (GSO)."""

_WORD, _MESSAGE = 1, 2
_IN_QUEUE = 2
_SETTLING = 4
_CALLS = 8
_LATENESS = 0.02
"""How much later than it could a rank begins, at most, in messages' times. Only the order matters."""


def calls_us_per_byte(
    groups: Sequence[Sequence[int]],
    paths: Mapping[tuple[int, int], Path],
    GBps: Sequence[float],
    pieces: int,
    orders: int,
) -> float:
    """µs a call takes for each byte of a message, of ``groups`` of ranks that exchange at the same time.

    ``paths`` are of all pairs of a group, ``GBps`` of the ports. A message goes in ``pieces``. The mean over
    calls back to back, and over ``orders`` random orders in which ranks begin, always the same ones.
    """
    if not any(paths.values()):
        return 0.0
    plays = (_Play(groups, paths, GBps, pieces, seed) for seed in range(orders))
    return sum(play.us_per_call() for play in plays) / orders


class _Play:
    """One run of the calls. Times are µs for messages of one byte."""

    def __init__(
        self,
        groups: Sequence[Sequence[int]],
        paths: Mapping[tuple[int, int], Path],
        GBps: Sequence[float],
        pieces: int,
        seed: int,
    ) -> None:
        self.place = {rank: (i, group) for group in groups for i, rank in enumerate(group)}
        self.paths = paths
        self.piece_us = [1e-3 / pieces / rate for rate in GBps]
        self.pieces = pieces
        self.random = random.Random(seed)
        self.latest_us = _LATENESS * pieces * min(self.piece_us)
        self.events: list[tuple[float, int, tuple[int, ...]]] = []
        self.number = itertools.count()
        self.free_us = [0.0] * len(GBps)
        self.waiting: dict[tuple[int, int], deque[tuple[int, int]]] = {
            pair: deque() for pair in paths
        }
        self.in_queue = dict.fromkeys(paths, 0)
        self.asked = dict.fromkeys(paths, 0)
        self.held = dict.fromkeys(paths, 0)
        self.missing = dict.fromkeys(self.place, 0)
        self.ended: dict[int, list[float]] = {rank: [] for rank in self.place}

    def us_per_call(self) -> float:
        """From the end of the settling calls to the last one's, on the slowest rank."""
        for rank in self.place:
            self.later(self.random.random() * self.latest_us, (rank,))
        while self.events:
            now, _, event = heapq.heappop(self.events)
            if len(event) == 1:
                self.enter(event[0], now)
            else:
                self.arrived(event, now)
        first = max(times[_SETTLING - 1] for times in self.ended.values())
        last = max(times[-1] for times in self.ended.values())
        return (last - first) / _CALLS

    def later(self, at_us: float, event: tuple[int, ...]) -> None:
        heapq.heappush(self.events, (at_us, next(self.number), event))

    def enter(self, rank: int, now: float) -> None:
        """Post everything of a call."""
        me, group = self.place[rank]
        n = len(group)
        self.missing[rank] += n - 1
        for i in range(1, n):
            to = (rank, group[(me + i) % n])
            if self.asked[to]:
                self.asked[to] -= 1
                self.send(to, _MESSAGE, now)
            else:
                self.held[to] += 1
            self.send((rank, group[(me - i) % n]), _WORD, now)

    def send(self, pair: tuple[int, int], what: int, now: float) -> None:
        """Onto the connection, behind what is there: a message, or the word that one may come."""
        self.waiting[pair].append((self.pieces if what == _MESSAGE else 0, what))
        self.feed(pair, now)

    def feed(self, pair: tuple[int, int], now: float) -> None:
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

    def cross(self, pair: tuple[int, int], hop: int, piece: tuple[int, int], now: float) -> None:
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
            self.received(dst, now)
        if ends & _WORD:
            self.ready(dst, src, now)

    def ready(self, rank: int, peer: int, now: float) -> None:
        """``peer`` has said that it waits for a message of ``rank``."""
        if self.held[rank, peer]:
            self.held[rank, peer] -= 1
            self.send((rank, peer), _MESSAGE, now)
        else:
            self.asked[rank, peer] += 1

    def received(self, rank: int, now: float) -> None:
        self.missing[rank] -= 1
        if self.missing[rank] == 0:
            self.ended[rank].append(now)
            if len(self.ended[rank]) < _SETTLING + _CALLS:
                self.later(now + self.random.random() * self.latest_us, (rank,))
