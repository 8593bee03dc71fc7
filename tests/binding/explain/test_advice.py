"""Every advice was tried: with it the problem is gone, and no other is new."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.binding.explain.advice import Job, advised, helps
from clusterlab.binding.explain.command_line import read_command_lines
from clusterlab.binding.explain.explaining import cluster_of
from clusterlab.binding.explain.predict import predict
from clusterlab.binding.explain.profile import NodeProfile, ProfileGpu, lab_profile
from clusterlab.binding.explain.surprise import Change, Cure, changed
from clusterlab.binding.explain.surprises import surprises
from clusterlab.binding.explain.versions import slurm_rules
from tests.binding.explain.ask import ask

CROSSED = NodeProfile(
    "crossed",
    sockets=2,
    cores_per_socket=8,
    gpus=tuple(ProfileGpu(frozenset(range(8 * (i % 2), 8 * (i % 2) + 8))) for i in range(4)),
)


def job_of(submit: str, *steps: str, nodes: int, profile: NodeProfile) -> Job:
    lines = read_command_lines("\n".join(steps), where="step") if steps else []
    cluster = cluster_of(profile, nodes, slurm_rules("22.05"))
    return Job(read_command_lines(submit, where="submit")[0], lines, cluster)


@given(
    nodes=st.integers(1, 3),
    tasks=st.integers(1, 9),
    gpus=st.sampled_from(
        ["--gpus-per-task=1", "--gpus-per-node=4", "--gpus-per-node=2", "--gres=gpu:4", "-G4"]
    ),
    bind=st.sampled_from(
        ["", "--gpu-bind=closest", "--gpu-bind=single:1", "--gpu-bind=map_gpu:1,0"]
    ),
    cpus=st.sampled_from(["", "-c2", "-m block:block", "-m cyclic", "--exclusive"]),
    batch=st.booleans(),
    profile=st.sampled_from([lab_profile(), CROSSED]),
)
@settings(max_examples=150, deadline=None)
def test_a_job_that_takes_an_advice_is_rid_of_the_problem_and_has_no_new_one(
    nodes: int, tasks: int, gpus: str, bind: str, cpus: str, batch: bool, profile: NodeProfile
) -> None:
    options = f"-N{nodes} -n{tasks} {gpus} {bind} {cpus}"
    lines = (f"sbatch {options}", "srun ./x") if batch else (f"srun {options}",)
    job = job_of(*lines, nodes=3, profile=profile)
    found = predict(job.submit, job.steps, job.cluster)
    kinds = {one.kind for one in surprises(found, job.cluster)}
    for one in advised(found, job):
        for cure in one.cures:
            assert one.text.endswith(cure.words)
            after = predict(*changed(cure, job.submit, job.steps), job.cluster)
            assert after.rejected is None
            assert len(after.tasks) == len(found.tasks)
            assert {s.kind for s in surprises(after, job.cluster)} <= kinds - {one.kind}


def test_advice_that_trades_one_problem_for_another_is_not_given() -> None:
    job = job_of("srun -N1 -n8 --gpus-per-task=1", nodes=1, profile=lab_profile())
    found = predict(job.submit, job.steps, job.cluster)
    (far,) = [s for s in surprises(found, job.cluster) if s.kind == "far_cpus"]
    single = Cure((Change(None, (("gpu-bind", "single:1"),)),), "--gpu-bind=single:1")
    assert not helps(single, far, found, job)  # it leaves four GPUs idle and four shared
    (said,) = [text for text in ask("srun -N1 -n8 --gpus-per-task=1").warnings if "far" in text]
    assert said.endswith("(another socket); use -m block:block")
    cured = ask("srun -N1 -n8 --gpus-per-task=1 -m block:block").warnings
    assert [text for text in cured if "far" in text or "idle" in text or "share" in text] == []


def test_a_problem_without_a_cure_is_named_alone() -> None:
    line = (
        "srun -N1 -n2 --gpus-per-node=8 --gpu-bind=map_gpu:4,5 --cpu-bind=map_cpu:0,0 --exclusive"
    )
    (far,) = [text for text in ask(line).warnings if "far from" in text]
    assert "single:1" not in far


@pytest.mark.parametrize(
    ("line", "who"),
    [
        ("srun -N1 --ntasks-per-node=8 --gpus-per-node=8", "local tasks 1,3-4,6 run"),
        ("srun -N1 -n2 --gpus-per-node=8", "local task 1 runs"),
    ],
)
def test_cores_far_from_the_gpu_of_the_local_id_are_a_note(line: str, who: str) -> None:
    found = ask(line)
    assert not any("far from" in text for text in found.warnings)
    assert any(who in text for text in found.notes)


def test_tasks_near_the_gpu_of_their_local_id_earn_no_note() -> None:
    assert ask("srun -N1 --ntasks-per-node=4 --gpus-per-node=4").notes == ()
    assert ask("srun -N1 --ntasks-per-node=8 --gpus-per-node=8 -c2 -m block:block").notes == ()


def test_a_job_that_waits_is_not_refused_and_its_tasks_are_those_of_its_start() -> None:
    held = ask("srun -N1 -n8 --gpus-per-node=8", nodes=1, busy=["n0:gpu=0-2"])
    assert held.rejected is None
    assert held.warnings[0].startswith("queued: the job waits")
    assert held.tasks == ask("srun -N1 -n8 --gpus-per-node=8", nodes=1).tasks
