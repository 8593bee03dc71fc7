"""Asking every rank what it does, once, and telling why those that do not answer may not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from clusterlab.bench.answering import Address, Answer, NoAnswerError, Question, ask
from clusterlab.bench.trouble import RankSeen, Silence
from clusterlab.launch.identity import RankIdentity

CONNECT_S = 1.0
ANSWER_S = 2.0
"""A witness answers in milliseconds; on a machine with many ranks per core in some hundred."""

_AT_A_TIME = 64

_A = TypeVar("_A")
_B = TypeVar("_B")

LOOK = "look"
STATE = "state"


@dataclass(frozen=True, slots=True)
class _Missed:
    address: Address
    refused: bool
    met: bool


def see_all(known: Sequence[Address], me: RankSeen) -> tuple[RankSeen, ...]:
    """What every rank of ``known`` does, in rank order; ``me`` is this rank, which needs no asking."""

    def see(address: Address) -> RankSeen | _Missed:
        if address.rank == me.rank:
            return me
        try:
            return _seen(address, _ask(address, {"ask": LOOK}, me.host))
        except NoAnswerError as error:
            return _Missed(address, error.refused, error.met)

    found = _together(see, known)
    answered = {seen.rank: seen for seen in found if isinstance(seen, RankSeen)}
    witnesses = {a.host: a for a in known if a.rank in answered}

    def explain(missed: RankSeen | _Missed) -> RankSeen:
        if isinstance(missed, RankSeen):
            return missed
        neighbour = witnesses.get(missed.address.host)
        state = _state_by(neighbour, missed.address.pid, me) if neighbour else None
        return _silent(missed, state)

    return tuple(_together(explain, found))


def tell_all(known: Sequence[Address], word: Question, me: RankIdentity) -> None:
    """Say ``word`` to every rank of ``known`` but this one; who does not hear it is left alone."""

    def tell(address: Address) -> None:
        with suppress(NoAnswerError):
            _ask(address, word, me.host)

    _together(tell, [address for address in known if address.rank != me.rank])


def _ask(address: Address, question: Question, here: str) -> Answer:
    return ask(address, question, here=here, connect_s=CONNECT_S, answer_s=ANSWER_S)


def _together(work: Callable[[_A], _B], items: Iterable[_A]) -> list[_B]:
    todo = list(items)
    with ThreadPoolExecutor(max(1, min(_AT_A_TIME, len(todo)))) as pool:
        return list(pool.map(work, todo))


def _seen(address: Address, answer: Answer) -> RankSeen:
    recorder = answer.get("recorder")
    return RankSeen(
        address.rank,
        address.host,
        address.pid,
        began=int(answer.get("began") or 0),
        inside=bool(answer.get("inside")),
        stack=str(answer.get("stack") or ""),
        recorder=str(recorder) if recorder else None,
    )


def process_state(pid: int) -> str | None:
    """The letter of /proc/PID/stat for a process of this host (``T`` is stopped); None: there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()[0]


def _state_by(neighbour: Address, pid: int, me: RankSeen) -> str | None:
    """What a rank of the same host sees of process ``pid``; ``?`` when it cannot be asked."""
    if neighbour.rank == me.rank:
        return process_state(pid)
    try:
        state = _ask(neighbour, {"ask": STATE, "pid": pid}, me.host).get("state")
    except NoAnswerError:
        return "?"
    return str(state) if state else None


def _silent(missed: _Missed, state: str | None) -> RankSeen:
    """``state``: as ``process_state``, from the rank's own host; None also when no rank there answers."""
    address = missed.address
    if state in ("T", "t"):
        why = Silence.STOPPED
    elif missed.met:
        # Something accepted: the kernel does so for a process that is stopped or busy.
        why = Silence.MUTE if state not in (None, "?") else Silence.UNKNOWN
    elif missed.refused:
        why = Silence.LEFT if state not in (None, "?", "Z", "X") else Silence.GONE
    else:
        why = Silence.UNREACHABLE
    return RankSeen(address.rank, address.host, address.pid, silence=why)
