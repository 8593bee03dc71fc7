"""What to type after a comparison. Pure."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from clusterlab.verdict.against.comparison import ALLOW_MISSING_HELPS, Comparison, Outcome
from clusterlab.verdict.against.pairing import other_fabric


@dataclass(frozen=True, slots=True)
class NextStep:
    """``command`` is what to type, empty where no command helps; ``why`` what that is good for."""

    command: str
    why: str


def next_step(found: Comparison, first: str, second: str) -> NextStep:
    """The step that ``found`` asks for. ``first`` and ``second`` are the sides as they were typed."""
    if found.outcome is Outcome.INVALID:
        return _of(("report", second), "it says which rank held the first wrong element, and where")
    if found.outcome is Outcome.REGRESSION:
        return _of(("why", *_table(second)), "it names the likeliest causes of such times")
    if found.outcome is Outcome.IMPROVEMENT:
        again = ("baseline", "save", second, "-o", "baseline.yaml")
        return _of(again, "it keeps the better times as what later runs are judged by")
    if found.outcome is Outcome.SAME:
        if found.first.run_id is None or found.second.run_id is None:
            return NextStep("", "Nothing to do: nothing got slower.")
        return _of(("runs", "reproduce", first, second), "it asks the same of every point alone")
    return _undecided(found, first, second)


def _undecided(found: Comparison, first: str, second: str) -> NextStep:
    again = ("compare", first, second)
    if found.pairs and ALLOW_MISSING_HELPS in found.reasons:
        return _of((*again, "--allow-missing"), "it judges the points that both have")
    if found.pairs:
        repeated = (*again, "--repeat", "ANOTHER_RUN")
        return _of(repeated, "another run of what the first ran says how far such runs differ")
    if len(found.reasons) == 1 and other_fabric(found.first, found.second) is not None:
        return _of((*again, "--allow-different", "fabric"), "it compares them all the same")
    return NextStep("", "Give two runs of the same sweep, by the same number of ranks.")


def _of(words: tuple[str, ...], why: str) -> NextStep:
    return NextStep(shlex.join(("clusterlab", *words)), why)


def _table(typed: str) -> tuple[str, ...]:
    """``FILE#TABLE`` as ``why`` takes it."""
    file, mark, table = typed.rpartition("#")
    return (file, "--table", table) if mark and file else (typed,)
