from __future__ import annotations

import csv
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.launch.claims import foreign_pmix
from clusterlab.launch.identity import (
    RankIdentity,
    detect_identity,
    explain_identity,
    single_identity,
)
from clusterlab.launch.pmix_types import PmixFacts
from tests.launch.environments import RECORDED_NAMES, facts_of, recorded
from tests.support import shared_dir

TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "none",
    "TORCHELASTIC_RESTART_COUNT": "0",
    "RANK": "3",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "GROUP_RANK": "1",
    "GROUP_WORLD_SIZE": "2",
}


def test_a_plain_process_is_no_rank() -> None:
    assert detect_identity({"PATH": "/bin"}) is None


def test_single_is_rank_0_of_1() -> None:
    assert single_identity("h") == RankIdentity(0, 1, 0, 1, 0, "h", "single")


@pytest.mark.parametrize("name", ["step", "none", "pmi2"])
def test_every_task_of_a_slurm_step_knows_itself_without_pmix(name: str) -> None:
    got = [detect_identity(environ) for environ in recorded(name)]
    assert got == [
        RankIdentity(0, 4, 0, 2, 0, "n0", "slurm"),
        RankIdentity(1, 4, 1, 2, 0, "n0", "slurm"),
        RankIdentity(2, 4, 0, 2, 1, "n1", "slurm"),
        RankIdentity(3, 4, 1, 2, 1, "n1", "slurm"),
    ]


def test_pmix_is_trusted_first() -> None:
    got = [detect_identity(environ, facts_of(environ)) for environ in recorded("step")]
    assert [i.source for i in got if i] == ["pmix"] * 4
    assert [(i.rank, i.local_rank, i.node_rank, i.host) for i in got if i] == [
        (0, 0, 0, "n0"),
        (1, 1, 0, "n0"),
        (2, 0, 1, "n1"),
        (3, 1, 1, "n1"),
    ]


def test_mpirun_without_libpmix_is_read_from_its_variables() -> None:
    got = [detect_identity(environ, hostname="h") for environ in recorded("ompi")]
    assert got == [
        RankIdentity(0, 2, 0, 2, 0, "h", "openmpi"),
        RankIdentity(1, 2, 1, 2, 0, "h", "openmpi"),
    ]


@pytest.mark.parametrize("name", ["batch", "leaked_batch"])
def test_a_batch_script_is_no_rank_although_slurm_gives_it_a_procid(name: str) -> None:
    environ = recorded(name)[0]
    assert environ["SLURM_PROCID"] == "0"
    assert environ["SLURM_NTASKS"] == "4"
    assert detect_identity(environ) is None


@pytest.mark.parametrize("step", ["4294967290", "4294967291", "4294967292"])
def test_interactive_batch_and_extern_steps_have_no_ranks(step: str) -> None:
    assert detect_identity(recorded("none")[0] | {"SLURM_STEP_ID": step}) is None


