"""A deadline for every point: a sweep that hangs says where, who is missing and what each rank does.

A collective that one rank never joins blocks the others inside the backend, where no Python exception
reaches them. A second thread watches the clock; a third answers the other ranks (see answering). The
rank that notices first complains to the lowest rank that answers: that one asks everybody, once, and
tells. Then all end.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from clusterlab.bench.answering import (
    Address,
    Answer,
    Directory,
    NoAnswerError,
    Question,
    Witness,
    ask,
)
from clusterlab.bench.faults import LostPeerError, naming_lost_peers
from clusterlab.bench.inquiry import LOOK, STATE, process_state, see_all, tell_all
from clusterlab.bench.recorder import entries_json, recorded
from clusterlab.bench.serving import held_up, silence_of_store, within
from clusterlab.bench.stacks import all_stacks, short_stack
from clusterlab.bench.trouble import Complaint, RankSeen, Trouble
from clusterlab.core.errors import DeadlineError, ExitCode
from clusterlab.launch.identity import RankIdentity

if TYPE_CHECKING:
    from torch.distributed import Store

_COMPLAIN = "complain"
_HEAR = "hear"
_TOLD = "told"
_HEAR_S = 1.0
_INQUIRY_S = 20.0
"""Longer than an inquiry takes, and what follows from it is written, when half of the ranks are gone."""

_LINGER_S = 0.2
"""For the answer to a complaint, before the process that gives it ends."""


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What becomes of a point that does not end.

    Every rank writes its stacks and flight recorder into ``folder``. ``tell`` is called on one rank, before
    the processes end; without an Aftermath that rank prints what is known on stderr.
    """

    folder: Path
    tell: Callable[[Trouble], None]


