"""Other tools' measurements as one side of a comparison: CSV, nccl-tests' text and -J files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from clusterlab.core.collectives import COLLECTIVES
from clusterlab.core.dtypes import dtype
from clusterlab.core.errors import UsageError
from clusterlab.core.findings import Finding
from clusterlab.core.measured import MeasuredRow
from clusterlab.cost.scoring.measured import MeasuredPoint, measured_points
from clusterlab.formats.measured_csv import parse_measured
from clusterlab.runs.foreign import read_measured
from clusterlab.verdict.against.side import Side, Timed, split_passes

_MOST_NAMED = 12


def side_of_csv(path: Path, table: str | None) -> Side:
    """The rows of a CSV file; of several machines or versions in it, one must be named: ``table`` is a
    table's name, a system, or a system and a version. Raises UsageError.

    What the file says of a table's health is no reason to leave it out here: the user chose it.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot be read: {error.strerror}", where=str(path), expected="CSV"
        ) from None
    except UnicodeDecodeError:
        raise UsageError("not UTF-8 text", where=str(path), expected="CSV") from None
    rows = [replace(row, health=None) for row in parse_measured(text, file=str(path))]
    measured = measured_points(rows, file=str(path))
    points = _of_table(measured.points, table, path)
    found = [_of_point(point) for point in points if point.collective in COLLECTIVES]
    kept, passes, problems = split_passes(found)
    repeated = sum(point.samples > 1 for point in points)
    left_out = [
        (measured.no_time, "rows without a time"),
        (len(measured.unusable), "rows whose figures no measurement gives"),
        (len(points) - len(found), "rows of none of the seven collectives"),
    ]
    first = points[0]
    nodes = (
        f"{first.n_nodes} × {first.gpus_per_node}"
        if first.n_nodes and first.gpus_per_node
        else None
    )
    return Side(
        name=f"{path}#{table}" if table else str(path),
        points=kept,
        passes=passes,
        facts={
            "measured": {
                "system": first.system,
                "gpu": first.gpu or None,
                "library_version": first.nccl_version or None,
                "intra_fabric": first.intra_fabric or None,
                "inter_fabric": first.inter_fabric or None,
            }
        },
        gpus=(first.gpu,) if first.gpu else None,
        fabric=_fabric(first.intra_fabric, first.inter_fabric),
        layout=nodes,
        problems=problems,
        notes=tuple(
            [f"{path}: {count} {what} are left out" for count, what in left_out if count]
            + ([f"{path}: {repeated} points are medians of several rows"] if repeated else [])
        ),
        foreign=True,
    )


def _of_table(
    points: Sequence[MeasuredPoint], table: str | None, path: Path
) -> Sequence[MeasuredPoint]:
    names = list(dict.fromkeys(point.table for point in points))
    if not points:
        raise UsageError("no row with a time", where=str(path), expected="measured rows")
    if table is not None:
        points = [p for p in points if table in {p.table, p.system, f"{p.system} {p.nccl_version}"}]
        if not points:
            raise UsageError(
                f"no table or system {table!r}",
                where=str(path),
                expected=f"one of {_listed(names)}",
            )
    machines = {f"{p.system} {p.nccl_version}".strip(): None for p in points}
    places = {(p.system, p.nccl_version, p.intra_fabric, p.inter_fabric) for p in points}
    if len(places) > 1:
        known = names if len(machines) == 1 or points[0].published else list(machines)
        raise UsageError(
            f"{len(places)} machines or versions of the library",
            where=str(path),
            expected=f"one of them, as {path.name}#{known[0]}",
            fix=f"name one of {_listed(known)}",
        )
    return points


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _of_point(point: MeasuredPoint) -> Timed:
    return Timed(
        collective=point.collective,
        size_bytes=point.size_bytes,
        world_size=point.n_ranks,
        loop_us=point.time_us,
        dtype=_dtype(point.dtype),
        in_place=point.in_place,
    )


def side_of_foreign(path: Path) -> Side:
    """nccl-tests' text of any vintage, or its -J file. Several tables of one point are passes over it.

    Raises UsageError for what holds nothing measured, and for records of single ranks.
    """
    read = read_measured([path])
    if read.refused:
        raise read.refused[0]
    rows = read.files[0].rows
    if any(row.rank is not None for row in rows):
        raise UsageError(
            "times of single ranks (NCCL Inspector)",
            where=str(path),
            expected="times of a collective: a run, a CSV, or nccl-tests' output",
        )
    found = [timed for row in rows if (timed := _of_row(row))]
    kept, passes, problems = split_passes(found)
    dropped, what = len(rows) - len(found), "collective, ranks, size or time"
    first = rows[0] if rows else None
    return Side(
        name=str(path),
        points=kept,
        passes=passes,
        facts={} if first is None else {"measured": _facts(first)},
        gpus=(first.gpu,) if first and first.gpu else None,
        fabric=_fabric(first.intra_fabric or "", first.inter_fabric or "") if first else None,
        layout=_layout(first),
        problems=problems,
        notes=(
            *((f"{path}: {dropped} rows without {what} are left out",) if dropped else ()),
            *left_out(read.files[0].findings),
        ),
        foreign=True,
    )


def left_out(findings: Sequence[Finding]) -> tuple[str, ...]:
    """Of a file's findings which rows are left out, and why."""
    return tuple(e for one in findings if one.code == "rows_unusable" for e in one.evidence)


def _of_row(row: MeasuredRow) -> Timed | None:
    if (
        row.collective not in COLLECTIVES
        or not row.world_size
        or not row.size_bytes
        or not row.time_us
    ):
        return None
    return Timed(
        collective=row.collective,
        size_bytes=row.size_bytes,
        world_size=row.world_size,
        loop_us=row.time_us,
        dtype=_dtype(row.dtype or ""),
        op=row.op,
        root=row.root,
        in_place=row.in_place,
        # nccl-tests calls NCCL itself in a loop, or with -G replays of a graph.
        timing="graph" if row.cuda_graph else "direct",
        iterations=row.iterations,
        wrong=row.wrong,
        attempt=row.table,
    )


def _facts(row: MeasuredRow) -> dict[str, object]:
    return {
        "tool": row.tool,
        "tool_version": row.tool_version,
        "library_version": row.library_version,
        "gpu": row.gpu,
        "system": row.system,
        "iterations": row.iterations,
    }


def _layout(row: MeasuredRow | None) -> str | None:
    if row is None or not row.n_nodes or not row.gpus_per_node:
        return None
    return f"{row.n_nodes} × {row.gpus_per_node}"


def _fabric(intra: str, inter: str) -> str | None:
    return ", ".join(word for word in (intra, inter) if word) or None


def _dtype(word: str) -> str | None:
    try:
        return dtype(word).name if word else None
    except UsageError:
        return word
