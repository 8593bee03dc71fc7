"""Measured rows as CSV, in the columns of published tables, as `clusterlab predict score` reads them.

``size_bytes``, ``algbw_GBps``, ``busbw_GBps`` as nccl-tests has them, collectives and types by nccl-tests'
names. What is not known is empty.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath

from clusterlab.core.collectives import COLLECTIVES
from clusterlab.core.dtypes import DTYPES
from clusterlab.core.measured import FORCED, MeasuredRow

COLUMNS = (
    "table_id",
    "source_url_or_repo_thread",
    "date_if_known",
    "system",
    "gpu",
    "n_nodes",
    "gpus_per_node",
    "n_ranks",
    "intra_fabric",
    "inter_fabric",
    "collective",
    "dtype",
    "in_place",
    "size_bytes",
    "time_us",
    "algbw_GBps",
    "busbw_GBps",
    "nccl_version",
    "algo",
    "proto",
    "notes",
    "health",
    "cause_code",
)


def scorable(row: MeasuredRow) -> bool:
    """Whether a row says enough to be compared: one of the seven collectives, ranks, a size and a time."""
    return bool(
        row.collective in COLLECTIVES and row.world_size and row.size_bytes > 0 and row.time_us
    )


def wrong_tables(rows: Iterable[MeasuredRow]) -> set[tuple[str, int]]:
    """The (source, table) in which any row has wrong elements."""
    return {(row.source, row.table) for row in rows if row.wrong}


def to_csv(
    rows: Sequence[MeasuredRow],
    *,
    table_ids: Mapping[tuple[str, int], str],
    health: str | None = None,
) -> str:
    """The CSV text of ``rows``; ``table_ids`` names each (source, table).

    ``health`` is what the user says of all tables; one with wrong elements is unhealthy whatever is said.
    """
    wrong = wrong_tables(rows)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        key = row.source, row.table
        writer.writerow(_cells(row, table_ids[key], "unhealthy" if key in wrong else health))
    return text.getvalue()


def name_tables(rows: Iterable[MeasuredRow], *, prefix: str | None) -> dict[tuple[str, int], str]:
    """A name of its own for each (source, table): ``prefix`` or the file's stem, numbered where there are
    several (``run-1``, unless a file is called that).
    """
    keys = list(dict.fromkeys((row.source, row.table) for row in rows))
    stems = [prefix or PurePath(source).stem or "stdin" for source, _ in keys]
    several = Counter(stems)
    taken = {stem for stem, count in several.items() if count == 1}
    at: Counter[str] = Counter()
    names: dict[tuple[str, int], str] = {}
    for key, stem in zip(keys, stems, strict=True):
        names[key] = stem
        while several[stem] > 1 and (names[key] == stem or names[key] in taken):
            at[stem] += 1
            names[key] = f"{stem}-{at[stem]}"
        taken.add(names[key])
    return names


def _cells(row: MeasuredRow, table_id: str, health: str | None) -> Sequence[object]:
    what = COLLECTIVES.get(row.collective or "")
    kind = DTYPES.get(row.dtype or "")
    values = (
        table_id,
        row.source,
        None,
        row.system,
        row.gpu,
        row.n_nodes,
        row.gpus_per_node,
        row.world_size,
        row.intra_fabric,
        row.inter_fabric,
        what.nccl_tests if what else row.collective,
        kind.nccl_tests if kind else row.dtype,
        None if row.in_place is None else int(row.in_place),
        row.size_bytes,
        row.time_us,
        row.algbw_GBps,
        row.busbw_GBps,
        row.library_version,
        _choice(row.algorithm, row.algorithm_from),
        _choice(row.protocol, row.protocol_from),
        _notes(row),
        health,
        None,
    )
    return ["" if value is None else value for value in values]


def _choice(value: str | None, source: str | None) -> str | None:
    """``ring (forced)`` or ``ring (observed)``: a forced one is predicted so, the other is NCCL's choice."""
    if value is None or source is None:
        return value
    return f"{value} ({'forced' if source == FORCED else 'observed'})"


def _notes(row: MeasuredRow) -> str:
    parts = [" ".join(filter(None, (row.tool, row.tool_version)))]
    if row.rank is not None:
        parts.append(f"rank {row.rank}")
    if row.cuda_graph:
        parts.append("CUDA graph")
    if row.wrong:
        parts.append(f"{row.wrong} wrong elements")
    return "; ".join(parts)