def test_torchrun_inside_a_step_with_one_task_a_node_owns_identity() -> None:
    found = [explain_identity(environ) for environ in recorded("torchrun_step")]
    assert [f.identity for f in found] == [
        RankIdentity(r, 4, r % 2, 2, r // 2, f"n{r // 2}", "torchrun") for r in range(4)
    ]
    assert "torchrun owns identity" in " ".join(found[3].notes)
    assert any("PMIX_NAMESPACE" in note for note in found[3].notes)


def test_torchrun_in_a_batch_script_owns_identity() -> None:
    got = [detect_identity(environ) for environ in recorded("torchrun_batch")]
    assert [(i.rank, i.world_size, i.source) for i in got if i] == [
        (0, 2, "torchrun"),
        (1, 2, "torchrun"),
    ]


def test_a_torchrun_of_its_own_in_every_task_is_refused() -> None:
    alone = {"GROUP_WORLD_SIZE": "1", "RANK": "0", "WORLD_SIZE": "2"}
    with pytest.raises(UsageError, match=r"GROUP_WORLD_SIZE=1.*SLURM_STEP_NUM_TASKS=4"):
        detect_identity(recorded("none")[2] | TORCHRUN | alone)


def test_an_elastic_restart_with_fewer_agents_is_no_contradiction() -> None:
    environ = recorded("none")[2] | TORCHRUN | {"TORCHELASTIC_RESTART_COUNT": "1"}
    found = detect_identity(environ)
    assert found is not None
    assert found.source == "torchrun"


def test_mpirun_inside_a_one_task_step_owns_identity() -> None:
    found = explain_identity(recorded("onetask")[1] | without_pmix(recorded("ompi")[1]))
    assert found.identity is not None
    assert (found.identity.rank, found.identity.world_size) == (1, 2)
    assert found.identity.source == "openmpi"


@pytest.mark.parametrize("name", RECORDED_NAMES)
def test_every_recorded_process_is_one_rank_or_none(name: str) -> None:
    found = [detect_identity(environ) for environ in recorded(name)]
    ranks = [i.rank for i in found if i]
    assert ranks in ([], list(range(len(found))))


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("RANK", "9", r"SLURM_PROCID=2 \(slurm\) contradicts RANK=9 \(environment\)"),
        ("WORLD_SIZE", "8", r"SLURM_STEP_NUM_TASKS=4 \(slurm\) contradicts WORLD_SIZE=8"),
        ("LOCAL_RANK", "1", r"SLURM_LOCALID=0 \(slurm\) contradicts LOCAL_RANK=1"),
        (
            "LOCAL_WORLD_SIZE",
            "4",
            r"TASKS_PER_NODE\[1\]=2 \(slurm\) contradicts LOCAL_WORLD_SIZE=4",
        ),
    ],
)
def test_exported_variables_that_contradict_slurm_are_refused(
    variable: str, value: str, message: str
) -> None:
    agreeing = {"RANK": "2", "WORLD_SIZE": "4", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
    environ = recorded("none")[2] | agreeing
    assert detect_identity(environ) == detect_identity(recorded("none")[2])
    with pytest.raises(UsageError, match=message):
        detect_identity(environ | {variable: value})


def test_pmix_and_slurm_that_disagree_are_refused_as_separate_jobs() -> None:
    environ = recorded("step")[0]
    alone = replace(facts_of(environ), job_size=1, local_size=1)
    with pytest.raises(
        UsageError,
        match=r"pmix.job.size=1 .pmix. contradicts SLURM_STEP_NUM_TASKS=4.*separate jobs",
    ):
        detect_identity(environ, alone)


def test_a_world_size_exported_in_a_batch_script_makes_nobody_a_rank() -> None:
    assert detect_identity(recorded("batch")[0] | {"WORLD_SIZE": "8", "MASTER_PORT": "1"}) is None


def test_ranks_exported_by_hand_are_understood() -> None:
    environ = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
    got = detect_identity(environ, hostname="h")
    assert got == RankIdentity(1, 2, 1, 2, 0, "h", "environment")


def test_an_incomplete_set_says_what_is_missing() -> None:
    with pytest.raises(UsageError, match="RANK=1 is set, but world_size, local_rank"):
        detect_identity({"RANK": "1"})


def test_a_pmix_rank_nobody_can_ask_about_is_refused() -> None:
    environ = {"PMIX_RANK": "3", "PMIX_NAMESPACE": "prterun-h-17@1"}
    with pytest.raises(UsageError, match=r"PMIX_RANK=3 is set.*install libpmix2"):
        detect_identity(environ)
    facts = PmixFacts("prterun-h-17@1", 3, 4, 3, 4, hostname="h")
    assert detect_identity(environ, facts) == RankIdentity(3, 4, 3, 4, 0, "h", "pmix")


@pytest.mark.parametrize(
    ("name", "index", "reason"),
    [
        ("step", 0, None),
        ("ompi", 0, None),
        ("none", 0, None),
        ("nested", 1, "inherited: this is step"),
        ("leaked_batch", 0, "no task of a step"),
        ("torchrun_step", 0, "the torchrun agent's"),
    ],
)
def test_pmix_variables_of_another_process_are_recognised(
    name: str, index: int, reason: str | None
) -> None:
    got = foreign_pmix(recorded(name)[index])
    assert (got is None) if reason is None else (got is not None and reason in got)


def test_a_step_inside_a_step_is_not_the_outer_steps_rank() -> None:
    got = [detect_identity(environ) for environ in recorded("nested")]
    assert [(i.rank, i.world_size) for i in got if i] == [(0, 2), (1, 2)]


NUMBERS = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "PMIX_RANK")
junk = st.text(max_size=12).filter(lambda t: t.strip() and not t.strip().isdecimal())


