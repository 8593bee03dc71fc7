"""What the page of a comparison says, as plain values ready to print; the template only places them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clusterlab.report.compared.charts import Interval, intervals_chart
from clusterlab.report.compared.sizes import CollectiveView, collective_views
from clusterlab.report.numbers import NOT_KNOWN, percent
from clusterlab.report.page.verdict_marks import Mark
from clusterlab.report.svg import Mark as Shape
from clusterlab.report.text import cut, plain
from clusterlab.verdict.against.changes import Change, What
from clusterlab.verdict.against.comparison import Comparison, Outcome
from clusterlab.verdict.against.facts import Difference, value_words
from clusterlab.verdict.against.next_step import NextStep
from clusterlab.verdict.against.noise import band, band_words

MOST_LETTERS = 300
"""Of a value that differs; the rest stands in the run's own files."""

MOST_REASONS = 3
"""Groups named in the first lines; all of them stand in the chart below."""

_OUTCOMES = {
    Outcome.SAME: ("pass", "●", "no regression"),
    Outcome.IMPROVEMENT: ("fast_unexpected", "▲", "improvement"),
    Outcome.REGRESSION: ("slow", "▼", "regression"),
    Outcome.INVALID: ("invalid", "✕", "wrong data"),
    Outcome.NO_VERDICT: ("no_verdict", "○", "no verdict"),
}
GRAVITY = (
    *(Outcome.INVALID, Outcome.REGRESSION, Outcome.NO_VERDICT),
    *(Outcome.IMPROVEMENT, Outcome.SAME),
)
"""The worst first."""

_WHATS = {
    What.REGRESSION: ("slow", "▼", "slower"),
    What.IMPROVEMENT: ("fast_unexpected", "▲", "faster"),
    What.SAME: ("pass", "●", "no change shown"),
    What.NO_VERDICT: ("no_verdict", "○", "not judged"),
}
_ORDER = tuple(_WHATS)
_SHAPES: dict[What, Shape] = {
    What.REGRESSION: "down",
    What.IMPROVEMENT: "up",
    What.SAME: "dot",
    What.NO_VERDICT: "dot",
}

CHANGE_HEADS = ("Collective", "What", "Sizes", "Points", "Time B / A", "95 %", "Would have shown")


@dataclass(frozen=True, slots=True)
class ComparisonView:
    """One comparison. ``changes`` are rows of cells with what each says; ``differences`` group, name and both
    values. ``anchor`` parts its names from those of the others on the page.
    """

    anchor: str
    first: str
    second: str
    mark: Mark
    reasons: tuple[str, ...]
    counts: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    step: NextStep
    differences: tuple[tuple[str, str, str, str], ...]
    compared: bool
    chart: str | None
    changes: tuple[tuple[tuple[str, ...], Mark], ...]
    noise: tuple[tuple[str, str, str], ...]
    collectives: tuple[CollectiveView, ...]


def outcome_mark(outcome: Outcome) -> Mark:
    """The mark of a whole comparison."""
    return Mark(*_OUTCOMES[outcome])


def comparison_view(found: Comparison, step: NextStep, number: int) -> ComparisonView:
    """All values of one comparison, the ``number``-th of its page."""
    changes = sorted(found.changes, key=_rank)
    anchor = f"b{number}"
    return ComparisonView(
        anchor=anchor,
        first=plain(cut(found.first.name)),
        second=plain(cut(found.second.name)),
        mark=outcome_mark(found.outcome),
        reasons=_reasons(found, changes),
        counts=_counts(found),
        notes=tuple(plain(note) for note in found.notes),
        step=NextStep(plain(step.command), plain(step.why)),
        differences=tuple(_difference(one) for one in found.differences),
        compared=bool(found.pairs),
        chart=_chart(changes, anchor),
        changes=tuple((_cells(change), Mark(*_WHATS[change.what])) for change in changes),
        noise=_noise(found),
        collectives=collective_views(found, changes, anchor),
    )


