"""A run that is watched, as lines of a given width. Texts of runs are made inert here."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from textwrap import wrap

from clusterlab.core.findings import Verdict
from clusterlab.core.overlap import Overlap
from clusterlab.core.sizes import human_size
from clusterlab.core.soaking import SoakPass
from clusterlab.core.stepping import StepLine
from clusterlab.report.console.overlap import overlap_line
from clusterlab.report.console.progress import describe
from clusterlab.report.console.watching import Left, Record, Seen, SeenRow, Slowest, State
from clusterlab.report.numbers import NOT_KNOWN, percent, ratio, three_digits
from clusterlab.report.text import cut, plain

VERDICT_WORDS = {
    Verdict.PASS: "in its interval",
    Verdict.SLOW: "slow",
    Verdict.FAST_UNEXPECTED: "faster than expected",
    Verdict.NO_VERDICT: "no verdict",
    Verdict.INVALID: "WRONG DATA",
}

_BAR = 24
_SHARES = ("data", "forward", "backward", "bubble", "optimizer", "other")


def head_lines(seen: Seen) -> list[str]:
    """What and where it is: two lines."""
    attempts = len(seen.attempts)
    again = f", attempt {attempts} (requeued or resumed)" if attempts > 1 else ""
    return [
        plain(f"{cut(seen.kind)} {cut(seen.name)}: {cut(seen.run_id)}{again}"),
        plain(seen.said),
    ]


def watch_lines(seen: Seen, width: int, most: int) -> list[str]:
    """All of it on ``width`` columns, with the ``most`` latest records. Sentences are wrapped, tables cut."""
    said = [*head_lines(seen), progress_line(seen, width)]
    said += [in_flight_line(seen), outside_line(seen), slowest_line(seen.slowest)]
    said = [line for line in said if line]
    lines = [part for line in [*said, *map(plain, seen.notes)] for part in wrap(line, width)]
    if seen.last:
        lines += ["", *record_lines(seen.last[-max(1, most) :], width)]
    if seen.tables:
        lines += ["", *(plain(line) for line in seen.tables)]
    return [clipped(line, width) for line in lines]


def progress_line(seen: Seen, width: int = 100) -> str:
    """``[######------] 12 of 64 points, 19 %, about 1 min 20 s left``."""
    words = f"{seen.done} {seen.unit}" if seen.unit else ""
    if seen.planned:
        share = min(1.0, seen.done / seen.planned)
        words = f"{seen.done} of {seen.planned} {seen.unit}, {share:.0%}"
        if width >= 2 * _BAR + 20:
            full = round(share * _BAR)
            words = f"[{'#' * full}{'-' * (_BAR - full)}] {words}"
    return f"{words}, {left_words(seen.left)}" if seen.left else words


def left_words(left: Left) -> str:
    """``about 1 min 20 s left``."""
    how = "at least" if left.at_least else "at most" if left.at_most else "about"
    return f"{how} {span(left.seconds)} left"


def span(seconds: float) -> str:
    """A time for people: ``8 s``, ``1 min 20 s``, ``2 h 5 min``."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def in_flight_line(seen: Seen) -> str:
    """What is measured now, or was when the run died; empty where that is not known."""
    when = "in flight when it died" if seen.state == State.DEAD else "in flight"
    return plain(f"{when}: {seen.in_flight}") if seen.in_flight else ""


def outside_line(seen: Seen) -> str:
    """How many points left their interval, so far; empty where nothing is judged."""
    judged = sum(n for v, n in seen.counts.items() if v != Verdict.NO_VERDICT)
    if not seen.counts or (not judged and not seen.wrong):
        return ""
    slow, fast = seen.counts.get(Verdict.SLOW, 0), seen.counts.get(Verdict.FAST_UNEXPECTED, 0)
    line = f"outside their interval: {slow} slow, {fast} faster than expected, of {judged} judged"
    return f"{line}; WRONG DATA: {seen.wrong} elements" if seen.wrong else line


def slowest_line(slowest: Slowest | None) -> str:
    """``slowest rank: 3 on n1, in 12 of 20, 5 % over the median rank there``."""
    if slowest is None:
        return ""
    where = f" on {plain(cut(slowest.host))}" if slowest.host else ""
    line = f"slowest rank: {slowest.rank}{where}, in {slowest.times} of {slowest.of}"
    if slowest.ratio is None:
        return line
    return f"{line}, {percent(slowest.ratio - 1)} over the median rank there"


def record_lines(records: Sequence[Record], width: int) -> list[str]:
    """Heads and a line each; columns that do not fit are left out, the least telling first."""
    lines: list[str] = []
    rows = [record for record in records if isinstance(record, SeenRow)]
    if rows:
        lines += _table(_ROW_HEADS, [_row_cells(one) for one in rows], width)
    steps = [record for record in records if isinstance(record, StepLine)]
    if steps:
        lines += _table(_STEP_HEADS, [_step_cells(one) for one in steps], width)
        lines += wrap(_breakdown(steps), width)
    passes = [record for record in records if isinstance(record, SoakPass)]
    if passes:
        lines += _table(_PASS_HEADS, [_pass_cells(one) for one in passes], width)
    overlaps = [record for record in records if isinstance(record, Overlap)]
    return [*lines, *map(overlap_line, overlaps)]


def record_line(record: Record) -> str:
    """One record on one line, for a log."""
    if isinstance(record, SeenRow):
        row = record.row
        return plain(
            f"{describe(row.point)}: {three_digits(row.time_us_loop)} us, busbw "
            f"{three_digits(row.busbw_GBps)} GB/s, predicted {three_digits(row.predicted_busbw_GBps)}, "
            f"ratio {ratio(row.ratio)}, {VERDICT_WORDS[record.verdict]}"
        )
    if isinstance(record, StepLine):
        loss = NOT_KNOWN if record.loss is None else f"{record.loss:.4f}"
        return (
            f"step {record.step}: loss {loss}, {three_digits(record.step_us / 1e3)} ms, predicted "
            f"{_ms(record.predicted_us)}, slowest rank {record.slowest_rank}; {_breakdown([record])}"
        )
    if isinstance(record, SoakPass):
        return plain(
            f"pass {record.number}: {record.collective} {record.dtype} {human_size(record.size_bytes)}: "
            f"median {three_digits(record.time_us_p50)} us{_condition(record)}"
        )
    return plain(overlap_line(record))


# Column, how early it is left out where the terminal is narrow (0: never), left or right.
_Head = tuple[str, int, bool]

_ROW_HEADS: tuple[_Head, ...] = (
    ("collective", 0, True), ("dtype", 3, True), ("size", 0, False), ("place", 4, True),
    ("us", 2, False), ("busbw", 0, False), ("predicted", 1, False), ("ratio", 0, False),
    ("verdict", 1, True),
)  # fmt: skip
_STEP_HEADS: tuple[_Head, ...] = (
    ("step", 0, False), ("loss", 0, False), ("ms", 0, False), ("predicted", 1, False),
    ("ratio", 2, False), ("exposed", 3, False), ("slowest rank", 4, False),
)  # fmt: skip
_PASS_HEADS: tuple[_Head, ...] = (
    ("pass", 0, False), ("collective", 0, True), ("size", 0, False), ("median us", 0, False),
    ("p95", 2, False), ("MHz", 3, False), ("C", 3, False), ("wrong", 1, False),
)  # fmt: skip


def _row_cells(seen: SeenRow) -> list[str]:
    row = seen.row
    place = "in" if row.in_place else "out"
    if row.ranks is not None:
        place = describe(row.point).partition("rank")[2].removeprefix("s").strip()
    return [
        row.collective, row.dtype, human_size(row.size_bytes), place, three_digits(row.time_us_loop),
        three_digits(row.busbw_GBps), three_digits(row.predicted_busbw_GBps), ratio(row.ratio),
        VERDICT_WORDS[seen.verdict],
    ]  # fmt: skip


def _step_cells(step: StepLine) -> list[str]:
    predicted = step.predicted_us
    return [
        str(step.step), NOT_KNOWN if step.loss is None else f"{step.loss:.4f}",
        three_digits(step.step_us / 1e3), _ms(predicted),
        ratio(step.step_us / predicted if predicted else None),
        three_digits(sum(step.exposed_us.values()) / 1e3), str(step.slowest_rank),
    ]  # fmt: skip


def _pass_cells(one: SoakPass) -> list[str]:
    return [
        str(one.number), one.collective, human_size(one.size_bytes), three_digits(one.time_us_p50),
        three_digits(one.time_us_p95), three_digits(one.gpu_clock_mhz), three_digits(one.gpu_temp_c),
        NOT_KNOWN if one.wrong is None else str(one.wrong),
    ]  # fmt: skip


def _condition(one: SoakPass) -> str:
    words = f", {one.gpu_clock_mhz:.0f} MHz" if one.gpu_clock_mhz is not None else ""
    return f"{words}, WRONG DATA: {one.wrong} elements" if one.wrong else words


def _ms(us: float | None) -> str:
    return three_digits(None if us is None else us / 1e3)


def _breakdown(steps: Sequence[StepLine]) -> str:
    """Where the time of ``steps`` went: ``forward 20 %, …``."""
    whole = sum(step.step_us for step in steps) or 1.0
    parts = {name: sum(getattr(s, f"{name}_us") for s in steps) for name in _SHARES}
    axes = dict.fromkeys(axis for step in steps for axis in step.exposed_us)
    parts |= {f"exposed {a}": sum(s.exposed_us.get(a, 0.0) for s in steps) for a in axes}
    shares = sorted(((us / whole, name) for name, us in parts.items()), reverse=True)
    return plain(", ".join(f"{name} {percent(share)}" for share, name in shares if share > 0.005))


def _table(heads: Sequence[_Head], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    cells = [[name for name, _, _ in heads], *([plain(cut(c)) for c in row] for row in rows)]
    widths = [max(cell_width(row[i]) for row in cells) for i in range(len(heads))]
    kept = list(range(len(heads)))
    while sum(widths[i] + 2 for i in kept) - 2 > width:
        droppable = [i for i in kept if heads[i][1]]
        if not droppable:
            break
        kept.remove(max(droppable, key=lambda i: heads[i][1]))
    return [
        "  ".join(_padded(row[i], widths[i], left=heads[i][2]) for i in kept).rstrip()
        for row in cells
    ]


def _padded(text: str, width: int, *, left: bool) -> str:
    space = " " * (width - cell_width(text))
    return text + space if left else space + text


def cell_width(text: str) -> int:
    """Columns that ``text`` takes on a terminal."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def clipped(text: str, width: int) -> str:
    """``text`` on ``width`` columns, its end marked where it is cut."""
    if cell_width(text) <= width:
        return text
    kept, taken = [], 1
    for c in text:
        taken += cell_width(c)
        if taken > width:
            break
        kept.append(c)
    return "".join(kept) + "…"
