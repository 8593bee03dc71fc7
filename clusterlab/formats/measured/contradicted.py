"""What the user says of a file and the file says otherwise."""

from __future__ import annotations

from clusterlab.core.findings import Finding, Severity
from clusterlab.core.measured import MeasuredRow
from clusterlab.formats.measured.file import Given, MeasuredFile

_OPTIONS = {
    "--collective": "collective",
    "--ranks": "world_size",
    "--nodes": "n_nodes",
    "--gpus-per-node": "gpus_per_node",
    "--system": "system",
    "--intra": "intra_fabric",
    "--inter": "inter_fabric",
    "--nccl-version": "library_version",
}
"""Each with its field of a row and of ``Given``. ``--gpu`` is meant to replace what a file says."""

_FROM = {"collective": "collective_from", "world_size": "world_size_from"}
_SHOWN = 4


def contradicted(file: MeasuredFile, given: Given) -> tuple[Finding, ...]:
    """A warning for each option that ``file``, as it was read, contradicts: the file's word is kept."""
    return tuple(
        finding
        for option, field in _OPTIONS.items()
        if (finding := _contradicted(file, option, field, getattr(given, field))) is not None
    )


def _contradicted(
    file: MeasuredFile, option: str, field: str, said: str | int | None
) -> Finding | None:
    if said is None:
        return None
    others: dict[str, None] = {}
    for row in file.rows:
        own = getattr(row, field)
        if own is not None and _bare(own) != _bare(said):
            others[f"{file.source}, table {row.table}: {own}{_source(row, field)}"] = None
    if not others:
        return None
    shown = list(others)[:_SHOWN]
    more = [f"and {len(others) - _SHOWN} more tables"] if len(others) > _SHOWN else []
    return Finding(
        "option_contradicted",
        Severity.WARNING,
        (f"{option} {said}, but the file says otherwise", *shown, *more),
        f"the file's own is kept: leave {option} out, or check which is right",
    )


def _source(row: MeasuredRow, field: str) -> str:
    source = getattr(row, _FROM[field]) if field in _FROM else None
    return f" ({source})" if source else ""


def _bare(value: str | int) -> str:
    """Without what a release was built for: 2.26.2+cuda12.8 is 2.26.2."""
    return str(value).partition("+")[0]
