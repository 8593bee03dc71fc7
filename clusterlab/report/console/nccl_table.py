"""nccl-tests' own table, so that what reads nccl-tests reads us: same header, columns and footer.

Formats are those of nccl-tests 2.19 (src/util.cu): 13 columns, ``writeBenchmarkLinePreamble`` and
``writeBenchmarkLineBody``. After them stand predicted busbw, bound busbw and their ratio to the
measurement; ``strict`` leaves those out for parsers that count columns (CloudAI drops every line that
has not exactly 13, SuperBench counts from the right). ``per_iteration`` puts four columns after each half,
as nccl-tests does with ``-I 1``; the figures are those of the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from clusterlab.core.collectives import OPERATIONS
from clusterlab.core.dtypes import DTYPES
from clusterlab.core.placement import Placement
from clusterlab.core.rows import Row
from clusterlab.report.text import plain

_LEFT = "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}"
_HALF = "  {:>7}  {:>6}  {:>6}  {:>6}"
_PER_ITERATION = "  {:>7}" * 4
_MODEL = "  {:>7}  {:>7}  {:>6}"

# nccl-tests prints this one character narrower than a number: kept where columns are not continued.
_UNCHECKED = "  N/A"


@dataclass(frozen=True, slots=True)
class TableOptions:
    """What nccl-tests prints above its table. ``step`` is a factor or, with ``step_is_bytes``, bytes.

    ``warmup`` and ``iterations`` None: as many as it takes at each point. ``graph``: how many calls a CUDA
    graph holds, 0 without one. ``aggregated`` calls are one group.
    """

    min_bytes: int
    max_bytes: int
    step: float
    step_is_bytes: bool
    warmup: int | None
    iterations: int | None
    check: bool
    graph: int = 0
    aggregated: int = 1
    blocking: bool = False
    per_iteration: bool = False


def options_of(options: TableOptions, row: Row) -> TableOptions:
    """``options`` as they were for ``row``: one run may hold calls of several kinds."""
    graph = (row.calls_per_graph or 1) if row.timing == "graph" else 0
    return replace(
        options,
        graph=graph,
        aggregated=row.aggregated,
        blocking=row.blocking,
    )


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
        f"# Collective test starting: {OPERATIONS[collective].nccl_tests}_perf",
        f"# nThread 1 nGpus 1 minBytes {options.min_bytes} maxBytes {options.max_bytes} step: {step} "
        f"warmup iters: {_count(options.warmup)} iters: {_count(options.iterations)} "
        f"agg iters: {options.aggregated} "
        f"validation: {int(options.check)} graph: {options.graph} unalign: 0",
    ]
    if options.blocking:
        lines.append("# Blocking Enabled: wait after each inner iteration (-m), no barrier ")
    if options.per_iteration:
        lines.append("# Per-Iteration Report: a pass of its own; i_* uses max over ranks ")
    lines += ["#", "# Using devices"]
    for r in placement.ranks:
        pid = pids[r.rank] if r.rank < len(pids) else 0
        lines.append(
            f"#  Rank {r.rank:2d} Group {0:2d} Pid {pid:6d} on {plain(r.host):>10} device "
            f"{r.local_rank:2d} [{plain(r.gpu or 'cpu')}] {plain(r.gpu_name or 'CPU')}"
        )
    return lines


def _count(value: int | None) -> str:
    return "auto" if value is None else str(value)


_PLACES = "           out-of-place                       in-place          "
_PLACES_PER_ITERATION = f"{'':14}out-of-place (+ per-iteration){'':32}in-place (+ per-iteration)"


def header_lines(*, strict: bool, per_iteration: bool = False) -> list[str]:
    """The column titles."""
    titles = _HALF.format("time", "algbw", "busbw", "#wrong")
    units = _HALF.format("(us)", "(GB/s)", "(GB/s)", "")
    if per_iteration:
        titles += _PER_ITERATION.format("i_min", "i_max", "i_p99", "i_cv%")
        units += _PER_ITERATION.format("(us)", "(us)", "(us)", "(%)")
    places = _PLACES_PER_ITERATION if per_iteration else _PLACES
    lines = [
        "#",
        _LEFT.format("", "", "", "", "") + places,
        _LEFT.format("size", "count", "type", "redop", "root") + titles * 2,
        _LEFT.format("(B)", "(elements)", "", "", "") + units * 2,
    ]
    if strict:
        # nccl-tests ends its two lower title lines with one blank (an empty timestamp column).
        return [*lines[:2], f"{lines[2]} ", f"{lines[3]} "]
    if per_iteration:
        lines[1] = lines[1].ljust(len(lines[2]))
    lines[1] += "              model      "
    lines[2] += _MODEL.format("predict", "bound", "ratio")
    lines[3] += _MODEL.format("(GB/s)", "(GB/s)", "")
    return lines


def table_line(
    out_of_place: Row | None, in_place: Row | None, *, strict: bool, per_iteration: bool = False
) -> str:
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
    for half in (out_of_place, in_place):
        line += _half(half, strict=strict)
        if per_iteration:
            line += _spread(half)
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


def _spread(row: Row | None) -> str:
    """Least, most, p99 and cv of the single iterations; ``nan`` where not known."""
    if row is None:
        return _PER_ITERATION.format(*["nan"] * 4)
    figures = (row.time_us_min, row.time_us_max, row.time_us_p99, 100 * row.cv)
    return _PER_ITERATION.format(*("nan" if f is None else format_number(f, 7) for f in figures))


def _model(row: Row) -> str:
    def cell(value: float | None, width: int) -> str:
        return "-" if value is None else format_number(value, width)

    return _MODEL.format(
        cell(row.predicted_busbw_GBps, 7), cell(row.bound_busbw_GBps, 7), cell(row.ratio, 6)
    )


TableKey = tuple[str, str, str | None, str | None]


def table_of(row: Row) -> TableKey:
    """Rows of one table share these: the collective, and the way it is called."""
    return row.collective, row.timing, row.beside, row.uneven


def point_without_place(row: Row) -> tuple[object, ...]:
    """Rows that share these are the two halves of one line."""
    return (
        row.ranks,
        row.backend,
        row.dtype,
        row.op,
        row.root,
        row.world_size,
        row.requested_bytes,
        row.size_bytes,
    )
