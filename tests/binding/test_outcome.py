"""Exit codes of a diagnosis, and conflicts that are findings."""

from __future__ import annotations

import pytest

from clusterlab.binding.outcome import exit_code, identity_finding
from clusterlab.core.errors import UsageError
from clusterlab.core.findings import Finding, Severity
from clusterlab.launch.identity import IdentityError, explain_identity

STEP = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "0",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_STEP_TASKS_PER_NODE": "2",
}


@pytest.mark.parametrize(
    ("severity", "missing", "code"),
    [("info", [], 0), ("warning", [], 0), ("error", [], 1), ("fatal", [], 1), ("info", [3], 4)],
)
def test_the_exit_code_follows_from_severity_and_missing_ranks(
    severity: str, missing: list[int], code: int
) -> None:
    assert exit_code([Finding("CODE", Severity(severity), ("seen",), "do")], missing) == code


@pytest.mark.parametrize(
    ("environ", "code"),
    [
        ({"RANK": "0", "WORLD_SIZE": "1"}, "RANK_SINGLETON"),
        ({"RANK": "3"}, "IDENTITY_CONFLICT"),
        (
            {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2",
             "GROUP_RANK": "0", "GROUP_WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": "x"},
            "LAUNCHER_NESTED",
        ),
    ],
)  # fmt: skip
def test_launchers_that_contradict_each_other_are_a_finding(
    environ: dict[str, str], code: str
) -> None:
    with pytest.raises(IdentityError) as caught:
        explain_identity(STEP | environ)
    finding = identity_finding(caught.value, "n0", [0])
    assert (finding.code, finding.ranks) == (code, (0,))
    assert finding.fix and "on n0" in finding.evidence[0]
    assert exit_code([finding], []) == 1


def test_a_variable_that_holds_no_number_is_a_finding_with_its_name() -> None:
    with pytest.raises(UsageError) as caught:
        explain_identity(STEP | {"RANK": "one"})
    finding = identity_finding(caught.value, "n0")
    assert finding.code == "IDENTITY_CONFLICT"
    assert "RANK: 'one'" in finding.evidence[0]
    assert finding.fix
