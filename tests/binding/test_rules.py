"""Findings over joined looks: broken layouts named, healthy ones silent."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.binding.look import Look
from clusterlab.binding.rules import diagnose, exit_code, identity_finding
from clusterlab.core.findings import Finding, Severity
from clusterlab.launch.identity import IdentityError, explain_identity
from tests.binding.machines import gpu, look

HEALTHY = [look(rank) for rank in range(8)]


def only(findings: list[Finding], code: str) -> Finding:
    (finding,) = findings
    assert finding.code == code
    assert finding.evidence and finding.fix
    return finding


def changed(ranks: list[int], **fields: object) -> list[Look]:
    return [replace(a, **fields) if a.rank in ranks else a for a in HEALTHY]  # type: ignore[arg-type]


def test_a_healthy_job_is_silent_although_nodes_repeat_bus_ids() -> None:
    assert diagnose(HEALTHY, []) == []
    assert exit_code([], []) == 0


def test_missing_ranks_are_named_with_the_host_that_lacks_them() -> None:
    there = [a for a in HEALTHY if a.rank not in (5, 6)]
    findings = diagnose(there, [5, 6])
    finding = only(findings, "RANK_MISSING")
    assert finding.ranks == (5, 6)
    assert finding.evidence == (
        "ranks [5-6] of 8 did not arrive",
        "n1: 2 of its 4 ranks arrived (ranks [4,7])",
    )
    assert exit_code(findings, [5, 6]) == 4


def test_the_ranks_that_came_are_judged_although_one_is_missing() -> None:
    there = [a for a in changed([0, 1], cores=(0,)) if a.rank != 7]
    assert [f.code for f in diagnose(there, [7])] == ["RANK_MISSING", "CPU_SINGLE_CORE"]


def test_two_ranks_on_one_gpu_are_named_with_the_hardware() -> None:
    findings = diagnose(changed([0, 1], gpu=HEALTHY[0].gpu, numa=(0,)), [])
    finding = only(findings, "GPU_SHARED_BY_RANKS")
    assert finding.ranks == (0, 1)
    assert gpu(0).bus_id in finding.evidence[0]
    assert exit_code(findings, []) == 1


def test_a_rank_without_a_gpu_for_itself() -> None:
    broken = changed([2], gpu=None, ordinal=None, problem="4 ranks on this node, 2 visible GPUs")
    assert only(diagnose(broken, []), "CVD_LOCAL_RANK_MISMATCH").ranks == (2,)


def test_ranks_that_run_as_separate_jobs() -> None:
    alone = [replace(HEALTHY[0], world_size=1, local_world_size=1)]
    assert only(diagnose(alone, []), "RANK_SINGLETON").severity is Severity.FATAL


def test_a_world_size_that_is_not_the_launchers() -> None:
    wrong = [replace(a, launcher_world_size=16) for a in HEALTHY]
    assert only(diagnose(wrong, []), "WORLD_SIZE_MISMATCH").ranks == tuple(range(8))


def test_one_core_for_all_is_an_error_where_others_idle() -> None:
    finding = only(diagnose(changed([0, 1, 2, 3], cores=(0,), numa=None), []), "CPU_SINGLE_CORE")
    assert finding.ranks == (0, 1, 2, 3)
    assert "15 of the 16 CPUs" in finding.evidence[0]
    assert "--cpus-per-task=4" in finding.fix


@pytest.mark.parametrize(
    "fields",
    [
        {"cores": (0,), "cpus_here": 1},  # there is only one
        {"cores": tuple(range(16))},  # not bound at all
    ],
)
def test_shared_cores_without_a_choice_or_without_harm_are_silent(
    fields: dict[str, object],
) -> None:
    assert diagnose(changed([0, 1, 2, 3], numa=None, **fields), []) == []


def test_one_core_each_is_silent() -> None:
    assert diagnose([replace(a, cores=a.cores[:1]) for a in HEALTHY], []) == []


def test_a_gpu_in_another_numa_domain_than_the_cores_is_a_warning() -> None:
    findings = diagnose(changed([1, 5], cores=(12, 13), numa=(1,)), [])
    finding = only(findings, "CPU_NUMA_REMOTE")
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (1, 5))
    assert "GPU 0000:20:00.0 is in NUMA domain 0, its cores in 1" in finding.evidence[0]
    assert "--cpunodebind=0" in finding.fix
    assert exit_code(findings, []) == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"numa": None, "cores": (12,)},  # /sys does not know the cores
        {"numa_cores": (), "cores": (12,)},  # a domain of memory only
        {"gpu": gpu(1, numa=None), "cores": (12,)},  # the firmware does not tell
        {"gpu": None, "cores": (12,)},
        {"cores": (6, 12), "numa": (0, 1)},  # some cores are near
    ],
)
def test_where_it_is_not_certain_nothing_is_said_of_numa(fields: dict[str, object]) -> None:
    assert diagnose(changed([1], **fields), []) == []


@given(
    st.integers(1, 4), st.sampled_from([1, 2, 4, 8]), st.integers(1, 8), st.booleans(), st.randoms()
)
def test_healthy_placements_of_any_size_are_silent(
    nodes: int, each: int, cores: int, bound: bool, order: random.Random
) -> None:
    world = nodes * each
    looks = []
    for rank in range(world):
        local = rank % each
        mine = tuple(range(cores * local, cores * (local + 1)))
        looks.append(
            look(
                rank,
                host=f"n{rank // each}",
                local_rank=local,
                world_size=world,
                launcher_world_size=world,
                local_world_size=each,
                gpu=replace(gpu(local, numa=0), uuid=f"GPU-{rank}"),
                numa=(0,),
                numa_cores=tuple(range(cores * each)),
                ordinal=0,
                visible_count=1,
                cores=mine if bound else tuple(range(cores * each)),
                cpus_here=cores * each,
            )
        )
    order.shuffle(looks)
    assert diagnose(looks, []) == []


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
    step = {
        "SLURM_JOB_ID": "7",
        "SLURM_STEP_ID": "0",
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
        "SLURM_NODEID": "0",
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_STEP_TASKS_PER_NODE": "2",
    }
    with pytest.raises(IdentityError) as caught:
        explain_identity(step | environ)
    finding = identity_finding(caught.value, "n0")
    assert finding.code == code
    assert finding.fix
    assert exit_code([finding], []) == 1