class Watchdog:
    """Ends this process with exit code 4 when a guarded block outlasts ``deadline_s`` (0: never).

    ``store`` is the job's: by it the ranks find each other. Without one, each speaks for itself only, and
    says whether the store of a start, ``starting_on`` (None while it is being reached), still answers. Use
    it as a context manager, on every rank.
    """

    def __init__(
        self,
        identity: RankIdentity,
        deadline_s: float,
        store: Store | None,
        aftermath: Aftermath | None = None,
        *,
        starting_on: Callable[[], Store | None] | None = None,
    ) -> None:
        self._identity = identity
        self._starting_on = starting_on
        self._deadline_s = deadline_s
        self._store = store
        self._aftermath = aftermath
        self._directory: Directory | None = None
        self._witness: Witness | None = None
        self._changed = threading.Condition()
        self._guarded: tuple[int, str, float] | None = None  # number, label, when it is too late
        self._began = 0
        self._finished: str | None = None
        self._closed = False
        self._inquiry = threading.Lock()
        self._reason: str | None = None  # what was found out, by whomever
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def __enter__(self) -> Watchdog:
        if self._store is not None and self._identity.world_size > 1:
            self._directory = Directory(self._store, self._identity)
            self._witness = Witness(self._identity, self._answer)
            self._directory.tell(self._witness.address)
        if self._deadline_s > 0:
            self._thread.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()
        if self._witness is not None:
            self._witness.close()

    @contextmanager
    def guard(self, number: int, label: str) -> Iterator[None]:
        """Guard point ``number``, called ``label`` in messages. A lost peer is a DeadlineError.

        Point 0 is the start: all ranks must have come through it before any begins point 1.
        """
        if number and self._directory is not None:
            self._directory.learn()
        self._began = number
        self._set((number, label, time.monotonic() + self._deadline_s))
        try:
            with naming_lost_peers(label):
                yield
        except LostPeerError as lost:
            self._set(None)
            raise self._explained(number, label, lost) from lost.__cause__
        finally:
            self._set(None)
        if number:
            self._finished = label

    def _set(self, guarded: tuple[int, str, float] | None) -> None:
        with self._changed:
            self._guarded = guarded
            self._changed.notify()

    def _watch(self) -> None:
        with self._changed:
            while not self._closed:
                if self._guarded is None:
                    self._changed.wait()
                    continue
                number, label, too_late = self._guarded
                left_s = too_late - time.monotonic()
                if left_s <= 0:
                    break
                self._changed.wait(left_s)
            else:
                return
        self._expire(number, label)

    def _expire(self, number: int, label: str) -> None:
        reason = f"not finished within the deadline of {self._deadline_s:g} s"
        complaint = Complaint(self._identity.rank, number, label, reason, passed=True)
        if self._complain(complaint) is None:
            if self._store_is_held_up():
                reason += f"; {silence_of_store(self._identity)}"
            print(f"rank {self._identity.rank}: {label}: {reason}", file=sys.stderr)
            faulthandler.dump_traceback(all_threads=True)
        _end()

    def _store_is_held_up(self) -> bool:
        if self._starting_on is None:
            return False
        store = self._starting_on()
        return store is None or held_up(store, _HEAR_S)

    def _explained(self, number: int, label: str, lost: LostPeerError) -> DeadlineError:
        """The error for a peer that is gone, by name where the ranks can say which it is."""
        complaint = Complaint(self._identity.rank, number, label, lost.reason, passed=False)
        found = self._complain(complaint)
        if found is None:
            return lost.named()
        return DeadlineError(found, fix="the rank that failed first says why; see its log")

    def _complain(self, complaint: Complaint) -> str | None:
        """What is found out, in one sentence, by the lowest rank that answers; None: nobody can be asked."""
        if self._directory is None or self._witness is None:
            return None
        if not self._directory.known:
            within(_HEAR_S, self._directory.learn_some)
        for address in self._directory.known:
            if address.rank >= self._identity.rank or self._reason is not None:
                break
            with suppress(NoAnswerError):
                self._ask(address, {"ask": _HEAR}, _HEAR_S)
                question = {"ask": _COMPLAIN, "complaint": asdict(complaint)}
                return str(self._ask(address, question, _INQUIRY_S)["reason"])
        return self._inquire(complaint)

    def _ask(self, address: Address, question: Question, answer_s: float) -> Answer:
        here = self._identity.host
        return ask(address, question, here=here, connect_s=_HEAR_S, answer_s=answer_s)

    def _answer(self, question: Question) -> Answer:
        """What this rank's witness says."""
        if question.get("ask") == LOOK:
            me = self._look()
            return {
                "began": me.began,
                "inside": me.inside,
                "stack": me.stack,
                "recorder": me.recorder,
            }
        if question.get("ask") == STATE:
            return {"state": process_state(int(question["pid"]))}
        if question.get("ask") == _COMPLAIN:
            complaint = Complaint(**question["complaint"])
            reason = self._inquire(complaint)
            if complaint.passed:
                # This process may be none of those that wait: it ends all the same.
                threading.Timer(_LINGER_S, _end).start()
            return {"reason": reason}
        if question.get("ask") == _TOLD:
            self._reason = str(question["reason"])
        return {}

    def _look(self) -> RankSeen:
        """This rank, and its stacks and flight recorder into the folder."""
        guarded = self._guarded
        flight = None
        with suppress(Exception):  # torch's own format may change; the stack is worth more
            flight = recorded(_backend())
        if self._aftermath is not None:
            with suppress(OSError):
                self._aftermath.folder.mkdir(parents=True, exist_ok=True)
                stem = self._aftermath.folder / f"rank-{self._identity.rank}"
                stem.with_suffix(".stacks.txt").write_text(all_stacks(), encoding="utf-8")
                if flight is not None:
                    stem.with_suffix(".flight.json").write_text(
                        entries_json(flight), encoding="utf-8"
                    )
        return RankSeen(
            self._identity.rank,
            self._identity.host,
            os.getpid(),
            began=self._began,
            inside=guarded is not None,
            stack=short_stack(),
            recorder=flight.summary() if flight is not None else None,
        )

    def _inquire(self, complaint: Complaint) -> str:
        """Ask all ranks and tell, once; whoever complains later gets the same reason."""
        assert self._directory is not None, "only who has a directory hears complaints"
        with self._inquiry:
            if self._reason is None:
                known = self._directory.known
                found = Trouble(complaint, self._finished, see_all(known, self._look()))
                if self._aftermath is not None:
                    self._aftermath.tell(found)
                else:
                    print("\n".join(found.lines()), file=sys.stderr, flush=True)
                self._reason = found.reason
                # Pushed, since this process may be gone when the others come to complain.
                living = {seen.rank for seen in found.ranks if seen.silence is None}
                told = {"ask": _TOLD, "reason": found.reason}
                tell_all([a for a in known if a.rank in living], told, self._identity)
            return self._reason


def _end() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(ExitCode.DEADLINE)


def _backend() -> str:
    import torch.distributed as dist

    return str(dist.get_backend())
