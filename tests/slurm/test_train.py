"""A training job by sbatch on a real Slurm that loses a node: it is requeued and learns the same."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from clusterlab.cli.main import main
from clusterlab.core.stepping import StepLine
from clusterlab.lab import lifecycle
from clusterlab.lab.labs import run
from clusterlab.records.lines import STEPS, read_lines
from tests.slurm.conftest import SOON_DOWN, MakeLab
from tests.slurm.jobs import Submitted, submit

MESH = ("--tp", "2", "--pp", "2", "--steps", "30", "--checkpoint-every", "10")


def steps_of(job: Submitted) -> tuple[StepLine, ...]:
    return read_lines(job.run_dir().path).steps


def wait_for_steps(job: Submitted, count: int) -> None:
    end = time.monotonic() + 120
    while True:
        files = list((job.folder / "runs").glob(f"*/{STEPS}"))
        if files and files[0].read_bytes().count(b"\n") >= count:
            return
        assert time.monotonic() < end, f"{job.show()}\n{job.output()}"
        time.sleep(0.05)


def test_a_training_that_loses_a_node_is_requeued_and_its_losses_are_the_same(
    make_lab: MakeLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make_lab(name="train", nodes=5, gpus=1, cpus=2, **SOON_DOWN)
    job = submit(lab, tmp_path / "job", "train_3d", *MESH, options=("-N4",))
    wait_for_steps(job, 15)
    nodes = run(lab, ["scontrol", "show", "hostnames", job.show()["NodeList"]]).stdout.split()
    victim = next(n for n in nodes if n != job.show()["BatchHost"])
    lifecycle.kill_node(lab, victim)
    shown = job.wait(timeout_s=240)
    assert shown["JobState"] == "COMPLETED", job.output()
    assert shown["Restarts"] == "1"
    steps = steps_of(job)
    assert [step.step for step in steps] == list(range(30))
    kept = sum(step.attempt == 1 for step in steps)
    assert kept >= 10
    assert kept % 10 == 0
    assert {step.attempt for step in steps[kept:]} == {2}

    monkeypatch.setenv("CLUSTERLAB_RUNS", str(tmp_path / "whole"))
    assert main(["train", "3d", "-g", "4", *MESH]) == 0
    (whole,) = (tmp_path / "whole").iterdir()
    assert [s.loss for s in steps] == [s.loss for s in read_lines(whole).steps]
