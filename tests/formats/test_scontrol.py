"""Output of Slurm 22.05.8, kept in tests/data/slurm; the job's name and comment are chosen to mislead."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.formats.scontrol import JobRecord, parse_jobs, parse_squeue

DATA = Path(__file__).parent.parent / "data" / "slurm"


def test_a_job_is_read_whatever_its_name_and_comment_hold() -> None:
    (job,) = parse_jobs((DATA / "scontrol_show_job.txt").read_text())
    assert (job.job_id, job.state, job.reason, job.nodes) == ("5", "RUNNING", None, "n[0-1]")
    assert (job.exit_status, job.exit_signal, job.restarts) == (0, 0, 0)
    assert job.name == "a b UserId=3 JobState=F"
    assert not job.over
    assert job.fields["TimeLimit"] == "UNLIMITED"
    assert job.fields["CPUs/Task"] == "1"
    assert job.fields["NtasksPerN:B:S:C"] == "2:0:*:*"
    assert job.fields["Power"] == ""


def test_one_job_a_line_and_arrays_are_read_alike() -> None:
    jobs = parse_jobs((DATA / "scontrol_show_job_oneliner.txt").read_text())
    assert [(j.job_id, j.state, j.exit_signal) for j in jobs] == [
        ("5", "CANCELLED", 15),
        ("7", "RUNNING", 0),
        ("6", "PENDING", 0),
    ]
    assert jobs[0].over
    assert jobs[2].reason == "Resources"
    assert jobs[2].fields["ArrayTaskId"] == "1"


@pytest.mark.parametrize(
    ("state", "reason", "over"),
    [
        ("PENDING", "Priority", False),
        ("COMPLETING", "None", False),
        ("COMPLETING", "NonZeroExitCode", True),
        ("COMPLETING", "NodeDown", False),  # requeued next, or NODE_FAIL
        ("CANCELLED by 1000", "None", True),
        ("FAILED,COMPLETING", "NonZeroExitCode", True),
        ("NODE_FAIL", "NodeDown", True),
        ("", "", False),
    ],
)
def test_what_ends_a_job_for_good(state: str, reason: str, over: bool) -> None:
    (job,) = parse_jobs(f"JobId=1 JobName=x JobState={state} Reason={reason} ExitCode=1:0\n")
    assert job.over is over


@pytest.mark.parametrize("text", ["", "No jobs in the system\n", "slurm_load_jobs error: Invalid"])
def test_what_is_no_job_is_passed_over(text: str) -> None:
    assert parse_jobs(text) == []
    assert parse_squeue(text) == []


@given(st.text())
def test_no_text_is_too_strange(text: str) -> None:
    parse_jobs(text)
    parse_squeue(text)
    (job, *_) = parse_jobs(f"JobId=4 JobState=RUNNING {text}")
    assert job.job_id == "4"
    assert job.state == "RUNNING"


def test_squeue_tells_state_nodes_and_reason() -> None:
    text = "12|PENDING||Resources\n13|RUNNING|n[0-1]|None\nslurm_load_jobs error\n14|X\n"
    assert parse_squeue(text) == [
        JobRecord("12", "PENDING", "Resources", None),
        JobRecord("13", "RUNNING", None, "n[0-1]"),
    ]
