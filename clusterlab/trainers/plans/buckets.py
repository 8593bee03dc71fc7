"""Which gradients (or parameters) travel together among data parallel ranks. Pure: plans count what
strategies send.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from clusterlab.core.dtypes import DTYPES
from clusterlab.trainers.config import Setup
from clusterlab.trainers.plans.sp import own_elements, sees_own_positions
from clusterlab.trainers.weights import Weight


@dataclass(frozen=True, slots=True)
class Bucket:
    """Parameters laid end to end: their ``names`` and how many ``elements`` of each a rank holds.

    ``axis``: who has copies: ``edp`` of experts, ``dp`` of all else. ``late``: another axis must sum the
    gradients first (``Ways.finish``), so they cannot go before the last backward is over.
    """

    axis: str
    names: tuple[str, ...]
    elements: tuple[int, ...]
    late: bool

    @property
    def total(self) -> int:
        """Elements of all of them."""
        return sum(self.elements)

    def padded(self, ranks: int) -> int:
        """Elements when every rank's share is as long: up to ``ranks`` − 1 more."""
        return -(-self.total // ranks) * ranks


def buckets(setup: Setup, weights: Sequence[Weight]) -> tuple[Bucket, ...]:
    """Buckets of a rank's ``weights`` in reverse order of use, which is that of their gradients.

    A bucket is full when it has ``bucket_bytes`` or more; no parameter is cut. They are in the order in which
    they are full, late ones last.
    """
    limit = setup.train.bucket_bytes
    width = DTYPES[setup.train.dtype].bytes
    made: list[Bucket] = []
    open_: dict[tuple[str, bool], list[Weight]] = {}
    for weight in reversed(weights):
        key = _axis(weight), is_late(setup, weight)
        found = open_.setdefault(key, [])
        found.append(weight)
        if sum(own_elements(w, setup) for w in found) * width >= limit:
            made.append(_bucket(setup, open_.pop(key)))
    # What is left is full when the last parameter has come.
    ends = {id(weight): at for at, weight in enumerate(reversed(weights))}
    rest = sorted(open_.values(), key=lambda found: ends[id(found[-1])])
    made += [_bucket(setup, found) for found in rest]
    return tuple(sorted(made, key=lambda bucket: bucket.late))


@dataclass(frozen=True, slots=True)
class UnitPlan:
    """What is gathered and freed together: the embedding, a block, or the head with its norm."""

    name: str
    buckets: tuple[Bucket, ...]


def units(setup: Setup, weights: Sequence[Weight]) -> tuple[UnitPlan, ...]:
    """The units of a rank's ``weights`` in order of use, each with a bucket for who has copies and for when
    its gradients are ready.
    """
    by_unit: dict[str, dict[tuple[str, bool], list[Weight]]] = {}
    for weight in weights:
        key = _axis(weight), is_late(setup, weight)
        by_unit.setdefault(unit_of(weight), {}).setdefault(key, []).append(weight)
    return tuple(
        UnitPlan(name, tuple(_bucket(setup, found) for found in keys.values()))
        for name, keys in by_unit.items()
    )


def unit_of(weight: Weight) -> str:
    """``embed``, ``blocks.3`` or ``head``."""
    if weight.layer is not None:
        return f"blocks.{weight.layer}"
    return "embed" if weight.name.startswith("embed.") else "head"


def is_late(setup: Setup, weight: Weight) -> bool:
    """Whether its gradient is a part only until another axis has summed it."""
    mesh = setup.mesh
    return mesh.tp > 1 and mesh.sequence is not None and sees_own_positions(weight)


def _axis(weight: Weight) -> str:
    return "edp" if weight.axis == "ep" else "dp"


def _bucket(setup: Setup, weights: Iterable[Weight]) -> Bucket:
    found = list(weights)
    return Bucket(
        axis=_axis(found[0]),
        names=tuple(weight.name for weight in found),
        elements=tuple(own_elements(weight, setup) for weight in found),
        late=is_late(setup, found[0]),
    )
