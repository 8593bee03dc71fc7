"""One table that ``why`` is asked about: its points, and what is known besides."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from clusterlab.cost.scoring.asked import Asked
from clusterlab.cost.scoring.measured import MeasuredPoint
from clusterlab.cost.types import PredictRequest
from clusterlab.topology.fabric import Fabric
from clusterlab.verdict.why.described import Said

_NOTHING_ASKED = Asked()


@dataclass(frozen=True, slots=True)
class Table:
    """``points`` of one collective, type and number of ranks. ``within``: the name of the table that this
    is a part of, where that holds several. ``empty`` says why there are no points, ``missing`` what was
    planned and not measured. ``wrong``: wrong elements in all rows together.
    """

    name: str
    points: tuple[MeasuredPoint, ...]
    within: str = ""
    fabric: Fabric | None = None
    asked: Asked = _NOTHING_ASKED
    said: tuple[Said, ...] = ()
    cleared: frozenset[str] = frozenset()
    request: PredictRequest | None = None
    expected_us: tuple[float | None, ...] | None = None
    wrong: int = 0
    empty: str = ""
    missing: str = ""
    remarks: tuple[str, ...] = ()


Kind = tuple[str, str, int, str]
"""Collective, type, ranks and library release: what a curve is of."""


def kind_of(point: MeasuredPoint) -> Kind:
    """What curve a point is of."""
    return point.collective, point.dtype, point.n_ranks, point.nccl_version


def by_kind(points: Sequence[MeasuredPoint]) -> dict[Kind, list[MeasuredPoint]]:
    """The curves in ``points``, in order of first sight."""
    found: defaultdict[Kind, list[MeasuredPoint]] = defaultdict(list)
    for point in points:
        found[kind_of(point)].append(point)
    return dict(found)


def part_name(name: str, kind: Kind, kinds: Sequence[Kind]) -> str:
    """``name``, and of several curves what tells this one from the others."""
    telling = [str(kind[i]) for i in range(len(kind)) if len({k[i] for k in kinds}) > 1]
    return f"{name} ({', '.join(telling)})" if telling else name
