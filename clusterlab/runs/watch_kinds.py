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
from clusterlab.report.numbers import three_digits
from clusterlab.report.soak import soak_lines
from clusterlab.runs.bringup_report import is_bringup, kept_lines
from clusterlab.verdict.soak import soaked, tolerance_of

_MOST_FINDINGS = 5


def kind_of(configuration: Mapping[str, Any]) -> str:
    """``sweep``, ``pairs``, ``groups``, ``training``, ``overlap``, ``soak``, ``hunt`` or ``bringup``."""
    named = configuration.get("measures", configuration.get("command"))
    if isinstance(named, str) and named:
        return named
    pattern = configuration.get("pattern")
    if pattern in (PAIRS, PAIRS_ONE_BY_ONE):
        return "pairs"
    return "groups" if isinstance(pattern, str) and is_of_groups(pattern) else "sweep"


def tables_of(
    run: RunDir, kind: str, rows: Sequence[Row], placement: Placement | None, *, over: bool
) -> tuple[str, ...]:
    """Lines of a run: the slowest of the ranks that were measured apart, and at its end what was found."""
    lines = list(slowest_of_some(rows, placement)) if kind in ("pairs", "groups", "hunt") else []
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


def slowest_of_some(rows: Iterable[Row], placement: Placement | None) -> Iterable[str]:
    """Of each collective the pair or group that has the least of the median busbw of its like, so far."""
    alike: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        if row.ranks is not None and row.busbw_GBps > 0:
            key = (row.collective, row.dtype, row.op, row.size_bytes, row.in_place, row.timing)
            alike.setdefault(key, []).append(row)
    worst: dict[str, tuple[float, Row, float]] = {}
    for own in alike.values():
        if len(own) < 2:
            continue
        middle = statistics.median(row.busbw_GBps for row in own)
        row = min(own, key=lambda row: row.busbw_GBps)
        share = row.busbw_GBps / middle
        if row.collective not in worst or share < worst[row.collective][0]:
            worst[row.collective] = share, row, middle
    for name, (share, row, middle) in worst.items():
        ranks = row.ranks or ()
        hosts = ""
        if placement is not None and all(rank < placement.world_size for rank in ranks):
            hosts = ", ".join(dict.fromkeys(placement.ranks[rank].host for rank in ranks))
        yield (
            f"slowest {name} so far: {ranks_in_words(name, ranks)}{f' ({hosts})' if hosts else ''} "
            f"{human_size(row.size_bytes)}: {three_digits(row.busbw_GBps)} GB/s, {share:.2f} of the median "
            f"{three_digits(middle)}"
        )
