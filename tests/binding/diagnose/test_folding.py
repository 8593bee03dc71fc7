"""Consequences under their cause: one primary cause per connected problem."""

from __future__ import annotations

import itertools

from clusterlab.binding.diagnose import CODES
from clusterlab.binding.folding import CAUSES, fold
from clusterlab.core.findings import Finding, Severity


def found(code: str, *ranks: int, severity: Severity = Severity.ERROR) -> Finding:
    return Finding(code, severity, ("seen",), "mend it", ranks=ranks)


def test_a_consequence_names_its_cause_and_stands_after_it() -> None:
    folded = fold(
        [
            found("GPU_IDLE", 0, 1),
            found("GPU_SHARED_BY_RANKS", 0, 1),
            found("LAUNCHER_NESTED", 0, 1),
        ]
    )
    assert folded[0].code == "LAUNCHER_NESTED"
    assert {f.code: f.caused_by for f in folded} == {
        "LAUNCHER_NESTED": None,
        "GPU_SHARED_BY_RANKS": "LAUNCHER_NESTED",
        "GPU_IDLE": "LAUNCHER_NESTED",
    }


def test_findings_of_other_ranks_are_no_consequence() -> None:
    folded = fold([found("CVD_SYNTAX", 0), found("CVD_LOCAL_RANK_MISMATCH", 5)])
    assert all(f.caused_by is None for f in folded)


def test_what_one_rank_did_is_behind_what_another_noticed() -> None:
    folded = fold([found("COMMUNICATION_FAILED", 0), found("CVD_LOCAL_RANK_MISMATCH", 5)])
    assert folded[1].caused_by == "CVD_LOCAL_RANK_MISMATCH"


def test_information_is_behind_no_error() -> None:
    folded = fold([found("IPC_ISOLATED", 0, severity=Severity.INFO), found("CPU_NUMA_REMOTE", 0)])
    assert all(f.caused_by is None for f in folded)


def test_every_code_in_the_table_is_known_and_no_finding_is_lost() -> None:
    named = {code for pair in CAUSES.items() for code in (pair[0], *pair[1])}
    assert named <= set(CODES)
    everything = [found(code, 0) for code in CODES]
    assert sorted(f.code for f in fold(everything)) == sorted(CODES)


def test_following_causes_never_leads_in_a_circle() -> None:
    for codes in itertools.combinations(sorted(CAUSES), 3):
        causes = {f.code: f.caused_by for f in fold([found(code, 0) for code in codes])}
        for start in codes:
            seen, at = {start}, causes[start]
            while at is not None:
                assert at not in seen
                seen.add(at)
                at = causes[at]
    everything = {f.code: f.caused_by for f in fold([found(code, 0) for code in CODES])}
    assert any(cause is None for cause in everything.values())
