"""Whether points became slower over runs, and since when: by the rules that compare two runs. Pure.

The last runs are compared with those before them as a run is with a baseline: medians over runs, by
collective and band of sizes, against what runs differ by themselves (``baseline/make.py``, from the runs
before, known steps taken out). A step is where the paces of runs prove one (``trend/steps.py``) of
``tolerance`` and more, as passes of a soak do; or, where the recent runs have changed and no step is proven,
where they part from those before. One point far out in all recent runs is named alone
(``against/comparison.py``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from clusterlab.verdict.against.changes import Change, What, changes, grouped, log_ratio
from clusterlab.verdict.against.comparison import far_out
from clusterlab.verdict.against.noise import Noise
from clusterlab.verdict.against.pairing import Pair
from clusterlab.verdict.drift import FALSE_ALARM
from clusterlab.verdict.trend.fleet import slow_nodes
from clusterlab.verdict.trend.model import (
    Alone,
    Cell,
    Key,
    Nodes,
    Once,
    Part,
    Series,
    Shift,
    Trend,
    Window,
)
from clusterlab.verdict.trend.nodes import named, nodes_of
from clusterlab.verdict.trend.spread import noise_before
from clusterlab.verdict.trend.steps import LEAST, split, steps_of
from clusterlab.verdict.trend.windows import paces_of, pair_of

RECENT = 5
BEFORE = 30
"""Runs before that count: older ones say little of how a machine is now."""
TOLERANCE = 0.03
FEWEST_RUNS = 2 * LEAST
"""Fewer do not say how far they differ by themselves."""
_LATE = 40
_NEAR = 5
_CHANGED = (What.REGRESSION, What.IMPROVEMENT)

_Range = tuple[int, int]


def trend_of(
    runs: Sequence[Once],
    series: Sequence[Series],
    *,
    backend: str | None = None,
    one_machine: bool | None = None,
    recent: int = RECENT,
    tolerance: float = TOLERANCE,
) -> Trend:
    """What the last ``recent`` runs (of fewer than three times as many: a third) say beside those before, and
    every lasting shift. ``one_machine``: whether all ran on the same GPUs; None: not known.
    """
    parts = _parts(series)
    for part in parts.values():
        part.starts = steps_of(part.paces, FALSE_ALARM / len(parts))
    windows = {key: _windows(part, recent) for key, part in parts.items()}
    noise = noise_before(
        series,
        [_quiet(part, windows[key]) for key, part in parts.items()],
        backend=backend,
        one_machine=one_machine,
    )
    pairs = {
        key: _pairs(series, part, *windows[key]) if len(part.runs) >= FEWEST_RUNS else []
        for key, part in parts.items()
    }
    found = (
        changes([pair for own in pairs.values() for _, pair in own], dict(noise))
        if any(pairs.values())
        else ()
    )
    by_key = {(c.collective, c.timing, c.band): c for c in found}
    judged = {key: by_key.get(key) or _nothing(key, len(part.runs)) for key, part in parts.items()}
    shifts = _shifts(runs, series, parts, judged, noise=noise, tolerance=tolerance)
    cells = tuple(
        Cell(
            *key,
            series=tuple(part.members),
            runs=len(part.runs),
            change=judged[key],
            before=_window(part, *windows[key][0]),
            recent=_window(part, *windows[key][1]) or Window(0, 0),
            shifts=shifts[key],
        )
        for key, part in parts.items()
    )
    together = tuple(c for c in found if c.collective is None)
    same = {key for key, change in judged.items() if change.what is not What.REGRESSION}
    return Trend(
        cells,
        together,
        _alone(series, {key: own for key, own in pairs.items() if key in same}, noise),
        slow_nodes(runs, parts, noise, tolerance),
        {name: one.source for name, one in noise.items()},
    )


def _parts(series: Sequence[Series]) -> dict[Key, Part]:
    members: dict[Key, list[int]] = {}
    for i, one in enumerate(series):
        key = next(iter(grouped([Pair(one.point, one.point, one.loops)])))
        members.setdefault(key, []).append(i)
    return {key: Part(own, *paces_of([series[i] for i in own])) for key, own in members.items()}


def _windows(part: Part, recent: int) -> tuple[_Range, _Range]:
    """Ranges of places before, and recent. Few runs are divided where they differ most: in a window of fixed
    length some of those before may be slow already, and hide it.
    """
    runs = len(part.runs)
    few = 2 * LEAST <= runs < 3 * recent
    cut = split(part.paces) if few else max(0, runs - min(recent, max(1, runs // 3)))
    return (max(0, cut - BEFORE), cut), (cut, runs)


def _quiet(part: Part, windows: tuple[_Range, _Range]) -> tuple[Part, int, int]:
    """Of which runs the noise is: those before; of few all, each side by itself."""
    (low, cut), (_, high) = windows
    if not 2 * LEAST <= high - low <= BEFORE or cut in part.starts:
        return part, low, cut
    return Part(part.members, part.runs, part.paces, sorted({*part.starts, cut})), low, high


def _window(part: Part, low: int, high: int) -> Window | None:
    return Window(int(part.runs[low]), int(part.runs[high - 1])) if 0 <= low < high else None


def _pairs(
    series: Sequence[Series], part: Part, before: _Range, after: _Range
) -> list[tuple[int, Pair]]:
    """The members' medians, with their places."""
    old, new = part.runs[slice(*before)], part.runs[slice(*after)]
    both = ((i, pair_of(series[i], old, new)) for i in part.members)
    return [(i, pair) for i, pair in both if pair is not None]


