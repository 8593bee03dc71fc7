"""From what was typed to the points of one dtype and operator, for runs that are no sweeps."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from clusterlab.bench.support import unsupported_reason
from clusterlab.core.collectives import collectives, reduce_op
from clusterlab.core.dtypes import DTYPES, dtypes
from clusterlab.core.errors import UsageError
from clusterlab.core.rows import Point, make_point
from clusterlab.core.sizes import format_size, parse_size, size_series


@dataclass(frozen=True, slots=True)
class PointsTyped:
    """Collectives at sizes (bytes, before padding), all of one dtype and operator, out of place."""

    collectives: tuple[str, ...]
    sizes_bytes: tuple[int, ...]
    dtype: str
    op: str

    def to_json(self) -> dict[str, Any]:
        """Plain data for run.json."""
        return asdict(self)

    def points(self, name: str, world_size: int, *, beside: str | None = None) -> list[Point]:
        """Collective ``name`` at every size."""
        kind = DTYPES[self.dtype]
        return [
            make_point(name, size, kind, world_size, op=self.op, beside=beside)
            for size in self.sizes_bytes
        ]


def points_typed(
    names: str, *, begin: str, end: str | None, factor: float, dtype: str, op: str
) -> PointsTyped:
    """Raises UsageError naming the option. Without an ``end``, ``begin`` is the only size."""
    low = parse_size(begin, where="-b")
    high = parse_size(end, where="-e") if end else low
    if low < 1:
        raise UsageError(format_size(low), where="-b", expected="at least 1 byte")
    kinds = dtypes(dtype)
    if len(kinds) != 1:
        raise UsageError(f"{dtype!r}", where="-d", expected="one dtype")
    return PointsTyped(
        collectives=tuple(c.name for c in collectives(names)),
        sizes_bytes=tuple(size_series(low, high, factor=factor)),
        dtype=kinds[0].name,
        op=reduce_op(op),
    )


def refuse_unsupported(
    typed: PointsTyped, names: tuple[str, ...], backend: str, ranks: int
) -> None:
    """Raise UsageError for a collective that ``backend`` does not have like this."""
    for name in names:
        reason = unsupported_reason(backend, ranks, name, typed.dtype, typed.op)
        if reason is not None:
            raise UsageError(f"{backend} has no {name} {typed.dtype} {typed.op}: {reason}")
