"""Which link makes pairs of ranks slow: the one that all slow pairs cross, and no fast one. Pure.

Tomography of a network by its end points: each message takes a known way, so the ways of those that were
slow have the slow link in common, and the ways of those that were not clear every link on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from clusterlab.verdict.run_verdict import quantile

SLOW = 1.25
"""From this many times slower than the fast pairs on a message is slow."""

FAST = 1.1
"""Up to this a message clears the links that it crosses. What lies between accuses none and clears none."""

_REFERENCE = 0.9
"""The quantile of what messages got of what they should that counts as fast. One host's bad link slows
half of the messages of four hosts: their median would be slow too.
"""

_SHARE = 0.8
"""Of the messages that cross a guilty link this many are slow: one may have been lucky, or mismeasured."""

_MOST_NAMED = 8

Step = tuple[str, str]
"""A link in one direction: from a device to a device."""


_Guilt = tuple[int, int, int, tuple[tuple[int, int], ...]]


@dataclass(frozen=True, slots=True)
class Message:
    """From one rank to another: what it got, what it should (None: not known), and the links it crossed."""

    ranks: tuple[int, int]
    GBps: float
    expected_GBps: float | None
    kind: str
    way: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class SlowLink:
    """Links of which one is slow (more than one: nothing that was measured tells them apart).

    ``slow`` of ``crossing`` messages were slow. ``GBps`` is the median of what they got, ``usual_GBps`` of
    what they would have got at the pace of the fast ones. ``depth``: its mean place on their ways.
    """

    steps: tuple[Step, ...]
    slow: int
    crossing: int
    GBps: float
    usual_GBps: float
    ranks: tuple[int, ...]
    depth: float
    both_ways: bool = False

    def __str__(self) -> str:
        """``n3/nic0 ↔ leaf1``, ``n3/nic0 → leaf1 or leaf1 → spine0``."""
        arrow = "↔" if self.both_ways else "→"
        return " or ".join(f"{a} {arrow} {b}" for a, b in self.steps)

    def sentence(self) -> str:
        """What was seen of it."""
        return (
            f"{self}: {self.slow} of the {self.crossing} messages that cross it are slow: "
            f"{self.GBps:.3g} GB/s where others get {self.usual_GBps:.3g}"
        )


def slow_links(messages: Sequence[Message]) -> tuple[SlowLink, ...]:
    """The links that explain the slow ones among ``messages``, the one that explains most first."""
    usual = _usual(messages)
    slowdown = {m.ranks: usual[m.ranks] / m.GBps for m in messages}
    judged = [m for m in messages if slowdown[m.ranks] >= SLOW or slowdown[m.ranks] <= FAST]
    left = {m.ranks for m in judged if slowdown[m.ranks] >= SLOW}
    crossing: dict[Step, list[Message]] = {}
    for message in judged:
        for step in message.way:
            crossing.setdefault(step, []).append(message)
    found = []
    while left:
        best = _most_guilty(crossing, slowdown, left)
        if best is None:
            break
        steps, slow = best
        left -= {m.ranks for m in slow}
        found.append(_slow_link(steps, slow, crossing[steps[0]], usual))
    return tuple(_both_ways(found))


def _both_ways(found: Sequence[SlowLink]) -> list[SlowLink]:
    """Links that are slow in both directions become one."""
    kept: list[SlowLink] = []
    for link in found:
        back = {(b, a) for a, b in link.steps}
        other = next((k for k in kept if not k.both_ways and set(k.steps) == back), None)
        if other is None:
            kept.append(link)
            continue
        # Named in the direction in which messages leave: from a rank, a host, a leaf.
        kept[kept.index(other)] = replace(
            min(other, link, key=lambda one: one.depth),
            both_ways=True,
            slow=other.slow + link.slow,
            crossing=other.crossing + link.crossing,
            ranks=tuple(sorted({*other.ranks, *link.ranks})),
        )
    return kept


def _usual(messages: Sequence[Message]) -> dict[tuple[int, int], float]:
    """What each should get at the pace of the fast ones of its kind: its expectation times what those got of
    theirs, or where one of the kind has no expectation, what they got.
    """
    usual: dict[tuple[int, int], float] = {}
    for kind in {m.kind for m in messages}:
        alike = [m for m in messages if m.kind == kind]
        known = all(m.expected_GBps for m in alike)
        wanted = {m.ranks: (m.expected_GBps or 1.0) if known else 1.0 for m in alike}
        pace = quantile([m.GBps / wanted[m.ranks] for m in alike], _REFERENCE)
        usual |= {ranks: pace * GBps for ranks, GBps in wanted.items()}
    return usual


def _most_guilty(
    crossing: Mapping[Step, Sequence[Message]],
    slowdown: Mapping[tuple[int, int], float],
    left: set[tuple[int, int]],
) -> tuple[tuple[Step, ...], list[Message]] | None:
    """The steps that explain most of ``left``, and the slow messages that cross them; None: no step does."""
    best: dict[_Guilt, tuple[list[Step], list[Message]]] = {}
    for step, messages in crossing.items():
        slow = [m for m in messages if slowdown[m.ranks] >= SLOW]
        explained = sum(m.ranks in left for m in slow)
        # One pair alone accuses all of its way; that is the pair's own line in the table.
        # And a link most of whose slow messages another explains needs none of its own for the few left.
        if explained < max(2, len(slow) / 2) or len(slow) < _SHARE * len(messages):
            continue
        # Of links that explain as many: the one with fewer fast messages, then the one with more slow ones.
        key = (explained, len(slow) - len(messages), len(slow), tuple(m.ranks for m in slow))
        best.setdefault(key, ([], slow))[0].append(step)
    if not best:
        return None
    steps, slow = best[max(best)]
    return tuple(steps[:_MOST_NAMED]), slow


def _slow_link(
    steps: tuple[Step, ...],
    slow: Sequence[Message],
    crossing: Sequence[Message],
    usual: Mapping[tuple[int, int], float],
) -> SlowLink:
    return SlowLink(
        steps=steps,
        slow=len(slow),
        crossing=len(crossing),
        GBps=quantile([m.GBps for m in slow], 0.5),
        usual_GBps=quantile([usual[m.ranks] for m in slow], 0.5),
        ranks=tuple(sorted({rank for m in slow for rank in m.ranks})),
        depth=sum(m.way.index(steps[0]) for m in slow) / len(slow),
    )
