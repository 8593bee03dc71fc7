"""What is known of a point that did not end: data, the words for it, and the finding it makes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from clusterlab.core.findings import Finding, Severity
from clusterlab.launch.roll_call import rank_words

_MOST_NAMED = 16
"""Ranks that do the same and are still named with host and pid; of more, trouble.json has them."""


class Silence(StrEnum):
    """Why a rank did not answer, as far as the others can tell."""

    STOPPED = "stopped by a signal (SIGSTOP), or held by a debugger"
    GONE = "its process is gone"
    LEFT = "it has left the sweep"
    UNREACHABLE = "its node does not answer"
    MUTE = "its process runs, but Python in it does not"
    UNKNOWN = "its host does, it is stopped or held up (no other rank there to look)"


@dataclass(frozen=True, slots=True)
class Complaint:
    """What a rank noticed first. ``number`` counts the sweep's points, ``label`` names this one."""

    rank: int
    number: int
    label: str
    reason: str
    passed: bool  # a deadline passed; else the connection to a peer is lost


@dataclass(frozen=True, slots=True)
class RankSeen:
    """One rank: where it is and, when it answered, what it was doing.

    ``began``: the last point it began. ``inside``: whether it is in it. ``stack``: see stacks.
    ``recorder``: see recorder. ``silence`` is None when it answered.
    """

    rank: int
    host: str
    pid: int
    began: int | None = None
    inside: bool = False
    stack: str = ""
    recorder: str | None = None
    silence: Silence | None = None

    def __str__(self) -> str:
        return f"rank {self.rank} on {self.host} (pid {self.pid})"


@dataclass(frozen=True, slots=True)
class Trouble:
    """A point that did not end, and every rank. ``finished``: the last point that did."""

    complaint: Complaint
    finished: str | None
    ranks: tuple[RankSeen, ...]

    @property
    def silent(self) -> tuple[RankSeen, ...]:
        """The ranks that do not answer."""
        return tuple(r for r in self.ranks if r.silence is not None)

    @property
    def absent(self) -> tuple[RankSeen, ...]:
        """The ranks that answer and had not begun the point."""
        number = self.complaint.number
        return tuple(r for r in self.ranks if r.silence is None and (r.began or 0) < number)

    @property
    def reason(self) -> str:
        """One sentence: the point, what happened to it, and who is to blame."""
        parts = [f"{self.complaint.label}: {self.complaint.reason}"]
        parts += [f"{seen} does not answer: {seen.silence}" for seen in self.silent[:4]]
        if len(self.silent) > 4:
            parts.append(f"nor do {len(self.silent) - 4} more")
        if self.absent:
            parts.append(f"{rank_words([s.rank for s in self.absent])} had not begun it")
        return "; ".join(parts)

    def lines(self) -> list[str]:
        """For people: the reason, the last point that ended, and every rank."""
        last = (
            f"last finished: {self.finished}" if self.finished else "no point was finished before"
        )
        return [self.reason, f"  {last}", *(f"  {line}" for line in self._rank_lines())]

    def _rank_lines(self) -> list[str]:
        same: dict[str, list[RankSeen]] = {}
        for seen in self.ranks:
            same.setdefault(self._does(seen), []).append(seen)
        # The few that differ from the rest first.
        groups = sorted(same.items(), key=lambda group: len(group[1]))
        return [f"{_called(seen)}: {does}" for does, seen in groups]

    def _does(self, seen: RankSeen) -> str:
        if seen.silence is not None:
            return f"does not answer: {seen.silence}"
        flight = f"; flight recorder: {seen.recorder}" if seen.recorder else ""
        return f"{self._where(seen)}, {seen.stack}{flight}"

    def _where(self, seen: RankSeen) -> str:
        if (seen.began or 0) < self.complaint.number:
            return "had not begun the point"
        return "in the point" if seen.inside else "had finished the point"

    def to_json(self) -> dict[str, Any]:
        """Plain data: everything that is known."""
        return asdict(self)


def _called(ranks: Sequence[RankSeen]) -> str:
    if len(ranks) > _MOST_NAMED:
        return rank_words([seen.rank for seen in ranks])
    return ", ".join(map(str, ranks))


_CODES = {
    Silence.STOPPED: "RANK_STOPPED",
    Silence.GONE: "RANK_DIED",
    Silence.LEFT: "RANK_LEFT",
    Silence.UNREACHABLE: "NODE_UNREACHABLE",
    Silence.MUTE: "RANK_DOES_NOT_ANSWER",
    Silence.UNKNOWN: "RANK_DOES_NOT_ANSWER",
}

_FIXES = {
    "RANK_STOPPED": "see who stopped it (a debugger, a shell's Ctrl-Z, a cgroup freezer, a checkpoint)",
    "RANK_DIED": "see that rank's log for its last words, and `dmesg` on its host for the OOM killer "
    "and for Xid errors of its GPU",
    "RANK_LEFT": "see that rank's log: it ended the sweep by itself, and says why",
    "NODE_UNREACHABLE": "see whether the node has power and a network; drain it and start again",
    "RANK_DOES_NOT_ANSWER": "see on its host what the process waits for: /proc/PID/stack, py-spy, "
    "cuda-gdb",
    "RANK_DID_NOT_ARRIVE": "its stack says what it does instead; the stacks of all its threads are in "
    "the run directory, trouble/",
    "CONNECTION_LOST": "all ranks live: see the links and NICs between their hosts",
    "POINT_TOO_SLOW": "all ranks are in it: a link that carries nothing (`clusterlab bench pairs` names "
    "it), a library that waits for itself, or --deadline is shorter than the point takes",
}


def finding_of(trouble: Trouble) -> Finding:
    """The one finding that ``trouble`` makes: the gravest that explains it."""
    if trouble.silent:
        worst = min(
            trouble.silent, key=lambda seen: list(_CODES).index(seen.silence or Silence.MUTE)
        )
        code = _CODES[worst.silence or Silence.UNKNOWN]
        ranks = [s.rank for s in trouble.silent if _CODES[s.silence or Silence.UNKNOWN] == code]
    elif trouble.absent:
        code, ranks = "RANK_DID_NOT_ARRIVE", [seen.rank for seen in trouble.absent]
    else:
        code, ranks = ("POINT_TOO_SLOW" if trouble.complaint.passed else "CONNECTION_LOST"), []
    evidence = tuple(line.strip() for line in trouble.lines())
    return Finding(code, Severity.FATAL, evidence, _FIXES[code], ranks=tuple(ranks))
