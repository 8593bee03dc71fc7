"""Where a step's time went on one rank, by interval arithmetic over its ledger. Pure.

    step      |------------------------------------------------------------|
    spans      |data|   forward    |        backward         |reduce|optimizer|
    dp entry                            started.............waited==end
    tp entry            waited===end
    counted    |data|fwd|exposed tp|fwd|    backward         | exp. dp|optimizer|other

An instant belongs to the first that holds it: a collective that the rank calls or waits for (exposed), the
innermost span of computation, a collective nobody noted a wait for, else ``other``. So the parts add up.
Receiving from a neighbour in the pipeline is waiting for it to finish (bubble), except for what the transfer
takes (exposed ``pp``): a handshake before the message tells one from the other (strategies/pp.py), else what
a message takes at least. Without handshakes a wait for a neighbour to take what is sent is counted likewise.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from clusterlab.core.stepping import P2P, Entry, Span

_COMPUTE = ("data", "forward", "backward", "optimizer")
_EXPOSED = "exposed "
_BUBBLE = "bubble"
_OTHER = "other"
_HANDSHAKE = "handshake"


@dataclass(frozen=True, slots=True)
class Breakdown:
    """One rank's step in µs. ``exposed_us``: by axis, only those with any."""

    step_us: float
    data_us: float = 0.0
    forward_us: float = 0.0
    backward_us: float = 0.0
    exposed_us: Mapping[str, float] = field(default_factory=dict)
    bubble_us: float = 0.0
    optimizer_us: float = 0.0
    other_us: float = 0.0

    @property
    def total_us(self) -> float:
        """All parts: the step."""
        own = self.data_us + self.forward_us + self.backward_us + self.optimizer_us
        return own + sum(self.exposed_us.values()) + self.bubble_us + self.other_us


@dataclass(frozen=True, slots=True)
class Piece:
    """An interval with a name; of those that hold an instant the highest ``rank`` counts, then the latest
    to begin.
    """

    start_us: float
    end_us: float
    name: str
    rank: int


def break_down(
    spans: Sequence[Span],
    entries: Sequence[Entry],
    transfer_us: Mapping[int, float] | None = None,
) -> Breakdown:
    """The parts of one step, from its ``spans`` (among them ``step``) and ``entries``.

    ``transfer_us``: what a message of so many bytes takes between neighbours of the pipeline
    (``transfers``), for pipelines without handshakes; else all of a wait to receive is bubble.
    """
    step = next(span for span in spans if span.name == "step")
    pieces = [piece for span in spans if span is not step for piece in _of_span(span)]
    shaken = any(entry.phase == _HANDSHAKE for entry in entries)
    for entry in entries:
        pieces.append(
            Piece(entry.start_us, entry.start_us + _call_us(entry), _EXPOSED + entry.axis, 3)
        )
        if shaken and entry.op == "recv":
            pieces += _received(entry)
        else:
            pieces += _of_entry(entry, None if shaken else transfer_us or {})
    found = painted(pieces, step.start_us, step.end_us)
    exposed = {
        name.removeprefix(_EXPOSED): us for name, us in found.items() if name.startswith(_EXPOSED)
    }
    return Breakdown(
        step_us=step.end_us - step.start_us,
        data_us=found.get("data", 0.0),
        forward_us=found.get("forward", 0.0),
        backward_us=found.get("backward", 0.0),
        exposed_us=exposed,
        bubble_us=found.get(_BUBBLE, 0.0),
        optimizer_us=found.get("optimizer", 0.0),
        other_us=found.get(_OTHER, 0.0),
    )


def transfers(entries: Iterable[Entry]) -> dict[int, float]:
    """What a message takes at least, by its bytes: the shortest wait to receive one.

    A receive is no longer than that when its sender was there first; what is longer waited for it.
    """
    shortest: dict[int, float] = {}
    for entry in entries:
        if entry.op == "recv":
            took = entry.end_us - _waited(entry)
            shortest[entry.size_bytes] = min(took, shortest.get(entry.size_bytes, took))
    return shortest


def exposed_us(entry: Entry, spans: Sequence[Span]) -> float:
    """How long nothing hid ``entry``: its call and the rank's wait for it, or else what lay beside no
    computation.
    """
    if entry.waited_us is not None:
        return max(0.0, entry.end_us - entry.waited_us) + _call_us(entry)
    beside = [piece for span in spans for piece in _of_span(span) if piece.name in _COMPUTE]
    return painted(beside, entry.start_us, entry.end_us).get(_OTHER, 0.0)


def painted(pieces: Iterable[Piece], start_us: float, end_us: float) -> dict[str, float]:
    """How much of start to end each name has; instants that no piece holds are ``other``'s."""
    cut = [Piece(max(p.start_us, start_us), min(p.end_us, end_us), p.name, p.rank) for p in pieces]
    waiting = sorted((p for p in cut if p.start_us < p.end_us), key=lambda p: p.start_us)
    edges = sorted({start_us, end_us, *(p.start_us for p in waiting), *(p.end_us for p in waiting)})
    found: dict[str, float] = {}
    live: list[tuple[int, float, int, Piece]] = []
    taken = 0
    for left, right in itertools.pairwise(edges):
        while taken < len(waiting) and waiting[taken].start_us <= left:
            piece = waiting[taken]
            heapq.heappush(live, (-piece.rank, -piece.start_us, -taken, piece))
            taken += 1
        while live and live[0][3].end_us <= left:
            heapq.heappop(live)
        name = live[0][3].name if live else _OTHER
        found[name] = found.get(name, 0.0) + right - left
    return found


def _of_span(span: Span) -> list[Piece]:
    """A phase may say more than its kind: ``backward_input`` is a backward. ``wait`` is the pipeline's."""
    for kind in _COMPUTE:
        if span.name == kind or span.name.startswith(f"{kind}_"):
            return [Piece(span.start_us, span.end_us, kind, 2)]
    name = _BUBBLE if span.name in (_BUBBLE, "wait") else _OTHER
    return [Piece(span.start_us, span.end_us, name, 2 if name == _BUBBLE else 0)]


def _received(entry: Entry) -> list[Piece]:
    name = _BUBBLE if entry.phase == _HANDSHAKE else _EXPOSED + entry.axis
    return [Piece(_waited(entry), entry.end_us, name, 3)]


def _of_entry(entry: Entry, transfer_us: Mapping[int, float] | None) -> list[Piece]:
    """``transfer_us`` None: handshakes tell waits from transfers."""
    name = _EXPOSED + entry.axis
    late = entry.op == "recv" or entry.waited_us is not None
    if transfer_us is not None and entry.axis == "pp" and entry.op in P2P and late:
        least = transfer_us.get(entry.size_bytes, 0.0)
        begun = max(_waited(entry), entry.end_us - least)
        return [
            Piece(_waited(entry), begun, _BUBBLE, 3),
            Piece(begun, entry.end_us, name, 3),
        ]
    if entry.waited_us is None:
        return [Piece(entry.start_us, entry.end_us, name, 1)]
    return [Piece(entry.waited_us, entry.end_us, name, 3)]


def _call_us(entry: Entry) -> float:
    """What the host spent in the call itself, before the rank waited for it."""
    if entry.issued_us is None:
        return 0.0
    return max(0.0, min(entry.issued_us, _waited(entry)) - entry.start_us)


def _waited(entry: Entry) -> float:
    return entry.start_us if entry.waited_us is None else entry.waited_us
