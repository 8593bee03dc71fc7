"""Baselines as ReFrame's references, and back: ``all_reduce_bw_1GiB`` in GB/s of bus bandwidth.

A name says the collective and the size; ``_in_place`` follows, and the type, the operator and the way of
calling where a baseline has several. A name that says no type or way is of what the run has.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from clusterlab.core.collectives import COLLECTIVES, busbw_factor
from clusterlab.core.dtypes import DTYPES
from clusterlab.core.errors import UsageError
from clusterlab.formats.reframe import ANY_SYSTEM, ReframeReference, systems_of
from clusterlab.verdict.against.side import Side, Timed, normal
from clusterlab.verdict.baseline.model import Baseline, Made, Reference

UNIT = "GB/s"
_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_TIMINGS = ("eager", "graph", "direct")
_NAME = re.compile(
    rf"(?P<collective>{'|'.join(COLLECTIVES)})_bw_(?P<size>\d+)(?P<unit>B|KiB|MiB|GiB|TiB)"
    rf"(?P<in_place>_in_place)?(?:_(?P<dtype>{'|'.join(DTYPES)}))?"
    rf"(?:_op_(?P<op>[a-z]+))?(?:_(?P<timing>{'|'.join(_TIMINGS)}))?"
)


def to_reframe(baseline: Baseline, *, system: str = ANY_SYSTEM) -> list[ReframeReference]:
    """A reference for each point of all ranks. A slower time is a lower bandwidth: 5 % slower is -4.8 %."""
    several = {
        name: len({getattr(r.point, name) for r in baseline.points} - {None}) > 1
        for name in ("dtype", "timing")
    }
    found = []
    for one in baseline.points:
        point = one.point
        if point.ranks is not None or point.beside is not None or not point.busbw_GBps:
            continue
        found.append(
            ReframeReference(
                system,
                name_of(point, dtype=several["dtype"], timing=several["timing"]),
                float(f"{point.busbw_GBps:.6g}"),
                None if one.slower is None else -round(one.slower / (1 + one.slower), 4),
                None if one.faster is None else round(one.faster / (1 - one.faster), 4),
                UNIT,
            )
        )
    return found


def name_of(point: Timed, *, dtype: bool, timing: bool) -> str:
    """The variable's name of a point."""
    unit = max(
        (u for u, size in _UNITS.items() if point.size_bytes % size == 0), key=_UNITS.__getitem__
    )
    parts = [point.collective, "bw", f"{point.size_bytes // _UNITS[unit]}{unit}"]
    if point.in_place:
        parts.append("in_place")
    if dtype and point.dtype:
        parts.append(point.dtype)
    if point.op not in {None, "sum"}:
        parts += ["op", str(point.op)]
    if timing and point.timing:
        parts.append(point.timing)
    return "_".join(parts)


def from_reframe(
    references: Sequence[ReframeReference], *, file: str, world_size: int, system: str | None = None
) -> Baseline:
    """The baseline of one ``system`` of a file, for runs of ``world_size`` ranks.

    Raises UsageError where the system is not in it, or a name or unit is not one of ours.
    """
    chosen = _chosen(references, file=file, system=system)
    points = tuple(_reference(one, file, world_size) for one in chosen)
    return Baseline(
        name=file,
        made=Made("?", "?", "?", "?", ()),
        tolerance="lower and upper of each reference, as stated in the file",
        points=points,
        foreign=True,
    )


def world_size_of(side: Side) -> int:
    """The ranks of a run's collectives. Raises UsageError where there are several."""
    sizes = sorted({point.world_size for point in side.points if point.ranks is None})
    if len(sizes) != 1:
        raise UsageError(
            f"rows of {', '.join(map(str, sizes)) or 'no'} ranks",
            where=side.name,
            expected="one number of ranks, which the references are for",
        )
    return sizes[0]


def _chosen(
    references: Sequence[ReframeReference], *, file: str, system: str | None
) -> list[ReframeReference]:
    known = systems_of(references)
    if system is None and len(known) == 1:
        system = next(iter(known))
    if system is None or system not in known:
        raise UsageError(
            f"no system {system!r}" if system else f"{len(known)} systems",
            where=file,
            expected=f"one of {', '.join(known)}",
            fix="name it with --system",
        )
    return [one for one in references if one.system == system]


def _reference(one: ReframeReference, file: str, world_size: int) -> Reference:
    where = f"{file}: {one.system!r}: {one.name!r}"
    match = _NAME.fullmatch(one.name)
    if match is None:
        raise UsageError(
            "not a name of ours",
            where=where,
            expected="all_reduce_bw_1GiB, with _in_place, a type, _op_max or a timing behind it",
        )
    if one.unit not in {None, UNIT}:
        raise UsageError(f"unit {one.unit!r}", where=where, expected=UNIT)
    if one.value <= 0:
        raise UsageError(f"value {one.value:g}", where=where, expected="a bandwidth above 0")
    if one.lower is not None and one.lower <= -1:
        raise UsageError("lower is -1: no bandwidth is too low", where=where, expected="None")
    size = int(match["size"]) * _UNITS[match["unit"]]
    factor = busbw_factor(match["collective"], world_size)
    point = Timed(
        collective=match["collective"],
        size_bytes=size,
        world_size=world_size,
        loop_us=size * factor / (one.value * 1e3),
        dtype=match["dtype"],
        op=match["op"],
        in_place=match["in_place"] is not None,
        timing=match["timing"],
    )
    return Reference(
        point=normal(point),
        runs=1,
        spread=None,
        slower=None if one.lower is None else -one.lower / (1 + one.lower),
        faster=None if one.upper is None else one.upper / (1 + one.upper),
    )
