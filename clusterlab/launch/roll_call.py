"""All ranks present themselves at the store; rank 0 judges; every rank hears the same verdict.

One deadline, one message: whoever is missing or refused is named by rank 0 and told to all, instead of
each rank timing out by itself, or hanging.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from clusterlab.core.errors import (
    ClusterlabError,
    DeadlineError,
    ExitCode,
    NoVerdictError,
    UsageError,
)
from clusterlab.formats.hostlist import compress_hostlist
from clusterlab.launch.identity import RankIdentity

if TYPE_CHECKING:
    from torch.distributed import Store

Record = dict[str, Any]
"""What one rank says of itself: plain JSON data with at least ``rank``, ``host`` and ``pid``."""

Judge = Callable[[Sequence[Record]], ClusterlabError | None]
"""Looks at every rank's record, in rank order; an error refuses the job."""

GRACE_S = 10.0
"""How much longer the others wait for rank 0's verdict than rank 0 waits for them."""

_LINGER_S = 2.0
_POLL_S = 0.05


class RefusedError(ClusterlabError):
    """The job must not start: ranks, devices or sizes do not fit together."""

    exit_code = ExitCode.FINDING


def rank_words(ranks: Sequence[int]) -> str:
    """``rank 3``, ``ranks [3,5-7]``."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    return f"ranks {compress_hostlist(str(r) for r in ranks)}"


def roll_call(
    store: Store,
    identity: RankIdentity,
    name: str,
    record: Record,
    judge: Judge,
    *,
    timeout_s: float,
) -> list[Record] | None:
    """Present ``record`` under ``name`` and wait for the verdict; the records, on rank 0 only.

    Every rank must call it with the same ``name``, once per name and store. Raises DeadlineError
    naming the ranks that did not come within ``timeout_s``, whatever ``judge`` returned, or
    RefusedError when two processes say they are the same rank.
    """
    from torch.distributed import DistError

    try:
        return _run(_Call(store, identity, f"clusterlab/{name}"), record, judge, timeout_s)
    except DistError as error:
        raise DeadlineError(
            "the store went away before the roll call was over",
            where="launch",
            fix="see what the process that served it printed: rank 0, or the first on the first node",
        ) from error


def _run(call: _Call, record: Record, judge: Judge, timeout_s: float) -> list[Record] | None:
    call.present(record, timeout_s)
    if call.identity.rank != 0:
        call.hear_verdict(timeout_s + GRACE_S)
        return None
    records, missing = call.collect(timeout_s)
    error = _absent(records, missing, call.identity, timeout_s) if missing else judge(records)
    call.announce(error, len(records))
    return records


class _Call:
    """The keys of one roll call."""

    def __init__(self, store: Store, identity: RankIdentity, prefix: str) -> None:
        self._store = store
        self.identity = identity
        self._prefix = prefix

    def _key(self, word: str, rank: int | None = None) -> str:
        return f"{self._prefix}/{word}" if rank is None else f"{self._prefix}/{word}/{rank}"

    def present(self, record: Record, timeout_s: float) -> None:
        """Leave the record; refuse to be the second process of one rank."""
        rank = self.identity.rank
        if self._store.add(self._key("claimed", rank), 1) == 1:
            self._store.set(self._key("here", rank), json.dumps(record))
            self._store.add(self._key("arrived"), 1)
            return
        first = self._read(self._key("here", rank), min(timeout_s, GRACE_S)) or {}
        raise RefusedError(
            f"two processes are rank {rank}: {_who(first)} and {_who(record)}",
            where="launch",
            expected="one process per rank",
            fix="start the job by one launcher; leave no variables of an older job in the environment",
        )

    def collect(self, timeout_s: float) -> tuple[list[Record], list[int]]:
        """The records that came, and the ranks that did not. Rank 0 only."""
        ranks, everyone = range(self.identity.world_size), self.identity.world_size
        if self._until(lambda: self._store.add(self._key("arrived"), 0) >= everyone, timeout_s):
            missing: list[int] = []
        else:
            missing = [r for r in ranks if not self._store.check([self._key("here", r)])]
        here = [r for r in ranks if r not in set(missing)]
        return [json.loads(self._store.get(self._key("here", r))) for r in here], missing

    def announce(self, error: ClusterlabError | None, present: int) -> None:
        """Tell every rank; after bad news stay until those present have read it, and raise it."""
        verdict = _pack(error) | {"present": present} if error else {}
        self._store.set(self._key("verdict"), json.dumps(verdict))
        if error is not None:
            self._linger(present)
            raise error

    def hear_verdict(self, timeout_s: float) -> None:
        """Wait for rank 0's verdict and raise it when it is bad."""
        verdict = self._read(self._key("verdict"), timeout_s)
        if verdict is None:
            raise DeadlineError(
                f"rank 0 gave no answer to the roll call within {timeout_s:g} s",
                where="launch",
                fix="see what rank 0 printed: it was late, or died before all ranks were there",
            )
        error = _unpack(verdict)
        if error is not None:
            self._linger(verdict["present"])
            raise error

    def _linger(self, present: int) -> None:
        """Leave only when all have read the verdict: whoever serves the store takes it along."""
        with suppress(RuntimeError):  # the store is gone, and with it whoever served it
            self._store.add(self._key("read"), 1)
            self._until(lambda: self._store.add(self._key("read"), 0) >= present, _LINGER_S)

    def _until(self, done: Callable[[], bool], timeout_s: float) -> bool:
        """Poll: a store's own wait cannot be interrupted and logs its time-out. False: time is up."""
        end, pause_s = time.monotonic() + timeout_s, 0.005
        while not done():
            if time.monotonic() > end:
                return False
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _POLL_S)
        return True

    def _read(self, key: str, timeout_s: float) -> Record | None:
        if not self._until(lambda: self._store.check([key]), timeout_s):
            return None
        record: Record = json.loads(self._store.get(key))
        return record


def _who(record: Record) -> str:
    return f"process {record.get('pid', '?')} on {record.get('host', '?')}"


def _absent(
    records: Sequence[Record], missing: list[int], identity: RankIdentity, timeout_s: float
) -> DeadlineError:
    there = compress_hostlist(dict.fromkeys(str(r.get("host")) for r in records))
    return DeadlineError(
        f"{rank_words(missing)} of {identity.world_size} did not arrive within {timeout_s:g} s"
        f" ({len(records)} arrived, on {there})",
        where="launch",
        fix="see what they printed: they died before they reached the store, or cannot reach"
        f" {identity.host}",
    )


_BY_EXIT_CODE: dict[int, type[ClusterlabError]] = {
    ExitCode.FINDING: RefusedError,
    ExitCode.USAGE: UsageError,
    ExitCode.NO_VERDICT: NoVerdictError,
    ExitCode.DEADLINE: DeadlineError,
}


def _pack(error: ClusterlabError) -> Record:
    return {
        "exit_code": int(error.exit_code),
        "message": error.message,
        "where": error.where,
        "expected": error.expected,
        "fix": error.fix,
    }


def _unpack(verdict: Record) -> ClusterlabError | None:
    if not verdict:
        return None
    error = _BY_EXIT_CODE[verdict["exit_code"]](
        verdict["message"],
        where=verdict["where"],
        expected=verdict["expected"],
        fix=verdict["fix"],
    )
    error.said = True  # by rank 0, for all
    return error
