"""What a page shows besides a run's rows: what others found out of them, gathered before it is rendered."""

from __future__ import annotations

from dataclasses import dataclass

from clusterlab.core.stepping import StepLedger
from clusterlab.verdict.headline_type import Headline
from clusterlab.verdict.why.types import TableAnswer


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture of the fabric. ``svg`` is safe to place as it is; ``caption`` is text."""

    svg: str
    caption: str


@dataclass(frozen=True, slots=True)
class Beside:
    """``headline``: what a reader wants first. ``answers``: what ``why`` says of the run's tables, ``notes``
    what it did not look at. ``ledgers``: every rank's of one training step. ``passages``: further lines of
    text, each list under its title.
    """

    headline: Headline | None = None
    answers: tuple[TableAnswer, ...] = ()
    notes: tuple[str, ...] = ()
    drawing: Drawing | None = None
    ledgers: tuple[StepLedger, ...] = ()
    passages: tuple[tuple[str, tuple[str, ...]], ...] = ()


NOTHING_BESIDE = Beside()