def _nothing(key: Key, runs: int) -> Change:
    why = "no point in both windows"
    if runs < FEWEST_RUNS:
        why = (
            f"{runs} steady runs: {FEWEST_RUNS} or more show a trend (clusterlab compare takes two)"
        )
    return Change(*key, 0, What.NO_VERDICT, why=why)


def _shifts(
    runs: Sequence[Once],
    series: Sequence[Series],
    parts: Mapping[Key, Part],
    judged: Mapping[Key, Change],
    *,
    noise: Mapping[str, Noise],
    tolerance: float,
) -> dict[Key, tuple[Shift, ...]]:
    """Proven steps that are large enough, and the place where what changed lately began."""
    found: dict[Key, tuple[Shift, ...]] = {}
    for key, part in parts.items():
        proven = set(part.starts)
        late = _late(part, judged[key])
        if late is not None:
            part.starts = sorted({*part.starts, late})
        own = []
        for (low, at), (_, high) in zip(part.stretches(), part.stretches()[1:], strict=False):
            change = _change(
                series, part, (max(low, at - BEFORE), at), (at, min(high, at + BEFORE)), noise
            )
            if change is None or change.ratio is None:
                continue
            if at in proven and abs(math.log(change.ratio)) < math.log1p(tolerance):
                continue
            own.append(
                _shift(
                    runs,
                    part,
                    change,
                    (low, at, high),
                    tested=at in proven,
                    between=noise[key[2]].between,
                )
            )
        found[key] = tuple(own)
    return found


def _late(part: Part, change: Change) -> int | None:
    """Where a recent change began that no proven step explains."""
    import numpy as np

    if change.what not in _CHANGED or change.ratio is None:
        return None
    n = len(part.paces)
    for low, high in part.stretches():
        if low and n - low <= _LATE:
            size = float(
                np.median(part.paces[low:high]) - np.median(part.paces[max(0, low - BEFORE) : low])
            )
            if size * math.log(change.ratio) > 0:
                return None
    low = max([0, n - _LATE, *[s for s in part.starts if s < n - 2]])
    return low + split(part.paces[low:]) if n - low >= 2 else None


def _change(
    series: Sequence[Series], part: Part, before: _Range, after: _Range, noise: Mapping[str, Noise]
) -> Change | None:
    pairs = [pair for _, pair in _pairs(series, part, before, after)]
    return next(iter(changes(pairs, dict(noise))), None) if pairs else None


def _shift(
    runs: Sequence[Once],
    part: Part,
    change: Change,
    edges: tuple[int, int, int],
    *,
    tested: bool,
    between: float,
) -> Shift:
    import numpy as np

    low, at, high = edges
    old = [runs[i] for i in part.runs[max(low, at - BEFORE) : at]]
    new = [runs[i] for i in part.runs[at:high]]
    relative = part.paces[at:high] - float(np.median(part.paces[max(low, at - BEFORE) : at]))
    size = math.log(change.ratio or 1.0)
    nodes = nodes_of(new, relative, size, between) if size else Nodes(why="nothing changed")
    return Shift(
        int(part.runs[at]), int(part.runs[at - 1]), change, tested, _differs(old, new), nodes
    )


def _differs(old: Sequence[Once], new: Sequence[Once]) -> tuple[str, ...]:
    """What changed for good within _NEAR runs of a step, whose place is known no better."""
    runs, at = [*old, *new], len(old)
    near = sorted(
        range(max(1, at - _NEAR), min(len(runs) - 1, at + _NEAR) + 1), key=lambda i: abs(i - at)
    )
    names = sorted({name for run in runs for name in run.facts})
    values = {
        name.replace("_", " "): [{run.facts[name]} if name in run.facts else set() for run in runs]
        for name in names
    }
    values["hosts"] = [set(run.hosts) for run in runs]
    said = []
    for name, own in values.items():
        for i in near:
            before, after = set().union(*own[:i]), set().union(*own[i:])
            if before and after and not before & after:
                said.append(f"{name}: {named(sorted(before))}, then {named(sorted(after))}")
                if i != at:
                    said[-1] += f" (from {runs[i].name} on)"
                break
    return tuple(said)


def _alone(
    series: Sequence[Series],
    pairs: Mapping[Key, Sequence[tuple[int, Pair]]],
    noise: Mapping[str, Noise],
) -> tuple[Alone, ...]:
    """Series far out in the recent runs, of at least two on either side, and since when."""
    import numpy as np

    places = {id(pair): i for own in pairs.values() for i, pair in own if pair.stated}
    far = far_out([pair for own in pairs.values() for _, pair in own if pair.stated], noise)
    found = []
    for pair in far:
        own = series[places[id(pair)]]
        known = np.flatnonzero(np.isfinite(own.times_us))[-_LATE:]
        at = own.at[known[split(np.log(own.times_us[known]))]]
        found.append(Alone(places[id(pair)], math.exp(log_ratio(pair)), int(at)))
    return tuple(found)
