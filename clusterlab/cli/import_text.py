"""What `clusterlab import` prints of the files it read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clusterlab.core.findings import Finding
from clusterlab.core.measured import MeasuredRow
from clusterlab.core.sizes import human_size
from clusterlab.formats.measured.file import MeasuredFile

_HEADS = ("collective", "ranks", "nodes", "GPU", "sizes", "rows", "best busbw", "from")
_MOST_TABLES = 200


def summary_lines(files: Sequence[MeasuredFile]) -> Iterator[str]:
    """A line for each table of each file, columns aligned."""
    for file in files:
        yield f"{file.source}: {_kind(file)}"
        tables: dict[tuple[int, str | None, int | None], list[MeasuredRow]] = {}
        for row in file.rows:
            tables.setdefault((row.table, row.collective, row.world_size), []).append(row)
        shown = [_cells(rows) for rows in list(tables.values())[:_MOST_TABLES]]
        yield from _aligned([_HEADS, *shown]) if shown else []
        if len(tables) > _MOST_TABLES:
            yield f"  … {len(tables) - _MOST_TABLES} more (--json has all rows)"
        if file.tuning or file.choices:
            calls = sum(calls for _, calls in file.choices)
            yield (
                f"  NCCL's own model: {len(file.tuning)} figures of its table, {calls} choices for "
                f"{len(file.choices)} sizes (--tuning prints them)"
            )


def findings_lines(findings: Sequence[Finding]) -> Iterator[str]:
    """Each finding with its evidence and what to do."""
    for finding in findings:
        yield f"{finding.severity}: {finding.code}: {'; '.join(finding.evidence)}"
        yield f"  {finding.fix}"


def _kind(file: MeasuredFile) -> str:
    name = {
        "nccl_tests": "output of nccl-tests or one that prints as it does",
        "nccl_tests_json": "nccl-tests' -J file",
        "nccl_inspector": "NCCL Inspector records, one rank's time each",
        "nccl_tuning": "no measurement, NCCL's tuning lines",
    }[file.kind]
    wrong = sum(bool(row.wrong) for row in file.rows)
    share = "all" if wrong == len(file.rows) else str(wrong)
    return f"{name}, {len(file.rows)} rows" + (f", {share} with wrong elements" if wrong else "")


def _cells(rows: Sequence[MeasuredRow]) -> tuple[str, ...]:
    first = rows[0]
    sizes = sorted({row.size_bytes for row in rows if row.size_bytes})
    best = max((row.busbw_GBps for row in rows if row.busbw_GBps is not None), default=None)
    nodes = f"{first.n_nodes}×{first.gpus_per_node or '?'}" if first.n_nodes else "?"
    return (
        first.collective or "?",
        str(first.world_size or "?"),
        nodes,
        first.gpu or "?",
        f"{human_size(sizes[0])} to {human_size(sizes[-1])}" if sizes else "0 B",
        str(len(rows)),
        "?" if best is None else f"{best:.4g} GB/s",
        first.collective_from or "",
    )


def _aligned(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    for line in lines:
        yield "  " + "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip()
