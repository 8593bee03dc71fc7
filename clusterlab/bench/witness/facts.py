"""What NCCL's lines say of one process's communicators: connections, variables, warnings, choices."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from clusterlab.core.collectives import collective
from clusterlab.core.measurement import LibrarySaid
from clusterlab.core.rows import Point
from clusterlab.formats.nccl_log_graph import LogConnection, log_connections
from clusterlab.formats.nccl_log_lines import LogLine, log_lines
from clusterlab.formats.nccl_transport import Transport, collnet_transports, transport_of
from clusterlab.formats.nccl_tuning import TuningChoice, read_choice
from clusterlab.formats.nccl_variables import log_variables

_P2P_INDEX = (
    1  # connIndex of sends and receives (src/group.cc: ncclTransportP2pSetup(comm, NULL, 1))
)
_TUNED = frozenset({"all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce"})
_MOST_WARNINGS = 20


@dataclass(frozen=True, slots=True)
class LibraryFacts:
    """What holds for a whole run, as plain data for its run.json and findings.

    ``variables``: those that NCCL says it took from its environment or configuration files; ``refused``:
    those whose value it did not take. ``how``: the way choices were learnt, None where none were.
    ``files``: what the run keeps of NCCL's, by name. ``notes``: what was not learnt, and why;
    ``warnings``: NCCL's own.
    """

    version: str | None = None
    driver_version: str | None = None
    how: str | None = None
    transports: tuple[str, ...] = ()
    gdr: bool | None = None
    variables: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return dataclasses.asdict(self)


class Heard:
    """Takes NCCL's log piece by piece."""

    def __init__(self) -> None:
        self.variables: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self.warnings: list[str] = []
        self._collnet: set[Transport] = set()
        self._of: dict[tuple[int, ...] | None, dict[LogConnection, None]] = {}

    def take(self, text: str, group: tuple[int, ...] | None = None) -> list[TuningChoice]:
        """Remember what ``text`` says; the choices in it. ``group``: the ranks whose call it is of."""
        lines = list(log_lines(text))
        said = log_variables(lines)
        self.variables |= said.taken
        self.refused |= said.refused
        self._of.setdefault(group, {}).update(dict.fromkeys(log_connections(lines)))
        self._collnet.update(collnet_transports(lines))
        self._warn(lines)
        return [choice for choice in (read_choice(line.message) for line in lines) if choice]

    def _warn(self, lines: Sequence[LogLine]) -> None:
        for line in lines:
            known = len(self.warnings) >= _MOST_WARNINGS or line.message in self.warnings
            if line.level == "WARN" and not known:
                self.warnings.append(line.message.strip())

    def transports(self) -> set[Transport]:
        """Of all connections that this process made."""
        made = {transport_of(c.via) for group in self._of.values() for c in group}
        return made | self._collnet

    def used_by(self, point: Point, algorithm: str | None) -> set[Transport]:
        """Of the connections that calls like ``point``'s use; empty where none is known."""
        if algorithm in ("symmetric", "copy_engine"):
            return set()  # both write into the peers' windows without a connection
        own = self._of.get(point.ranks, {})
        if point.ranks is not None and not own:
            every = self._of.get(None, {})
            own = {c: None for c in every if {c.src_rank, c.dst_rank} <= set(point.ranks)}
        tuned = point.collective in _TUNED
        fitting = [c for c in own if c.index is None or (c.index != _P2P_INDEX) == tuned]
        found = {transport_of(c.via) for c in fitting}
        if algorithm in ("nvls", "nvls_tree"):
            found = {t for t in found if not t.name.startswith("P2P")} | {Transport("NVLS", None)}
        elif algorithm is not None and algorithm.startswith("collnet"):
            found |= self._collnet
        return found


def chosen(choices: Sequence[TuningChoice], point: Point) -> TuningChoice | None:
    """The choice for one call of ``point`` among those printed during it.

    NCCL prints the whole buffer or one rank's part, and one line for each call of a group: the most frequent
    of the lines that fit best is taken. Nothing is printed for sends and receives, of which all_to_all,
    gather and scatter are made.
    """
    fitting = [c for c in choices if c.collective in (None, point.collective)]
    part = point.size_bytes // point.world_size
    per_rank = collective(point.collective).per_rank
    sizes = {point.size_bytes, part} if per_rank else {point.size_bytes}
    exact = [c for c in fitting if c.bytes in sizes]
    kinds = Counter(exact or fitting)
    return kinds.most_common(1)[0][0] if kinds else None


def said_of(choice: TuningChoice | None, used: set[Transport]) -> LibrarySaid:
    """A row's part of it, without the versions."""
    names = sorted({t.name for t in used})
    return LibrarySaid(
        algorithm=choice.algorithm if choice else None,
        protocol=choice.protocol if choice else None,
        channels=choice.channels if choice else None,
        time_us=choice.time_us if choice else None,
        transport=",".join(names) or None,
        gdr=all_gdr(used),
    )


def all_gdr(used: set[Transport]) -> bool | None:
    """True where all NICs reach GPU memory directly, None where no NIC takes part."""
    over_nic = [t.gdr for t in used if t.gdr is not None]
    return all(over_nic) if over_nic else None