def _reasons(found: Comparison, changes: Sequence[Change]) -> tuple[str, ...]:
    """Why the outcome is what it is; of groups that changed the first few, the worst first."""
    changed = {Outcome.REGRESSION: What.REGRESSION, Outcome.IMPROVEMENT: What.IMPROVEMENT}
    if found.outcome not in changed:
        return tuple(plain(reason) for reason in found.reasons)
    own = [change for change in changes if change.what is changed[found.outcome]]
    left = len(own) - MOST_REASONS
    more = (f"and {left} more groups of points, below",) if left > 0 else ()
    return (*(_said(change) for change in own[:MOST_REASONS]), *more)


def _said(change: Change) -> str:
    """``all_reduce, 16 MiB and above, takes 9.04 times as long (8.90 to 9.20)``."""
    ratio, low, high = (value or 1.0 for value in (change.ratio, change.low, change.high))
    return (
        f"{group_name(change)}, {band_words(change.band)}, takes {ratio:.2f} times as long "
        f"({low:.2f} to {high:.2f})"
    )


def _rank(change: Change) -> tuple[int, bool, float]:
    """Regressions first, then improvements, the rest, what was not judged; the worst first, and collectives
    before all of them together.
    """
    ratio = change.ratio or 1.0
    return _ORDER.index(change.what), change.collective is None, -max(ratio, 1 / ratio)


def _counts(found: Comparison) -> tuple[tuple[str, str], ...]:
    kinds = [change.what for change in found.changes]
    shown = [(str(kinds.count(what)), f"groups {_WHATS[what][2]}") for what in _ORDER]
    return (
        (str(len(found.pairs)), "points in common"),
        *((count, what) for count, what in shown if count != "0"),
        *(
            (str(n), f"points in {side} only")
            for side, n in zip("AB", found.alone, strict=True)
            if n
        ),
    )


def _difference(one: Difference) -> tuple[str, str, str, str]:
    first, second = (_short(plain(value_words(value))) for value in (one.first, one.second))
    return one.group, plain(one.name), first, second


def _short(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]} …"


def group_name(change: Change) -> str:
    """``all_reduce, graph``."""
    name = change.collective or "all collectives"
    timing = f", {change.timing}" if change.timing and change.timing != "eager" else ""
    return plain(name + timing)


def _chart(changes: Sequence[Change], anchor: str) -> str | None:
    """Groups that were judged; None where there are none."""
    shown = []
    for change in changes:
        if change.ratio is None or change.low is None or change.high is None:
            continue
        word = _WHATS[change.what][2]
        title = f"{group_name(change)} · {band_words(change.band)}"
        shown.append(
            Interval(title, word, _SHAPES[change.what], change.ratio, change.low, change.high)
        )
    if not shown:
        return None
    worst = shown[0]
    label = (
        f"Time of B over time of A for {len(shown)} groups of points, with 95 % intervals; first "
        f"{worst.label}: ×{worst.ratio:.2f}. The figures are in the table below."
    )
    return intervals_chart(shown, name=f"{anchor}-groups", label=label)


def _cells(change: Change) -> tuple[str, ...]:
    sizes, points = band_words(change.band), str(change.points)
    if change.ratio is None or change.low is None or change.high is None:
        why = plain(change.why or "")
        return group_name(change), sizes, points, NOT_KNOWN, NOT_KNOWN, f"not judged: {why}"
    seen = NOT_KNOWN if change.seen is None else percent(change.seen, signed=True)
    interval = f"{change.low:.3f} to {change.high:.3f}"
    return group_name(change), sizes, points, f"{change.ratio:.3f}", interval, seen


def _noise(found: Comparison) -> tuple[tuple[str, str, str], ...]:
    present = {band(pair.first.size_bytes) for pair in found.pairs}
    return tuple(
        (band_words(name), percent(noise.between), plain(noise.source))
        for name, noise in (found.noise or {}).items()
        if name in present
    )
