"""The slow links behind a run's slow pairs, as findings of the run."""

from __future__ import annotations

from clusterlab.core.findings import Finding
from clusterlab.records.run_dir import RunDir
from clusterlab.runs.hunting.file import hunt_findings
from clusterlab.runs.hunting.localise import finding_of, localise_runs


def slow_link_findings(run: RunDir) -> tuple[Finding, ...]:
    """A finding for what makes messages of ``run`` slow; empty for a run of neither pairs nor groups."""
    hunted = hunt_findings(run.path)
    if hunted is not None:
        return hunted
    found = localise_runs([run])
    if found is None:
        return ()
    both = zip(found.answer.faults, found.ranks, strict=True)
    return tuple(finding_of(fault, ranks, found.on) for fault, ranks in both)
