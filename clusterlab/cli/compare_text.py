"""What `clusterlab compare` prints."""

from __future__ import annotations

from collections.abc import Iterator

from clusterlab.cli.columns import columns
from clusterlab.verdict.against.changes import Change, log_ratio
from clusterlab.verdict.against.comparison import Comparison
from clusterlab.verdict.against.facts import value_words
from clusterlab.verdict.against.noise import band, band_words
from clusterlab.verdict.against.pairing import Pair
from clusterlab.verdict.against.side import label
from clusterlab.verdict.against.to_json import ratio_interval

_MOST_POINTS = 8
_HEADS = ("collective", "sizes", "points", "time B/A", "95 %", "would show", "")
_LAYOUT = ("<12", "<9", ">6", ">8", ">14", ">10", "<4")


def comparison_lines(found: Comparison, *, all_points: bool = False) -> Iterator[str]:
    """Verdict, what differs, changes by group, the points that changed most, where the noise is from."""
    yield f"{found.outcome.value}: {'; '.join(found.reasons)}"
    yield f"A {found.first.name}"
    yield f"B {found.second.name}"
    for note in found.notes:
        yield f"note: {note}"
    if found.differences:
        yield ""
        yield from columns(
            [
                ("differs", "A", "B"),
                *(
                    (f"{one.group}: {one.name}", value_words(one.first), value_words(one.second))
                    for one in found.differences
                ),
            ],
            ("<24", "<12", "<12"),
        )
    elif found.pairs:  # what was refused differs: its reasons say in what
        yield "nothing that both say of themselves differs"
    if not found.changes:
        return
    yield ""
    yield from columns([_HEADS, *(_cells(c) for c in _ordered(found))], _LAYOUT)
    yield ""
    yield from _noise_lines(found)
    yield from _point_lines(found, None if all_points else _MOST_POINTS)


def _ordered(found: Comparison) -> list[Change]:
    return sorted(found.changes, key=lambda change: change.collective is None)


def _cells(change: Change) -> tuple[str, ...]:
    name = change.collective or "all of them"
    name += f", {change.timing}" if change.timing and change.timing != "eager" else ""
    if change.ratio is None or change.low is None or change.high is None or change.seen is None:
        return name, change.band, str(change.points), "–", "–", "–", f"not judged: {change.why}"
    return (
        name,
        change.band,
        str(change.points),
        f"{change.ratio:.3f}",
        f"{change.low:.3f} to {change.high:.3f}",
        f"{change.seen:+.1%}",
        "" if change.what.value == "same" else change.what.value,
    )


def _noise_lines(found: Comparison) -> Iterator[str]:
    yield "how far runs differ by themselves (standard deviation of B/A, of a collective in a band):"
    present = {band(pair.first.size_bytes) for pair in found.pairs}
    for name, noise in (found.noise or {}).items():
        if name in present:
            yield f"  {name} ({band_words(name)}): {noise.source}"


def _point_lines(found: Comparison, most: int | None) -> Iterator[str]:
    noise = found.noise or {}

    def outside(pair: Pair) -> bool:
        _, low, high = ratio_interval(pair, noise[band(pair.first.size_bytes)])
        return not low <= 1 <= high

    shown = [*found.pairs] if most is None else [pair for pair in found.pairs if outside(pair)]
    if not shown:
        return
    if most is not None:
        shown.sort(key=lambda pair: -abs(log_ratio(pair)))
        of = f"{len(shown)} of {len(found.pairs)}"
        yield f"points whose interval leaves out 1 (one in 20 does by chance), {of}:"
    for pair in shown[:most]:
        ratio, low, high = ratio_interval(pair, noise[band(pair.first.size_bytes)])
        yield (
            f"  {label(pair.first)}: {pair.first_us:.4g} and {pair.second_us:.4g} µs, ×{ratio:.3f} "
            f"({low:.3f} to {high:.3f})"
        )
    if most is not None and len(shown) > most:
        yield f"  and {len(shown) - most} more (--points)"
