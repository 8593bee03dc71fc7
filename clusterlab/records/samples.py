"""samples/: raw times of every iteration, one compressed file per rank.

A file is a sequence of gzip members, one per point and one JSON line each, so ``zcat`` reads it, a
crash costs at most the point in flight, and a later attempt appends.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clusterlab.core.errors import UsageError
from clusterlab.core.rows import POINT_OF_1, SCHEMA_VERSION, Point, ranks_from_json
from clusterlab.records.files import check_schema
from clusterlab.records.members import MemberWriter, members_of
from clusterlab.records.reading import parse_json
from clusterlab.records.strict import check_value, checked


@dataclass(frozen=True, slots=True)
class PointSamples:
    """Times (µs) of every iteration of one point as one rank saw them, in order of execution."""

    point: Point
    rank: int
    attempt: int
    times_us: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class SamplesRead:
    """What one rank's file holds. ``truncated``: it ends in half a member, which is left out."""

    points: tuple[PointSamples, ...]
    truncated: bool


def samples_path(folder: Path, rank: int) -> Path:
    """Where ``rank`` keeps its samples under ``folder``."""
    return folder / f"rank-{rank:05d}.jsonl.gz"


class SamplesWriter(MemberWriter):
    """Appends one rank's samples. The data reaches the kernel at once (it survives a killed process),
    the disk when the kernel sees fit: samples are worth less than the fsync on every rank.
    """

    def __init__(self, folder: Path, rank: int, attempt: int) -> None:
        """Open the file of ``rank`` under ``folder``; half a member left by a crash is cut off."""
        self.path = samples_path(folder, rank)
        self._rank = rank
        self._attempt = attempt
        super().__init__(self.path)

    def append(self, point: Point, times_us: Sequence[float]) -> None:
        """Keep the times (µs) of ``point``, to the nanosecond. Raises StorageError."""
        data = {
            "schema_version": SCHEMA_VERSION,
            "rank": self._rank,
            "attempt": self._attempt,
            "point": dataclasses.asdict(point),
            "times_us": [round(float(t), 3) for t in times_us],
        }
        self.append_member(json.dumps(data).encode() + b"\n")


def read_samples(path: Path) -> SamplesRead:
    """All complete points of one rank's file. Raises UsageError for a file that is no such thing."""
    try:
        members = list(members_of(path))
        size = path.stat().st_size
    except OSError as error:
        raise UsageError(f"cannot read: {error.strerror}", where=str(path)) from None
    points = tuple(
        _parse(content, where=f"{path}: point {number}")
        for number, (content, _) in enumerate(members, start=1)
    )
    end = members[-1][1] if members else 0
    return SamplesRead(points, truncated=end < size)


def new_samples(path: Path, start: int) -> tuple[list[PointSamples], int]:
    """The complete points behind the offset ``start`` of one rank's file, and where they end. A file that
    is not there has none. Raises UsageError.
    """
    found, end = [], start
    try:
        for content, end in members_of(path, start):
            found.append(_parse(content, where=f"{path}: before byte {end}"))
    except OSError:
        pass
    return found, end


def _parse(member: bytes, *, where: str) -> PointSamples:
    data: Any = parse_json(member, where=where)
    if not isinstance(data, dict):
        raise UsageError("not a mapping", where=where)
    version: Any = data.get("schema_version")
    check_schema(version, SCHEMA_VERSION, where=where)
    fields = checked(data, PointSamples, where=where)
    given = fields["point"]
    if version < 2 and isinstance(given, dict):
        given = {**POINT_OF_1, **given}
    point = checked(given, Point, where=f"{where}: point")
    ranks = ranks_from_json(point["ranks"], where=f"{where}: point")
    times_us = tuple(
        check_value(f"times_us[{i}]", t, (float,), where=where)
        for i, t in enumerate(fields["times_us"])
    )
    return PointSamples(
        **{**fields, "point": Point(**{**point, "ranks": ranks}), "times_us": times_us}
    )