@pytest.mark.parametrize("variable", NUMBERS)
@given(value=junk | st.just("9" * 5000) | st.just("-1") | st.just("٣"))
def test_a_variable_that_holds_no_number_is_named(variable: str, value: str) -> None:
    with pytest.raises(UsageError) as caught:
        detect_identity(recorded("step")[1] | {variable: value})
    assert str(caught.value).startswith(f"{variable}: ")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("SLURM_PROCID", "4", "SLURM_PROCID=4 does not fit SLURM_STEP_NUM_TASKS=4"),
        ("SLURM_STEP_TASKS_PER_NODE", "2(x", "SLURM_STEP_TASKS_PER_NODE: '2\\(x' is not a count"),
        ("SLURM_STEP_TASKS_PER_NODE", "2", "has no entry for SLURM_NODEID=1"),
        ("SLURM_STEP_NUM_TASKS", "0", "SLURM_STEP_NUM_TASKS"),
    ],
)
def test_slurm_variables_that_do_not_fit_are_refused(
    variable: str, value: str, message: str
) -> None:
    environ = recorded("none")[2] | {variable: value}
    if variable == "SLURM_STEP_NUM_TASKS":
        environ["SLURM_NTASKS"] = value
    with pytest.raises(UsageError, match=message):
        detect_identity(environ)


def test_uneven_tasks_per_node_are_counted_per_node() -> None:
    environ = recorded("none")[2] | {
        "SLURM_STEP_TASKS_PER_NODE": "13,1(x3)",
        "SLURM_STEP_NUM_TASKS": "16",
        "SLURM_NTASKS": "16",
        "SLURM_PROCID": "13",
    }
    got = detect_identity(environ)
    assert got is not None
    assert (got.rank, got.local_rank, got.local_world_size) == (13, 0, 1)


@pytest.mark.parametrize("table", ["plain.csv", "constrain_devices.csv"])
def test_every_task_of_the_measured_srun_tables_gets_the_rank_slurm_gave(table: str) -> None:
    path = shared_dir() / "cases" / "bind_tables" / table
    tasks = 0
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if not row["procid"]:
                continue  # a rejected command line
            environ = {k: v for k, v in row.items() if k.startswith("SLURM_") and v} | {
                "SLURM_JOB_ID": "1",
                "SLURM_STEP_ID": row["step"],
                "SLURM_PROCID": row["procid"],
                "SLURM_LOCALID": row["localid"],
                "SLURM_NODEID": row["nodeid"],
                "SLURMD_NODENAME": row["nodename"],
            }
            got = detect_identity(environ)
            assert got is not None
            assert (got.rank, got.local_rank) == (int(row["procid"]), int(row["localid"]))
            assert got.local_world_size == len(row["SLURM_GTIDS"].split(","))
            assert got.host == row["nodename"]
            tasks += 1
    assert tasks > 700


def without_pmix(environ: dict[str, str]) -> dict[str, str]:
    return {k: v for k, v in environ.items() if not k.startswith("PMIX_")}


def test_what_pmix_does_not_tell_is_taken_from_slurm():
    environ = {
        "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "3", "SLURM_LOCALID": "1",
        "SLURM_NODEID": "1", "SLURM_NTASKS": "4", "SLURM_STEP_NUM_TASKS": "4",
        "SLURM_STEP_TASKS_PER_NODE": "2(x2)", "SLURM_NNODES": "2", "SLURM_STEP_NUM_NODES": "2",
        "SLURM_TASKS_PER_NODE": "2(x2)", "SLURM_SRUN_COMM_PORT": "1",
        "PMIX_RANK": "3", "PMIX_NAMESPACE": "slurm.pmix.7.0",
    }  # fmt: skip
    facts = PmixFacts("slurm.pmix.7.0", 3, 4, 1, None)
    found = detect_identity(environ, facts, hostname="h")
    assert found is not None
    assert (found.rank, found.world_size, found.local_rank, found.local_world_size) == (3, 4, 1, 2)
