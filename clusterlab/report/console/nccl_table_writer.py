"""nccl-tests' table printed as rows arrive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from clusterlab.core.collectives import OPERATIONS
from clusterlab.core.rows import Row
from clusterlab.report.console.nccl_table import (
    TableKey,
    header_lines,
    point_without_place,
    table_line,
    table_of,
)
from clusterlab.report.text import plain


@dataclass(frozen=True, slots=True)
class GroupWords:
    """What a table of groups says beside their rows: a row's ``name``, lines below the rows of one size, and
    below all.
    """

    name: Callable[[Row], str]
    after_size: Callable[[Sequence[Row]], list[str]]
    after_all: Callable[[Sequence[Row]], list[str]]


class TableWriter:
    """Prints rows as they arrive; a line once both halves of its point are there.

    Every collective gets a table of its own, as its own nccl-tests program would, and so does every way it
    is called. ``places`` says which halves will be measured (False: out of place, True: in place): with
    one only, lines do not wait.
    """

    def __init__(
        self,
        write_line: Callable[[str], None],
        *,
        strict: bool = False,
        per_iteration: bool = False,
        places: Sequence[bool] = (False, True),
        preamble: Callable[[Row], list[str]] | None = None,
        groups: GroupWords | None = None,
    ) -> None:
        """``write_line`` takes one line without its newline; ``preamble`` gives the lines above the
        table that begins with a row. ``groups``: rows are of groups of ranks, several at each size.
        """
        self._write_line = write_line
        self._strict = strict
        self._per_iteration = per_iteration
        self._places = frozenset(places)
        self._preamble = preamble
        self._groups = groups
        self._block: list[Row] = []
        self._table: TableKey | None = None
        self._waiting: dict[tuple[object, ...], Row] = {}
        self._wrong = 0
        self._unchecked = 0
        self._busbw: list[float] = []
        self._rows: list[Row] = []

    def add(self, row: Row) -> None:
        """Take one finished row."""
        if table_of(row) != self._table:
            self.finish()
            self._start(row)
        self._busbw.append(row.busbw_GBps)
        self._rows.append(row)
        self._wrong += row.wrong or 0
        self._unchecked += row.wrong is None
        if len(self._places) < 2:
            self._print(row, None)
            return
        key = point_without_place(row)
        other = self._waiting.pop(key, None)
        if other is not None and other.in_place != row.in_place:
            self._print(other, row)
            return
        if other is not None:  # the same half again: both are shown, neither is lost
            self._print(other, None)
        self._waiting[key] = row

    def finish(self) -> None:
        """Print what still waits for its other half, and the footer. Without rows: nothing."""
        if self._table is None:
            return
        for row in self._waiting.values():
            self._print(row, None)
        self._end_block()
        for line in self._groups.after_all(self._rows) if self._groups else ():
            self._write_line(line)
        for line in self._footer(self._table[0]):
            self._write_line(line)
        self._table = None
        self._waiting = {}
        self._wrong = self._unchecked = 0
        self._busbw = []
        self._rows = []

    def _start(self, row: Row) -> None:
        self._table = table_of(row)
        above = self._preamble(row) if self._preamble else []
        # Said where it is not nccl-tests' own way; its own readers pass comments over.
        way = [f"# Calls: {words}"] if (words := _way(row)) else []
        titles = header_lines(strict=self._strict, per_iteration=self._per_iteration)
        if self._groups and not self._strict:
            titles[2] += "  group"
        for line in (*above, *way, *titles):
            self._write_line(line)

    def _print(self, one: Row, other: Row | None) -> None:
        halves = {row.in_place: row for row in (one, other) if row is not None}
        if self._groups:
            if self._block and _size(self._block[-1]) != _size(one):
                self._end_block()
            self._block += halves.values()
        line = table_line(
            halves.get(False),
            halves.get(True),
            strict=self._strict,
            per_iteration=self._per_iteration,
        )
        if self._groups and self._strict:  # for readers that count columns
            self._write_line(f"# {self._groups.name(one)}")
        elif self._groups:
            line += f"  {self._groups.name(one)}"
        self._write_line(line)

    def _end_block(self) -> None:
        """Below the groups of one size: what they are beside each other."""
        for line in self._groups.after_size(self._block) if self._groups else ():
            self._write_line(line)
        self._block = []

    def _footer(self, collective: str) -> list[str]:
        average = sum(self._busbw) / max(1, len(self._busbw))
        # nccl-tests says OK also when nothing was checked; the line before says what that is worth.
        unchecked = [f"# Data not checked     : {self._unchecked} measurements"]
        return [
            *(unchecked if self._unchecked else []),
            f"# Out of bounds values : {self._wrong} {'FAILED' if self._wrong else 'OK'}",
            f"# Avg bus bandwidth    : {average:g} ",
            "#",
            f"# Collective test concluded: {OPERATIONS[collective].nccl_tests}_perf",
            "#",
        ]


def _size(row: Row) -> tuple[object, ...]:
    return row.dtype, row.op, row.requested_bytes


def _way(row: Row) -> str:
    """How the calls of a table are made, where that is not one plain call after the other."""
    words = [row.timing] if row.timing != "eager" else []
    words += [f"beside {row.beside}"] if row.beside else []
    words += [f"uneven parts: {row.uneven}"] if row.uneven else []
    return plain(", ".join(words))
