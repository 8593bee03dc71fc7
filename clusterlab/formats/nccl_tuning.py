"""What NCCL says of its choice with NCCL_DEBUG_SUBSYS=TUNING, in all the ways its versions print it.

The table of every algorithm and protocol: ``Latency/AlgBw | Tree/ LL |`` (2.5 to 2.13), ``Algorithm |`` over
``Protocol |`` in blocks (since 2.14). The choice for each call: ``N Bytes -> Algo 1 proto 0 time 9.4`` (to
2.22, numbers), the same with the collective (2.23), ``AllReduce: N Bytes -> Algo RING proto LL
channel{Lo..Hi}={0..3}`` (since 2.24), and the symmetric kernels' and copy engines' lines.
Sources: NVIDIA/nccl src/enqueue.cc, src/graph/tuning.cc, src/scheduler/symmetric_sched.cc, src/ce_coll.cc.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from clusterlab.core.collectives import COLLECTIVES, collective
from clusterlab.core.errors import UsageError

ALGORITHMS = ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat")
"""In the order of NCCL's numbers since 2.14; before, 2 was ``collnet``."""

PROTOCOLS = ("ll", "ll128", "simple")

_CHOICE = re.compile(
    r"(?:(?P<collective>\w{3,20})(?: \[(?P<kind>[\w ]{1,40})\])?: +)?(?P<size>\d{1,19}) Bytes +-> "
    r"(?:[Aa]lgo (?P<algo>\w{1,20}) +proto (?P<proto>\w{1,10})(?: +time (?P<time>-?\d+(?:\.\d+)?))?"
    r"(?: +channel\{Lo\.\.Hi\}=\{(?P<low>\d{1,4})\.\.(?P<high>\d{1,4})\})?"
    r"|Kernel (?P<kernel>\w{1,80}) nchannels (?P<channels>\d{1,4})|(?P<other>[^\n]{1,80}))"
)
_CELL = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*/\s*(-?\d+(?:\.\d+)?)\s*")
_SQUASHED = {name.replace("_", ""): name for name in (*ALGORITHMS, "collnet")}
_MOST_KINDS = 20_000


@dataclass(frozen=True, slots=True)
class TuningEntry:
    """One cell: ``latency_us`` and ``algbw_GBps`` of NCCL's own model; 0 GB/s means not usable."""

    collective: str
    algorithm: str
    protocol: str
    latency_us: float
    algbw_GBps: float
    table: int


@dataclass(frozen=True, slots=True)
class TuningChoice:
    """What NCCL chose. ``bytes`` is as printed: with a time the whole buffer, otherwise count times element
    size, for all_gather and reduce_scatter one rank's part. ``algorithm`` is ``symmetric`` or
    ``copy_engine`` for what has neither algorithm nor protocol. ``time_us`` is the time it predicted, None
    where it prints none.
    """

    collective: str | None
    bytes: int
    algorithm: str
    protocol: str | None
    channels: int | None
    time_us: float | None


def read_choice(message: str) -> TuningChoice | None:
    """The choice in an NCCL message; None in all others."""
    if "Bytes" not in message or (found := _CHOICE.search(message)) is None:
        return None
    name = _collective(found["collective"])
    size = int(found["size"])
    if found["kernel"]:
        return TuningChoice(name, size, "symmetric", None, int(found["channels"]), None)
    if found["algo"] is None:
        copied = (found["kind"] or "").endswith(("Copy Engine", "CE"))
        return TuningChoice(name, size, "copy_engine", None, None, None) if copied else None
    algorithm = _numbered(found["algo"], ALGORITHMS) or _algorithm(found["algo"])
    protocol = _numbered(found["proto"], PROTOCOLS) or found["proto"].lower()
    if algorithm is None or protocol not in PROTOCOLS:
        return None
    channels = int(found["high"]) - int(found["low"]) + 1 if found["high"] else None
    time_us = float(found["time"]) if found["time"] else None
    return TuningChoice(name, size, algorithm, protocol, channels, time_us)


class TuningReader:
    """NCCL's messages in; ``entries`` and the ``choices`` with how often each was made."""

    def __init__(self) -> None:
        self.entries: list[TuningEntry] = []
        self.choices: dict[TuningChoice, int] = {}
        self.tables = 0
        self._columns: list[tuple[str, str]] = []
        self._algorithms: list[str] = []
        self._read: dict[str, TuningChoice | None] = {}

    def feed(self, message: str) -> TuningChoice | None:
        """Take one message (what stands behind ``NCCL INFO``); the choice, where it is one."""
        if "-> " in message:
            choice = self._choice(message)
            if choice is not None and (choice in self.choices or len(self.choices) < _MOST_KINDS):
                self.choices[choice] = self.choices.get(choice, 0) + 1
            return choice
        if "|" in message:
            self._feed_table([part.strip() for part in message[:2000].split("|")])
        return None

    def _choice(self, message: str) -> TuningChoice | None:
        """As ``read_choice``: a log repeats a message for each of thousands of calls."""
        if message in self._read:
            return self._read[message]
        choice = read_choice(message)
        if len(self._read) < _MOST_KINDS:
            self._read[message] = choice
        return choice

    def _feed_table(self, cells: list[str]) -> None:
        head, columns = cells[0], [cell for cell in cells[1:] if cell]
        if head == "Latency/AlgBw":
            self.tables += 1
            self._columns = [_pair(cell) for cell in columns]
        elif head == "Algorithm":
            found = [_algorithm(cell) or "" for cell in columns]
            self.tables += found[:1] == ["tree"]
            self._algorithms = found
        elif head == "Protocol":
            # The last block repeats all three protocols three times, whatever algorithms it has.
            each = [cell.lower() for cell in columns[: len(PROTOCOLS)]]
            self._columns = [(algo, proto) for algo in self._algorithms for proto in each]
        elif self._columns and self.tables and len(self.entries) < _MOST_KINDS:
            self._feed_cells(head, columns)

    def _feed_cells(self, head: str, cells: list[str]) -> None:
        name = _collective(head)
        figures = [_CELL.fullmatch(cell) for cell in cells]
        if name is None or len(figures) != len(self._columns):
            return
        for (algorithm, protocol), figure in zip(self._columns, figures, strict=True):
            if figure is not None and algorithm and protocol in PROTOCOLS:
                latency, bandwidth = float(figure.group(1)), float(figure.group(2))
                self.entries.append(
                    TuningEntry(name, algorithm, protocol, latency, bandwidth, self.tables)
                )


def _collective(word: str | None) -> str | None:
    if not word:
        return None
    try:
        name = collective(word).name
    except UsageError:
        return None
    return name if name in COLLECTIVES else None


def _numbered(word: str, names: tuple[str, ...]) -> str | None:
    return names[int(word)] if word.isdecimal() and int(word) < len(names) else None


def _algorithm(word: str) -> str | None:
    """``nvls_tree`` for NCCL's ``NVLSTree``, ``NVLS_TREE``; None for no algorithm of NCCL's."""
    return _SQUASHED.get(word.lower().replace("_", ""))


def algorithm_name(word: str) -> str | None:
    """Our name for an algorithm as NCCL_ALGO spells it; None for what names no single one."""
    return _algorithm(word)


def _pair(cell: str) -> tuple[str, str]:
    algorithm, _, protocol = cell.partition("/")
    return _algorithm(algorithm.strip()) or "", protocol.strip().lower()
