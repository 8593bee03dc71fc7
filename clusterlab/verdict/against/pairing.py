"""Which points two sides share, and why two sides cannot be compared. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from clusterlab.core.sizes import human_size
from clusterlab.verdict.against.side import Side, Timed, by_key, known_values, normal

FABRIC = "fabric"
ALLOWABLE = (FABRIC,)
"""What the user may allow to differ."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One point of both sides. ``first_us`` and ``second_us`` are compared: medians, or loops where either
    side has nothing else.
    """

    first: Timed
    second: Timed
    loops: bool

    @property
    def first_us(self) -> float:
        """The first side's time."""
        return self.first.time_us(loops=self.loops)

    @property
    def second_us(self) -> float:
        """The second side's time."""
        return self.second.time_us(loops=self.loops)

    @property
    def stated(self) -> bool:
        """Whether both state an interval of the time that is compared."""
        return not self.loops and self.first.low_us is not None and self.second.low_us is not None


@dataclass(frozen=True, slots=True)
class Paired:
    """``refusals``: why nothing can be compared, with what could be. ``first_only`` and ``second_only`` count
    the points that one side has alone. ``notes`` say what was assumed; ``ours`` and ``theirs`` are all points
    of both sides, in their order, as they were paired.
    """

    pairs: tuple[Pair, ...]
    refusals: tuple[str, ...]
    first_only: int
    second_only: int
    notes: tuple[str, ...] = ()
    ours: tuple[Timed, ...] = ()
    theirs: tuple[Timed, ...] = ()


def pair(first: Side, second: Side, allowed: Collection[str] = ()) -> Paired:
    """The points that both sides have, or why there are none to compare."""
    refusals = _refusals(first, second, allowed)
    ours, theirs, notes = _alike(first, second)
    loops = any(point.p50_us is None for point in (*ours, *theirs))
    known = by_key(theirs)
    pairs = tuple(Pair(p, known[p.key], loops) for p in ours if p.key in known)
    if not pairs and not refusals:
        refusals = (_nothing_in_common(ours, theirs),)
    return Paired(
        () if refusals else pairs,
        refusals,
        len(ours) - len(pairs),
        len(theirs) - len(pairs),
        notes,
        tuple(ours),
        tuple(theirs),
    )


def _alike(first: Side, second: Side) -> tuple[Sequence[Timed], Sequence[Timed], tuple[str, ...]]:
    """Both sides' points, what one leaves unsaid filled in from the other where that says one thing only."""
    ours, theirs = [*first.points], [*second.points]
    notes = []
    if first.foreign or second.foreign:
        ours, theirs = [normal(p) for p in ours], [normal(p) for p in theirs]
    for name in ("dtype", "timing"):
        for side, mine, others in ((first, ours, theirs), (second, theirs, ours)):
            said = {getattr(p, name) for p in others} - {None}
            if len(said) == 1 and any(getattr(p, name) is None for p in mine):
                value = said.pop()
                mine[:] = [
                    replace(p, **{name: value}) if getattr(p, name) is None else p for p in mine
                ]
                notes.append(f"{side.name} does not say its {_WORDS[name]}: taken as {value}")
    return ours, theirs, tuple(notes)


_WORDS = {"dtype": "element type", "timing": "timing mode", "world_size": "ranks"}


def _refusals(first: Side, second: Side, allowed: Collection[str]) -> tuple[str, ...]:
    """What must be the same and is not."""
    if not first.points or not second.points:
        empty = first if not first.points else second
        return (f"{empty.name} holds no point with a time",)
    found = []
    for name in ("world_size", "timing"):
        mine, others = known_values(first.points, name), known_values(second.points, name)
        if None not in {*mine, *others} and not set(mine) & set(others):
            found.append(
                f"other {_WORDS[name]}: {_listed(mine)} and {_listed(others)}; comparable would be two "
                f"runs with the same {_WORDS[name]}"
            )
    if first.backend and second.backend and first.backend != second.backend:
        found.append(
            f"other backend: {first.backend} and {second.backend}; comparable would be two runs of one"
        )
    if FABRIC not in allowed and (other := other_fabric(first, second)):
        found.append(
            f"other fabric: {other}; comparable would be two runs on one, or --allow-different fabric says "
            "that it is meant"
        )
    return tuple(found)


def other_fabric(first: Side, second: Side) -> str | None:
    """What of the hardware differs in kind; None where nothing is known to. The same GPUs of the same hosts
    are one fabric, whatever they were predicted as.
    """
    if first.gpus and second.gpus and first.gpus != second.gpus:
        return f"{_listed(first.gpus)} and {_listed(second.gpus)}"
    if first.layout and second.layout and first.layout != second.layout:
        return f"{first.layout} and {second.layout} ranks (hosts × ranks of each)"
    if first.machine and first.machine == second.machine:
        return None
    # Runs name the design that they were predicted on, files of other tools describe theirs in words.
    alike = first.foreign == second.foreign
    if alike and first.fabric and second.fabric and first.fabric != second.fabric:
        return f"{first.fabric} and {second.fabric}"
    return None


def _nothing_in_common(ours: Sequence[Timed], theirs: Sequence[Timed]) -> str:
    """Why no point of one is a point of the other: the fields in which they have nothing in common."""
    differ = []
    for name in ("collective", "dtype", "op", "size_bytes", "in_place", "beside", "aggregated"):
        mine, others = known_values(ours, name), known_values(theirs, name)
        if not set(mine) & set(others):
            word = name.replace("size_bytes", "size").replace("_", " ")
            differ.append(f"{word} {_listed(mine, name)} and {_listed(others, name)}")
    why = "; ".join(differ) or "no combination of collective, type, size and place is in both"
    return f"no point in common: {why}; comparable would be sweeps of the same points"


def _listed(values: Sequence[Any], name: str = "") -> str:
    texts = [human_size(v) if name == "size_bytes" else str(v) for v in values]
    return ", ".join(texts[:4]) + (f" and {len(texts) - 4} more" if len(texts) > 4 else "")
