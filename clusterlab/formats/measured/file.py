"""What one file of foreign measurements holds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from clusterlab.core.errors import UsageError
from clusterlab.core.findings import Finding
from clusterlab.core.measured import MeasuredRow
from clusterlab.formats.nccl_tuning import TuningChoice, TuningEntry

Kind = Literal["nccl_tests", "nccl_tests_json", "nccl_inspector", "nccl_tuning"]


@dataclass(frozen=True, slots=True)
class MeasuredFile:
    """``rows`` in the file's order. ``tuning`` is NCCL's own table of algorithms, ``choices`` what it chose
    and how often: model, not measurement.
    """

    source: str
    kind: Kind
    rows: tuple[MeasuredRow, ...]
    tuning: tuple[TuningEntry, ...] = ()
    choices: tuple[tuple[TuningChoice, int], ...] = ()
    findings: tuple[Finding, ...] = ()

    def tuning_json(self) -> dict[str, Any]:
        """NCCL's table and choices as plain data."""
        return {
            "source": self.source,
            "table": [_plain(entry) for entry in self.tuning],
            "choices": [{**_plain(choice), "calls": calls} for choice, calls in self.choices],
        }


@dataclass(frozen=True, slots=True)
class Given:
    """What the user says because the files do not."""

    system: str | None = None
    gpu: str | None = None
    collective: str | None = None
    world_size: int | None = None
    n_nodes: int | None = None
    gpus_per_node: int | None = None
    intra_fabric: str | None = None
    inter_fabric: str | None = None
    library_version: str | None = None


def with_given(file: MeasuredFile, given: Given) -> MeasuredFile:
    """The same file with what it does not say filled in; ``gpu`` also replaces the name a device reports.

    Raises UsageError where nodes × GPUs per node are not the ranks that the file says.
    """
    rows = tuple(_fill(row, given) for row in file.rows)
    known = {
        "collective_unknown": all(row.collective for row in rows),
        "ranks_unknown": all(row.world_size for row in rows),
    }
    findings = tuple(one for one in file.findings if not known.get(one.code))
    return replace(file, rows=rows, findings=findings)


def _fill(row: MeasuredRow, given: Given) -> MeasuredRow:
    nodes = row.n_nodes or given.n_nodes
    per_node = row.gpus_per_node or given.gpus_per_node
    product = nodes * per_node if nodes and per_node else None
    ranks = row.world_size or given.world_size or product
    if product is not None and ranks is not None and product != ranks:
        raise UsageError(
            f"{nodes} nodes with {per_node} GPUs each, but {ranks} ranks",
            where=f"{row.source}:{row.line}",
            expected="nodes times GPUs per node to be the ranks",
            fix="correct --nodes, --gpus-per-node or --ranks",
        )
    found: dict[str, Any] = {
        "system": row.system or given.system,
        "gpu": given.gpu or row.gpu,
        "collective": row.collective or given.collective,
        "collective_from": row.collective_from or ("option" if given.collective else None),
        "world_size": ranks,
        "world_size_from": row.world_size_from or ("option" if ranks else None),
        "n_nodes": nodes
        or (ranks // per_node if ranks and per_node and not ranks % per_node else None),
        "gpus_per_node": per_node
        or (ranks // nodes if ranks and nodes and not ranks % nodes else None),
        "intra_fabric": row.intra_fabric or given.intra_fabric,
        "inter_fabric": row.inter_fabric or given.inter_fabric,
        "library_version": row.library_version or given.library_version,
    }
    if all(getattr(row, name) == value for name, value in found.items()):
        return row  # of a log with 100,000s of rows, making them anew takes as long as reading them
    return replace(row, **found)


def _plain(one: TuningEntry | TuningChoice) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__dataclass_fields__}
