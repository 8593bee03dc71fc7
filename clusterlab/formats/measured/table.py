"""The lines of a log sorted into tables: which options, devices and versions each row belongs to.

A file may hold several runs one after the other, and runs of several processes at once: a program built
without MPI prints one whole table per process, their rows mixed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from clusterlab.formats.nccl_tests import NcclTestsRow
from clusterlab.formats.nccl_tests_lines import (
    Closing,
    Options,
    Program,
    Said,
    TestRank,
    Version,
)
from clusterlab.formats.nccl_tuning import TuningChoice

_MOST_RANKS = 200_000


@dataclass(slots=True)
class Table:
    """One run as its lines tell it. ``nccl_ranks``: (ranks, nodes, ranks per node) of NCCL's own lines;
    ``closed`` counts closing lines, one per process; ``iterations`` are per row where the tool prints them.
    """

    program: str | None = None
    program_said: bool = False
    options: list[Options] = field(default_factory=list)
    ranks: list[TestRank] = field(default_factory=list)
    headers: int = 0
    rows: list[NcclTestsRow] = field(default_factory=list)
    closed: int = 0
    wrong: int = 0
    versions: list[Version] = field(default_factory=list)
    nccl_ranks: set[tuple[int, int | None, int | None]] = field(default_factory=set)
    choices: dict[TuningChoice, int] = field(default_factory=dict)
    forced_algorithm: str | None = None
    forced_protocol: str | None = None
    mscclpp: bool = False

    @property
    def processes(self) -> int:
        """How many processes count themselves rank 0 and print a table of their own."""
        alone = all(rank.rank == 0 for rank in self.ranks)
        firsts = {(rank.host, rank.pid) for rank in self.ranks} if alone else set()
        return max(1, len(firsts), self.headers, self.closed)


class TableBuilder:
    """Lines' meanings in, in order; ``tables`` out."""

    def __init__(self) -> None:
        self.tables: list[Table] = []
        self.current = Table()
        self._program: Program | None = None
        self._averages = 0
        self._banners = 0

    def say(self, said: Said) -> None:
        """Take what a line says."""
        if isinstance(said, Program):
            self._take_program(said)
        elif isinstance(said, Options):
            self._take_options(said)
        elif isinstance(said, TestRank):
            if len(self.current.ranks) < _MOST_RANKS:
                self.current.ranks.append(said)
        elif isinstance(said, Closing):
            self._close(said)
        elif isinstance(said, Version):
            if said.tool is not None and self.current.rows:
                self._begin()
            self.current.versions.append(said)

    def header(self) -> None:
        """A header: another process's of this run, or a new table's."""
        table = self.current
        expected = max(table.processes, self._banners)
        if table.rows and table.headers >= expected:
            self._begin()
        self._use_program()
        self.current.headers += 1

    def row(self, row: NcclTestsRow) -> None:
        """A row: behind the last closing line it belongs to a table without a header."""
        table = self.current
        if table.closed and self._averages >= max(table.processes, self._banners):
            self._begin()
        self._use_program()
        self.current.rows.append(row)

    def finish(self) -> list[Table]:
        """All tables that have rows."""
        self._begin()
        return self.tables

    def _begin(self) -> None:
        self._use_program()
        if self.current.rows:
            self.tables.append(self.current)
        self.current = Table()
        self._averages = self._banners = 0

    def _take_program(self, program: Program) -> None:
        table = self.current
        if program.said and table.rows and table.program in {None, program.name}:
            table.program, table.program_said = program.name, True
        else:
            self._program = program

    def _use_program(self) -> None:
        """The command or first line seen last names the table that begins behind it."""
        if self._program is not None and not self.current.rows:
            self.current.program = self._program.name
            self.current.program_said = self._program.said
            self._program = None

    def _take_options(self, options: Options) -> None:
        if self.current.rows:
            self._begin()
        if any(rank.rank > 0 for rank in self.current.ranks) and not self.current.headers:
            # A run that came to nothing; processes that count themselves rank 0 list one device each.
            self.current.ranks.clear()
            self.current.options.clear()
            self._banners = 0
        self.current.options.append(options)
        self._banners += 1
        self._use_program()

    def _close(self, closing: Closing) -> None:
        self.current.wrong += closing.wrong or 0
        if closing.average_GBps is not None:
            self._averages += 1
        self.current.closed = max(self._averages, 1)
