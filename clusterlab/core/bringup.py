"""What bringing up one rank took: from the start of its process to its first collective, and communicators
made again and again.

Times are seconds. A rank's record is plain data: it travels to rank 0 and into the run directory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

PHASES = (
    "start",
    "identity",
    "torch",
    "rendezvous",
    "device",
    "communicator",
    "first_call",
    "second_call",
)
"""In the order in which they are told. ``device`` is left out where there is none to take."""

AFTER_TOTAL = ("second_call",)
"""Phases after the end of the first collective: no part of the total."""

RESOURCES = ("device_bytes", "rss_bytes", "fds", "threads")
"""What a communicator may leave behind: used memory of the whole GPU, resident memory, descriptors and
threads of the process."""


@dataclass(frozen=True, slots=True)
class InitSplit:
    """NCCL's own account of one communicator's init. ``parts`` are its words: kernels, bootstrap, …

    ``function`` is what was called (ncclCommInitRankConfig, ncclCommSplit); None: NCCL does not say.
    """

    function: str | None
    total_s: float
    parts: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Repeated:
    """Communicators made one after the other, each used once and destroyed.

    ``usage`` has for each of RESOURCES (``device_bytes`` only with a GPU) its value before the first
    and after each. ``function`` is NCCL's name of how all were made, ``init_s`` its own time of each.
    """

    create_s: tuple[float, ...]
    first_call_s: tuple[float, ...]
    destroy_s: tuple[float, ...]
    usage: Mapping[str, tuple[float, ...]]
    function: str | None = None
    init_s: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class RankBringup:
    """One rank. ``started_unix_s`` and ``ended_unix_s`` (of the first call) are by its host's clock."""

    rank: int
    host: str
    pid: int
    phases: Mapping[str, float]
    started_unix_s: float
    ended_unix_s: float
    init: InitSplit | None = None
    repeated: Repeated | None = None

    @property
    def total_s(self) -> float:
        """From the start of the process to the end of its first collective."""
        return sum(s for phase, s in self.phases.items() if phase not in AFTER_TOTAL)


@dataclass(frozen=True, slots=True)
class Bringup:
    """All ranks of a job. ``rendezvous`` is how they met (see ``launch.rendezvous.Meeting.way``)."""

    backend: str
    rendezvous: str
    identity_source: str
    versions: str
    ranks: tuple[RankBringup, ...]


def rank_to_json(rank: RankBringup) -> dict[str, Any]:
    """Plain data, which ``rank_from_json`` reads."""
    return {**asdict(rank), "total_s": rank.total_s}


def rank_from_json(data: Mapping[str, Any]) -> RankBringup:
    """What ``rank_to_json`` wrote."""
    fields = {k: v for k, v in data.items() if k != "total_s"}
    if fields["init"] is not None:
        fields["init"] = InitSplit(**fields["init"])
    if fields["repeated"] is not None:
        told: dict[str, Any] = dict(fields["repeated"])
        for name in ("create_s", "first_call_s", "destroy_s", "init_s"):
            told[name] = tuple(told[name])
        told["usage"] = {resource: tuple(column) for resource, column in told["usage"].items()}
        fields["repeated"] = Repeated(**told)
    return RankBringup(**fields)
