"""nccl-tests' own table, so that what reads nccl-tests reads us: same header, columns and footer.

Formats are those of nccl-tests 2.19 (src/util.cu): 13 columns, ``writeBenchmarkLinePreamble`` and
``writeBenchmarkLineBody``. After them stand predicted busbw, bound busbw and their ratio to the
measurement; ``strict`` leaves those out for parsers that count columns (CloudAI drops every line that
has not exactly 13, SuperBench counts from the right).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from clusterlab.core.collectives import COLLECTIVES
from clusterlab.core.dtypes import DTYPES
from clusterlab.core.placement import Placement
from clusterlab.core.rows import Row
from clusterlab.report.text import plain

_LEFT = "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}"
_HALF = "  {:>7}  {:>6}  {:>6}  {:>6}"
_MODEL = "  {:>7}  {:>7}  {:>6}"

# nccl-tests prints this one character narrower than a number: kept where columns are not continued.
_UNCHECKED = "  N/A"


@dataclass(frozen=True, slots=True)
class TableOptions:
    """What nccl-tests prints above its table. ``step`` is a factor or, with ``step_is_bytes``, bytes."""

    min_bytes: int
    max_bytes: int
    step: float
    step_is_bytes: bool
    warmup: int
    iterations: int
    check: bool
    graph: int = 0


def format_number(value: float, width: int) -> str:
    """``value`` in ``width`` characters as nccl-tests' getFloatStr prints it: 0.01, 123.8, 191953."""
    power = 0
    while value >= 10**power and power < 20:
        power += 1
    if power < width - 2:
        return f"{value:{width}.2f}"
    if power < width - 1:
        return f"{value:{width}.1f}"
    if power < width + 1:
        return f"{value:{width}.0f}"
    return f"{value:{width}.1e}" if width >= 7 else f"{value:{width}.0e}"


def preamble(
    collective: str,
    options: TableOptions,
    placement: Placement,
    *,
    versions: str,
    pids: Sequence[int] = (),
) -> list[str]:
    """The comment lines above the table: who made it, with what options, on which devices.

    ``versions`` replaces nccl-tests' version line (this is not nccl-tests). ``pids`` are the ranks'
    process ids, 0 where not known. A rank without a GPU shows as device ``cpu``.
    """
    step = f"{options.step:g}({'bytes' if options.step_is_bytes else 'factor'})"
    lines = [
        f"# {plain(versions)}",
        f"# Collective test starting: {COLLECTIVES[collective].nccl_tests}_perf",
        f"# nThread 1 nGpus 1 minBytes {options.min_bytes} maxBytes {options.max_bytes} step: {step} "
        f"warmup iters: {options.warmup} iters: {options.iterations} agg iters: 1 "
        f"validation: {int(options.check)} graph: {options.graph} unalign: 0",
        "#",
        "# Using devices",
    ]
    for r in placement.ranks:
        pid = pids[r.rank] if r.rank < len(pids) else 0
        lines.append(
            f"#  Rank {r.rank:2d} Group {0:2d} Pid {pid:6d} on {plain(r.host):>10} device "
            f"{r.local_rank:2d} [{plain(r.gpu or 'cpu')}] {plain(r.gpu_name or 'CPU')}"
        )
    return lines


def header_lines(*, strict: bool) -> list[str]:
    """The column titles."""
    left = _LEFT.format("", "", "", "", "")
    lines = [
        "#",
        f"{left}           out-of-place                       in-place          ",
        _LEFT.format("size", "count", "type", "redop", "root")
        + _HALF.format("time", "algbw", "busbw", "#wrong") * 2,
        _LEFT.format("(B)", "(elements)", "", "", "")
        + _HALF.format("(us)", "(GB/s)", "(GB/s)", "") * 2,
    ]
    if strict:
        # nccl-tests ends its two lower title lines with one blank (an empty timestamp column).
        return [*lines[:2], f"{lines[2]} ", f"{lines[3]} "]
    lines[1] += "              model      "
    lines[2] += _MODEL.format("predict", "bound", "ratio")
    lines[3] += _MODEL.format("(GB/s)", "(GB/s)", "")
    return lines


def table_line(out_of_place: Row | None, in_place: Row | None, *, strict: bool) -> str:
    """One line of the table from the two halves of a point; at least one is there.

    The model columns are those of the out-of-place half where it was measured, else of the other.
    """
    row = out_of_place or in_place
    assert row is not None
    root = -1 if row.root is None else row.root
    line = (
        f"{row.size_bytes:12d}  {row.count:12d}  {DTYPES[row.dtype].nccl_tests:>8}"
        f"  {row.op or 'none':>6}  {root:6d}"
    )
    line += _half(out_of_place, strict=strict) + _half(in_place, strict=strict)
    return line if strict else line + _model(row)


