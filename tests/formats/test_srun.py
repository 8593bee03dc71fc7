from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.formats.srun import TasksEnded, parse_lost_nodes, parse_task_ends

# A killed rank, then a lost node: srun 22.05.8 on two nodes of two tasks.
KILLED = """\
srun: error: n1: task 3: Killed
srun: launch/slurm: _step_signal: Terminating StepId=1.0
slurmstepd-n0: error: *** STEP 1.0 ON n0 CANCELLED AT 2026-11-29T22:57:14 ***
srun: error: n0: tasks 0-1: Exited with exit code 4
srun: error: n1: task 2: Terminated
srun: Force Terminated StepId=1.0
"""
LOST = """\
srun: Job step aborted: Waiting up to 7 seconds for job step to finish.
srun: error: Timed out waiting for job step to complete
srun: error: Node failure on n1
srun: error: task 1 launch failed: Unspecified error
"""


def test_every_end_is_read_with_its_host_ranks_and_cause() -> None:
    assert parse_task_ends(KILLED) == [
        TasksEnded("n1", (3,), None, 9, "Killed"),
        TasksEnded("n0", (0, 1), 4, None, "Exited with exit code 4"),
        TasksEnded("n1", (2,), None, 15, "Terminated"),
    ]
    assert parse_task_ends(LOST) == []


@pytest.mark.parametrize(
    ("how", "signal"),
    [
        ("Segmentation fault (core dumped)", 11),
        ("Out Of Memory", 9),
        ("Aborted", 6),
        ("Something new", None),
    ],
)
def test_signals_are_known_by_their_words(how: str, signal: int | None) -> None:
    (ended,) = parse_task_ends(f"srun: error: gpu-01.cluster: tasks 0,2-3,9: {how}")
    assert (ended.host, ended.ranks) == ("gpu-01.cluster", (0, 2, 3, 9))
    assert (ended.signal, ended.exit_code, ended.text) == (signal, None, how)


def test_lost_nodes_are_named_once() -> None:
    assert parse_lost_nodes(LOST + LOST) == ["n1"]
    assert parse_lost_nodes(KILLED) == []


def test_a_line_cut_in_its_ranks_names_none() -> None:
    (ended,) = parse_task_ends("srun: error: n0: tasks 0-,: Killed")
    assert ended.ranks == ()


@given(st.text())
def test_no_text_is_too_strange(text: str) -> None:
    parse_task_ends("srun: error: n0: tasks 1-" + text)
    parse_lost_nodes(text)
