"""The tables of a run directory, with what NCCL's log, the environment and the rows say besides the times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from clusterlab.core.errors import ClusterlabError, UsageError
from clusterlab.core.placement import Placement
from clusterlab.core.rows import Row
from clusterlab.cost.scoring.asked import Asked
from clusterlab.cost.scoring.measured import MeasuredPoint
from clusterlab.cost.types import PredictRequest
from clusterlab.records.documents import read_placement
from clusterlab.records.run_dir import RunDir, open_run
from clusterlab.records.store import latest_rows, read_records, schema_problems
from clusterlab.runs.explaining.said import cleared_by_rows, said_by_environment, said_by_rows
from clusterlab.runs.explaining.table import Table
from clusterlab.runs.row_request import row_request
from clusterlab.runs.run_fabric import fabric_of_run
from clusterlab.topology.design.load import load_fabric
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.match import matching_design, place_like
from clusterlab.verdict.against.side import is_time, split_passes, timed
from clusterlab.verdict.why.described import Said


def tables_of_run(path: Path, fabric: Fabric | None, asked: Asked) -> tuple[list[Table], list[str]]:
    """A table for each collective, type, operator and way of calling. Raises UsageError for a damaged run."""
    run = open_run(path)
    read = read_records(run.path)
    rows = list(latest_rows(read.rows).rows)
    notes = list(read.warnings)
    plain = [row for row in rows if _is_plain(row)]
    if len(plain) < len(rows):
        notes.append(
            f"{len(rows) - len(plain)} rows of some ranks, or with something beside them, are not looked at"
        )
    missing = "; ".join(filter(None, (*_contradictions(run, read.rows), _missing(run, rows))))
    if not plain:
        empty = "; ".join(filter(None, ("the run has no rows to look at", missing)))
        return [Table(run.info.name, (), empty=empty)], notes
    placement = read_placement(run.path)
    said, remarks = _environment(run)
    groups: defaultdict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in plain:
        groups[row.collective, row.dtype, row.op, row.world_size, row.timing, row.backend].append(
            row
        )
    names = _names(list(groups))
    tables = [
        _table(
            names[key],
            own,
            run,
            placement=placement,
            fabric=fabric,
            asked=asked,
            said=said,
            remarks=remarks,
            missing=missing,
        )
        for key, own in groups.items()
    ]
    return tables, notes


def _table(
    name: str,
    rows: Sequence[Row],
    run: RunDir,
    *,
    placement: Placement | None,
    fabric: Fabric | None,
    asked: Asked,
    said: tuple[Said, ...],
    remarks: tuple[str, ...],
    missing: str,
) -> Table:
    wrong = sum(row.wrong or 0 for row in rows)
    if rows[0].backend != "nccl":
        empty = f"measured with {rows[0].backend}: causes are known of NCCL and RCCL alone"
        return Table(name, (), empty=empty, wrong=wrong)
    known = [row for row in rows if is_time(row.time_us_loop)]
    if not known:
        empty = f"none of {len(rows)} rows has a time that a call can take"
        return Table(name, (), empty=empty, wrong=wrong)
    try:
        request = _request(known[0], run, placement, fabric, asked)
    except ClusterlabError as error:
        empty = f"no prediction to hold it against: {error}"
        return Table(name, (), empty=empty, wrong=wrong)
    points = tuple(_point(name, row, line) for line, row in enumerate(known))
    from_log = said_by_rows(known, request)
    predicted = tuple(row.predicted_time_us for row in known)
    return Table(
        name,
        points,
        asked=asked,
        said=(*said, *from_log),
        cleared=cleared_by_rows(known, request),
        request=request,
        expected_us=predicted if _calibrated(known) else None,
        wrong=wrong,
        missing=missing,
        remarks=remarks,
    )


def _calibrated(rows: Sequence[Row]) -> bool:
    """Whether the run was predicted by its system's own constants: only such predictions state intervals."""
    return all(
        row.predicted_low_us is not None
        and row.predicted_time_us is not None
        and is_time(row.predicted_time_us)
        for row in rows
    )


def _is_plain(row: Row) -> bool:
    """One call of all ranks after the other, which is what ``predict`` speaks of."""
    return row.ranks is None and row.beside is None and row.uneven is None and row.aggregated == 1


def _missing(run: RunDir, rows: Sequence[Row]) -> str:
    """Points that were to be measured: without a row, or with one whose time no call can take."""
    measured = sum(is_time(row.time_us_loop) for row in rows)
    planned = max(len(rows), run.info.planned_points or 0)
    if measured >= planned:
        return ""
    return f"{planned - measured} of {planned} planned points were not measured"


def _contradictions(run: RunDir, rows: Sequence[Row]) -> tuple[str, ...]:
    """Why the rows as they stand are not of one measurement."""
    _, _, twice = split_passes(t for row in rows if (t := timed(row)))
    return (*twice, *schema_problems(run.records_path))


def _environment(run: RunDir) -> tuple[tuple[Said, ...], tuple[str, ...]]:
    """What the ranks' variables say, of every attempt; and remarks of those that act."""
    found: dict[str, str] = dict(run.info.created_by.environment)
    for attempt in run.info.attempts:
        found.update(attempt.context.environment)
    return said_by_environment(found)


def _names(keys: Sequence[tuple[object, ...]]) -> dict[tuple[object, ...], str]:
    """The collective, and what else tells a table from the others."""
    several = [i for i in range(1, len(keys[0])) if len({key[i] for key in keys}) > 1]
    return {key: " ".join(str(key[i]) for i in (0, *several) if key[i] is not None) for key in keys}


def _request(
    row: Row, run: RunDir, placement: Placement | None, fabric: Fabric | None, asked: Asked
) -> PredictRequest:
    """What is asked for the rows of a table, without the variables that the run had."""
    if placement is None:
        raise UsageError("the run says not where its ranks were (placement.json)")
    if row.world_size != placement.world_size:
        raise UsageError(
            f"rows of {row.world_size} ranks, and placement.json has {placement.world_size}"
        )
    found = fabric or fabric_of_run(run, unchanged=False) or _design(placement)
    placed = place_like(found, placement)
    said: Mapping[str, str | None] = (
        run.info.attempts[-1].context.versions if run.info.attempts else {}
    )
    version = row.library_version or said.get("nccl") or asked.library_version or ""
    return row_request(row, found, placed, version, in_place=False)


def _design(placement: Placement) -> Fabric:
    """The shipped design of such hosts."""
    hosts = len(placement.hosts)
    gpu = placement.ranks[0].gpu_name or ""
    name = matching_design(gpu, hosts, -(-placement.world_size // hosts))
    if name is None:
        raise UsageError(
            f"no design is known of {hosts} hosts with {gpu or 'no GPU that is named'}",
            fix="name one with --fabric",
        )
    return load_fabric(name)


def _point(name: str, row: Row, line: int) -> MeasuredPoint:
    return MeasuredPoint(
        table=name,
        system="",
        gpu="",
        n_nodes=None,
        gpus_per_node=None,
        n_ranks=row.world_size,
        intra_fabric="",
        inter_fabric="",
        collective=row.collective,
        dtype=row.dtype,
        in_place=row.in_place,
        size_bytes=row.size_bytes,
        time_us=row.time_us_loop,
        nccl_version="",
        algo="",
        proto="",
        published=False,
        line=line,
        samples=1,
    )
