"""What kind of run it is, and the lines that only some kinds have."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from clusterlab.core.errors import ClusterlabError
from clusterlab.core.pairs import ranks_in_words
from clusterlab.core.patterns import PAIRS, PAIRS_ONE_BY_ONE, is_of_groups
from clusterlab.core.placement import Placement
from clusterlab.core.rows import Row
from clusterlab.core.sizes import human_size
from clusterlab.records.documents import read_findings
from clusterlab.records.lines import read_lines
from clusterlab.records.run_dir import RunDir
from clusterlab.records.run_info import RunInfo
from clusterlab.report.console.soak import soak_lines
from clusterlab.report.numbers import three_digits
from clusterlab.runs.probing.bringup_report import is_bringup, kept_lines
from clusterlab.verdict.pairs import OF_PAIRS, pair_tables
from clusterlab.verdict.soak import soaked, tolerance_of

_MOST_FINDINGS = 5
_MOST_HOSTS = 4


def kind_of(configuration: Mapping[str, Any]) -> str:
    """``sweep``, ``pairs``, ``groups``, ``training``, ``overlap``, ``soak``, ``hunt`` or ``bringup``."""
    named = configuration.get("measures", configuration.get("command"))
    if isinstance(named, str) and named:
        return named
    pattern = configuration.get("pattern")
    if pattern in (PAIRS, PAIRS_ONE_BY_ONE):
        return "pairs"
    return "groups" if isinstance(pattern, str) and is_of_groups(pattern) else "sweep"


_OF_COMMAND = {
    "bench": "sweep", "train": "training", "overlap": "overlap", "soak": "soak", "hunt": "hunt",
    "bringup": "bringup",
}  # fmt: skip


def kind_of_run(info: RunInfo) -> str:
    """As ``kind_of``; of a run whose ranks have not said yet what they measure, by what was typed."""
    if info.attempts or info.configuration:
        return kind_of(info.configuration)
    command = [word for word in info.created_by.command[1:] if word != "submit"]
    kind = _OF_COMMAND.get(command[0] if command else "", "run")
    return "pairs" if kind == "sweep" and command[1:2] == ["pairs"] else kind


def tables_of(
    run: RunDir, kind: str, rows: Sequence[Row], placement: Placement | None, *, over: bool
) -> tuple[str, ...]:
    """Lines of a run: the slowest of the ranks that were measured apart, and at its end what was found."""
    lines = [*slowest_of_some(rows, placement)] if kind in ("pairs", "groups", "hunt") else []
    if not over:
        return tuple(lines)
    if is_bringup(run):
        lines += kept_lines(run)
    if kind == "soak":
        passes = read_lines(run.path).passes
        lines += soak_lines(soaked(passes, tolerance_of(run.info.configuration)))
    try:
        findings = read_findings(run.path)
    except ClusterlabError as error:
        return (*lines, f"findings: {error}")
    for finding in findings[:_MOST_FINDINGS]:
        lines += [f"{finding.severity}: {finding.code}: {line}" for line in finding.evidence[:1]]
        lines.append(f"  fix: {finding.fix}")
    return tuple(lines)


def slowest_of_some(rows: Sequence[Row], placement: Placement | None) -> Iterable[str]:
    """Of each collective the pair or group that is the furthest from the median of its like, so far."""
    worst: dict[str, tuple[float, str]] = {}
    for table in pair_tables(rows):
        pair, unit = table.slowest, "us" if table.unit == "us" else "GB/s"
        where = f"{_who(table.collective, pair.ranks, placement)} {human_size(table.size_bytes)}"
        of = f"{pair.ratio:.2f} of the median {three_digits(table.median)}"
        if len(table.pairs) > 1:
            worst[table.collective] = max(
                worst.get(table.collective, (0.0, "")),
                (pair.slowdown, f"{where}: {three_digits(pair.value)} {unit}, {of}"),
            )
    for row, middle in _groups(rows):
        share = row.busbw_GBps / middle
        where = f"{_who(row.collective, row.ranks or (), placement)} {human_size(row.size_bytes)}"
        told = (
            f"{three_digits(row.busbw_GBps)} GB/s, {share:.2f} of the median {three_digits(middle)}"
        )
        worst[row.collective] = max(
            worst.get(row.collective, (0.0, "")), (1 / share, f"{where}: {told}")
        )
    return [f"slowest {name} so far: {told}" for name, (_, told) in worst.items()]


def _groups(rows: Iterable[Row]) -> Iterable[tuple[Row, float]]:
    """Of groups that did the same the slowest, and the median of all."""
    alike: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        if row.ranks is not None and row.collective not in OF_PAIRS and row.busbw_GBps > 0:
            key = (row.collective, row.dtype, row.op, row.size_bytes, row.in_place, row.timing)
            alike.setdefault(key, []).append(row)
    for own in alike.values():
        if len(own) > 1:
            slowest = min(own, key=lambda row: row.busbw_GBps)
            yield slowest, statistics.median(row.busbw_GBps for row in own)


def _who(collective: str, ranks: Sequence[int], placement: Placement | None) -> str:
    said = ranks_in_words(collective, ranks)
    if placement is None or any(rank >= placement.world_size for rank in ranks):
        return said
    hosts = list(dict.fromkeys(placement.ranks[rank].host for rank in ranks))
    more = f" and {len(hosts) - _MOST_HOSTS} more" if len(hosts) > _MOST_HOSTS else ""
    return f"{said} ({', '.join(hosts[:_MOST_HOSTS])}{more})"
