"""Rank 0 says what to measure, the others do it and answer: over the job's store, not over what is measured.

A hunt's links may be dead. The store is the one that ranks met at, on the management network of a cluster.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from clusterlab.core.errors import DeadlineError
from clusterlab.launch.identity import RankIdentity
from clusterlab.verdict.localise.types import Probe, Round, Way

if TYPE_CHECKING:
    from torch.distributed import Store

Answer = Mapping[str, Any]
Do = Callable[[Probe], Answer]
"""This rank's part of a probe."""

_KEY = "clusterlab/hunt"
_PATIENCE_S = 300.0
"""How long rank 0 may think, beyond what messages take."""

_GRACE_S = 20.0
_END = "end"


@dataclass(frozen=True)
class Line:
    """A rank's line to the others. ``limit_s``: how long its part of a round may take."""

    store: Store
    identity: RankIdentity
    limit_s: float


def give_order(line: Line, number: int, probes: Round) -> None:
    """Rank 0: ``probes`` are round ``number``."""
    text = json.dumps([[p.way, list(p.ranks)] for p in probes])
    line.store.set(f"{_KEY}/{number}", text)


def end_orders(line: Line, number: int) -> None:
    """Rank 0: there is no round ``number``."""
    line.store.set(f"{_KEY}/{number}", _END)


def next_order(line: Line, number: int) -> Round | None:
    """The probes of round ``number``; None: the hunt has ended. Raises DeadlineError for a silent rank 0."""
    key, store = f"{_KEY}/{number}", line.store
    if not waited(store, [key], 2 * line.limit_s + _PATIENCE_S):
        raise DeadlineError("rank 0 has not said what to measure next", fix="see rank 0's log")
    text = store.get(key).decode()
    if text == _END:
        return None
    return tuple(Probe(_way(way), tuple(ranks)) for way, ranks in json.loads(text))


def _way(word: str) -> Way:
    ways: Mapping[str, Way] = {
        "send": "send",
        "send_recv": "send_recv",
        "host": "host",
        "clock": "clock",
        "port": "port",
    }
    return ways[word]


def parties(probe: Probe) -> tuple[int, ...]:
    """The ranks that have a part in a probe: of a port it is the rank that looks."""
    return probe.ranks if probe.way in ("send", "send_recv") else probe.ranks[:1]


def do_order(line: Line, number: int, probes: Round, do: Do) -> None:
    """Begin together with the other ranks of a round, do this rank's part, and answer."""
    store, rank = line.store, line.identity.rank
    mine = [i for i, p in enumerate(probes) if rank in parties(p)]
    if not mine:
        return
    base = f"{_KEY}/{number}"
    all_of_them = len({rank for p in probes for rank in parties(p)})
    if store.add(f"{base}/ready", 1) == all_of_them:
        store.set(f"{base}/go", "1")
    waited(store, [f"{base}/go"], line.limit_s)  # who does not come is seen by its missing answer
    answers = {str(i): do(probes[i]) for i in mine}
    store.set(f"{base}/{rank}", json.dumps(answers))


def answers_to(line: Line, number: int, probes: Round) -> list[dict[int, Answer]]:
    """Of each probe the answers of its ranks. Raises DeadlineError naming the ranks that give none."""
    base, store = f"{_KEY}/{number}", line.store
    everyone = sorted({rank for p in probes for rank in parties(p)})
    end = time.monotonic() + 2 * line.limit_s + _GRACE_S
    silent = [
        rank
        for rank in everyone
        if not waited(store, [f"{base}/{rank}"], max(0.05, end - time.monotonic()))
    ]
    if silent:
        names = ", ".join(map(str, silent[:8]))
        raise DeadlineError(f"rank {names} gave no answer in a round of a hunt", fix="see its log")
    said = {rank: json.loads(store.get(f"{base}/{rank}").decode()) for rank in everyone}
    return [{rank: said[rank][str(i)] for rank in parties(p)} for i, p in enumerate(probes)]


def waited(store: Store, keys: Sequence[str], limit_s: float) -> bool:
    """Whether ``keys`` are there within ``limit_s``."""
    try:
        store.wait(list(keys), timedelta(seconds=limit_s))
    except RuntimeError:  # torch's timeout (DistStoreError) is one
        return False
    return True
