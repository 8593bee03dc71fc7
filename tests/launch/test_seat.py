"""Where a process sits among all that were started, although its launchers contradict each other."""

from __future__ import annotations

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.launch.identity import IdentityError
from clusterlab.launch.seat import take_seat

STEP = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "1",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "0",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_STEP_TASKS_PER_NODE": "2",
}


def test_launchers_that_agree_leave_nothing_to_say() -> None:
    seat = take_seat(STEP, timeout_s=1)
    assert seat is not None
    assert seat.conflict is None
    assert seat.program == seat.arrival.identity
    assert seat.program.rank == 1


def test_nobody_launched_has_no_seat() -> None:
    assert take_seat({}, timeout_s=1) is None


def test_exported_ranks_that_contradict_leave_the_launchers_word() -> None:
    seat = take_seat(STEP | {"RANK": "0", "WORLD_SIZE": "1"}, timeout_s=1)
    assert seat is not None
    assert (seat.arrival.identity.rank, seat.arrival.identity.world_size) == (1, 2)
    assert isinstance(seat.conflict, IdentityError)
    assert seat.conflict.code == "IDENTITY_CONFLICT"
    assert seat.arrival.environ["WORLD_SIZE"] == "1"


def test_a_spawner_in_every_task_is_counted_over_all_tasks() -> None:
    inner = {
        "RANK": "0",
        "WORLD_SIZE": "4",
        "LOCAL_RANK": "3",
        "LOCAL_WORLD_SIZE": "4",
        "GROUP_RANK": "0",
        "GROUP_WORLD_SIZE": "1",
        "TORCHELASTIC_RUN_ID": "x",
        "PMIX_NAMESPACE": "slurm.pmix.7.0",
        "PMIX_RANK": "1",
    }
    seat = take_seat(STEP | inner, timeout_s=1)
    assert seat is not None
    assert isinstance(seat.conflict, IdentityError)
    assert seat.conflict.code == "LAUNCHER_NESTED"
    mine = seat.arrival.identity
    assert (mine.rank, mine.world_size, mine.local_rank, mine.local_world_size) == (7, 8, 7, 8)
    assert (seat.program.local_rank, seat.program.local_world_size) == (3, 4)
    assert seat.arrival.pmix is None  # the agent's


def test_a_rank_that_nobody_completes_stays_an_error() -> None:
    with pytest.raises(IdentityError, match="cannot be learned"):
        take_seat({"RANK": "1"}, timeout_s=1)


def test_a_rank_variable_that_is_no_number_leaves_the_launchers_word() -> None:
    seat = take_seat(STEP | {"RANK": "1", "WORLD_SIZE": "1(x2)"}, timeout_s=1)
    assert seat is not None
    assert seat.arrival.identity.world_size == 2
    assert "1(x2)" in str(seat.conflict)


def test_a_rank_variable_that_is_no_number_is_bad_input_without_a_launcher() -> None:
    with pytest.raises(UsageError, match="RANK: 'one'"):
        take_seat({"RANK": "one", "WORLD_SIZE": "2"}, timeout_s=1)