def _half(row: Row | None, *, strict: bool) -> str:
    """Time, algbw, busbw, wrong. A half that was not measured is ``nan`` and not ``N/A`` in its number
    columns: float("nan") reads everywhere nccl-tests is parsed.
    """
    if row is None or row.wrong is None:
        wrong = _UNCHECKED if strict else f"{_UNCHECKED:>6}"
    else:
        wrong = f"{row.wrong:6g}"
    if row is None:
        return f"  {'nan':>7}  {'nan':>6}  {'nan':>6}  {wrong}"
    time = format_number(row.time_us_loop, 7)
    algbw, busbw = format_number(row.algbw_GBps, 6), format_number(row.busbw_GBps, 6)
    return f"  {time}  {algbw}  {busbw}  {wrong}"


def _model(row: Row) -> str:
    def cell(value: float | None, width: int) -> str:
        return "-" if value is None else format_number(value, width)

    return _MODEL.format(
        cell(row.predicted_busbw_GBps, 7), cell(row.bound_busbw_GBps, 7), cell(row.ratio, 6)
    )


class TableWriter:
    """Prints rows as they arrive; a line once both halves of its point are there.

    Every collective gets a table of its own, as its own nccl-tests program would. ``places`` says which
    halves will be measured (False: out of place, True: in place): with one only, lines do not wait.
    """

    def __init__(
        self,
        write_line: Callable[[str], None],
        *,
        strict: bool = False,
        places: Sequence[bool] = (False, True),
        preamble: Callable[[str], list[str]] | None = None,
    ) -> None:
        """``write_line`` takes one line without its newline; ``preamble`` gives the lines above the
        table of a collective.
        """
        self._write_line = write_line
        self._strict = strict
        self._places = frozenset(places)
        self._preamble = preamble
        self._collective: str | None = None
        self._waiting: dict[tuple[object, ...], Row] = {}
        self._wrong = 0
        self._unchecked = 0
        self._busbw: list[float] = []

    def add(self, row: Row) -> None:
        """Take one finished row."""
        if row.collective != self._collective:
            self.finish()
            self._start(row.collective)
        self._busbw.append(row.busbw_GBps)
        self._wrong += row.wrong or 0
        self._unchecked += row.wrong is None
        if len(self._places) < 2:
            self._print(row, None)
            return
        key = _point_without_place(row)
        other = self._waiting.pop(key, None)
        if other is not None and other.in_place != row.in_place:
            self._print(other, row)
            return
        if other is not None:  # the same half again: both are shown, neither is lost
            self._print(other, None)
        self._waiting[key] = row

    def finish(self) -> None:
        """Print what still waits for its other half, and the footer. Without rows: nothing."""
        if self._collective is None:
            return
        for row in self._waiting.values():
            self._print(row, None)
        for line in self._footer():
            self._write_line(line)
        self._collective = None
        self._waiting = {}
        self._wrong = self._unchecked = 0
        self._busbw = []

    def _start(self, collective: str) -> None:
        self._collective = collective
        above = self._preamble(collective) if self._preamble else []
        for line in (*above, *header_lines(strict=self._strict)):
            self._write_line(line)

    def _print(self, one: Row, other: Row | None) -> None:
        halves = {row.in_place: row for row in (one, other) if row is not None}
        self._write_line(table_line(halves.get(False), halves.get(True), strict=self._strict))

    def _footer(self) -> list[str]:
        average = sum(self._busbw) / max(1, len(self._busbw))
        # nccl-tests says OK also when nothing was checked; the line before says what that is worth.
        unchecked = [f"# Data not checked     : {self._unchecked} measurements"]
        return [
            *(unchecked if self._unchecked else []),
            f"# Out of bounds values : {self._wrong} {'FAILED' if self._wrong else 'OK'}",
            f"# Avg bus bandwidth    : {average:g} ",
            "#",
            f"# Collective test concluded: {COLLECTIVES[self._collective or ''].nccl_tests}_perf",
            "#",
        ]


def _point_without_place(row: Row) -> tuple[object, ...]:
    return (
        row.backend,
        row.dtype,
        row.op,
        row.root,
        row.world_size,
        row.requested_bytes,
        row.size_bytes,
    )
