"""Measured points from CSV files: rows that count, times from what a table gives, medians of repeats."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import BinaryIO

from clusterlab.core.collectives import busbw_factor, collective
from clusterlab.core.errors import UsageError
from clusterlab.formats.measured.plausible import doubt
from clusterlab.formats.measured_csv import CsvRow, parse_measured

MAX_FILE_BYTES = 256 << 20
_HEALTHY = "healthy"
_TELLING_GBps = 1.0
_SAME = 1.1
"""Time and busbw of published tables agree to 0.5 % from 1 GB/s on."""


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    """One measured point: ``time_us`` is the median of ``samples`` rows, the first of them at ``line``.

    ``collective`` is our name, or the file's word where we know none. ``n_nodes`` and ``gpus_per_node``
    are None and the texts empty where the file does not say. ``table`` names what was measured
    together: the table's id, else system, collective, ranks and version.
    """

    table: str
    system: str
    gpu: str
    n_nodes: int | None
    gpus_per_node: int | None
    n_ranks: int
    intra_fabric: str
    inter_fabric: str
    collective: str
    dtype: str
    in_place: bool | None
    size_bytes: int
    time_us: float
    nccl_version: str
    algo: str
    proto: str
    published: bool
    line: int
    samples: int

    @property
    def busbw_GBps(self) -> float:
        """nccl-tests' bus bandwidth; the algorithm bandwidth for a collective we do not know."""
        try:
            factor = busbw_factor(self.collective, self.n_ranks)
        except UsageError:
            factor = 1.0
        return self.size_bytes * factor / (self.time_us * 1e3)


@dataclass(frozen=True, slots=True)
class Measured:
    """What a file holds: its points, and the rows that are none, each kind counted.

    ``unhealthy``: rows of tables whose ``health`` is not "healthy", ``health_words`` what it is. ``no_time``:
    rows without a time or a bandwidth, or of size 0 (nccl-tests prints such). ``unusable``: lines whose
    figures no measurement gives, and which. ``disagree``: lines that count although their busbw is not
    size over time.
    """

    file: str
    points: tuple[MeasuredPoint, ...]
    rows: int
    unhealthy: int
    no_time: int
    unusable: tuple[tuple[int, str], ...] = ()
    disagree: tuple[int, ...] = ()
    health_words: tuple[str, ...] = ()


def load_measured(path: Path | str) -> list[MeasuredPoint]:
    """The points of a CSV file that count. Raises UsageError naming file, line and column."""
    return list(read_measured(Path(path)).points)


def read_measured(path: Path) -> Measured:
    """As ``load_measured``, with what was left out."""
    try:
        with path.open("rb") as stream:
            return measured_in(stream, file=str(path))
    except OSError as error:
        raise UsageError(
            f"cannot be read: {error.strerror}", where=str(path), expected="a CSV file"
        ) from None


def measured_in(stream: BinaryIO, *, file: str) -> Measured:
    """What ``stream``, called ``file``, holds. Raises UsageError naming file, line and column."""
    data = stream.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise UsageError("too large", where=file, expected=f"at most {MAX_FILE_BYTES} B")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError(
            "not UTF-8 text", where=file, expected="a CSV file", fix="save it as UTF-8"
        ) from None
    return measured_points(parse_measured(text, file=file), file=file)


def measured_points(rows: Sequence[CsvRow], *, file: str) -> Measured:
    """Points of ``rows``: only healthy tables where the file says of some how they are."""
    judged = any(row.health for row in rows)
    counted = [row for row in rows if not judged or row.health in (None, _HEALTHY)]
    repeats: defaultdict[MeasuredPoint, list[tuple[float, int]]] = defaultdict(list)
    no_time = 0
    unusable, disagree = [], []
    for row in counted:
        factor = _factor(row)
        time_us = _time_us(row, factor)
        if time_us is None:
            no_time += 1
            continue
        why = _doubt(row, time_us, factor)
        if why is not None:
            unusable.append((row.line, why))
            continue
        if _disagrees(row, time_us, factor):
            disagree.append(row.line)
        repeats[_point(row)].append((time_us, row.line))
    points = tuple(_median(key, found) for key, found in repeats.items())
    return Measured(
        file,
        points,
        len(rows),
        len(rows) - len(counted),
        no_time,
        tuple(unusable),
        tuple(disagree),
        tuple(sorted({row.health for row in rows if judged and row.health} - {_HEALTHY})),
    )


def _factor(row: CsvRow) -> float:
    """busbw over algbw of a row's collective and ranks; 0 where it is not known."""
    try:
        return busbw_factor(row.collective, row.n_ranks)
    except UsageError:
        return 0.0


def _time_us(row: CsvRow, factor: float) -> float | None:
    """A row's time; from its bandwidth where a table keeps that alone. None where it has neither."""
    if row.size_bytes == 0:
        return None
    if row.time_us is not None:
        return row.time_us
    if row.busbw_GBps and factor:
        return row.size_bytes * factor / (row.busbw_GBps * 1e3)
    if row.algbw_GBps:
        return row.size_bytes / (row.algbw_GBps * 1e3)
    return None


def _doubt(row: CsvRow, time_us: float, factor: float) -> str | None:
    """Why a row's figures, or its size over its time, are of no measurement."""
    moves = row.n_ranks > 1
    why = doubt(time_us, row.busbw_GBps, row.algbw_GBps, moves=moves)
    if why is None and moves:
        busbw = row.size_bytes * factor / (time_us * 1e3)
        why = doubt(time_us, busbw)
        return f"{row.size_bytes} B in {time_us:g} µs" if why is not None else None
    return why


def _disagrees(row: CsvRow, time_us: float, factor: float) -> bool:
    """Whether time and busbw are of different measurements; small figures are rounded too much to tell."""
    said = row.busbw_GBps or 0.0
    if said < _TELLING_GBps or not factor:
        return False
    share = row.size_bytes * factor / (time_us * 1e3) / said
    return not 1 / _SAME < share < _SAME


def _point(row: CsvRow) -> MeasuredPoint:
    """A row as a point without its time, line and count: the key that repeats share."""
    name = _our_name(row.collective)
    return MeasuredPoint(
        table=table_name(row),
        system=row.system,
        gpu=row.gpu,
        n_nodes=row.n_nodes,
        gpus_per_node=row.gpus_per_node,
        n_ranks=row.n_ranks,
        intra_fabric=row.intra_fabric,
        inter_fabric=row.inter_fabric,
        collective=name,
        dtype=row.dtype,
        in_place=row.in_place,
        size_bytes=row.size_bytes,
        time_us=1.0,
        nccl_version=row.nccl_version,
        algo=row.algo,
        proto=row.proto,
        published=bool(row.table_id),
        line=0,
        samples=0,
    )


def table_name(row: CsvRow) -> str:
    """The table that a row belongs to; of a file without tables, what makes a curve."""
    name = _our_name(row.collective)
    return row.table_id or f"{row.system} {name} {row.n_ranks} {row.nccl_version}".strip()


def _our_name(word: str) -> str:
    try:
        return collective(word).name
    except UsageError:
        return word


def _median(key: MeasuredPoint, found: Sequence[tuple[float, int]]) -> MeasuredPoint:
    times = [time_us for time_us, _ in found]
    return replace(key, time_us=median(times), line=found[0][1], samples=len(found))
