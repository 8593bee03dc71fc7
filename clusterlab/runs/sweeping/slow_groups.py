"""Groups of ranks that are slower than their peers, as findings of a run."""

from __future__ import annotations

from clusterlab.core.findings import Finding, Severity
from clusterlab.records.documents import read_placement
from clusterlab.records.run_dir import RunDir
from clusterlab.records.store import latest_rows
from clusterlab.report.console.groups import slow_text
from clusterlab.verdict.groups import group_tables, slow_groups

_FIX = (
    "repeat it with --one-by-one: slow alone too, it is the group's own; else what it shares with others. "
    "Then divide it: nodes:K with a smaller K, node, or `clusterlab bench pairs` among its ranks"
)


def slow_group_findings(run: RunDir) -> tuple[Finding, ...]:
    """One for each group that stands out, the worst first; none of a run of all ranks or of pairs."""
    rows = latest_rows(run.records().rows).rows
    placement = read_placement(run.path)
    return tuple(
        Finding(
            "SLOW_GROUP", Severity.WARNING, (slow_text(group, placement),), _FIX, ranks=group.ranks
        )
        for group in slow_groups(group_tables(rows), placement)
    )
