"""Flat labs: several slurmd on this host, no namespaces."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from clusterlab.lab import labs, lifecycle
from clusterlab.lab.labs import Lab, run
from clusterlab.lab.machine import observe, sized
from clusterlab.lab.processes import command_line, descendants, process, wait_until
from tests.slurm.conftest import wait_for_state
from tests.slurm.leftovers import machine_state, remaining, traces

HERE = Path(__file__).parent


def flat_up(base: Path, name: str, **wanted: object) -> Lab:
    spec = sized(observe(), flat=True, nodes=2, gpus=4, cpus=8, **wanted)  # type: ignore[arg-type]
    return lifecycle.up(spec, name=name, base=base)


def test_two_flat_labs_run_side_by_side_and_leave_nothing(
    can_hold_flat_labs: None, lab_base: Path
) -> None:
    before = machine_state()
    first, second = flat_up(lab_base, "f1"), flat_up(lab_base, "f2")
    assert not set(first.setup.ports) & set(second.setup.ports)
    seen = [traces(lab) for lab in (first, second)]
    for lab in (first, second):
        step = ["srun", "--mpi=pmix", "-N2", "--ntasks-per-node=2"]
        found = run(lab, [*step, sys.executable, "-S", str(HERE / "pmix_client.py")])
        assert found.returncode == 0, found.stderr
        assert len(found.stdout.splitlines()) == 4
        assert "0 0@n0 1@n0 2@n1 3@n1" in found.stdout
        devices = run(lab, [*step, "--gpus-per-task=1", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES"])
        # Which two, Slurm chooses by socket; each node gives each of its tasks another one.
        gpus = devices.stdout.split()
        assert sorted(gpus) == sorted([*set(gpus)] * 2), devices.stderr
        assert len(set(gpus)) == 2
    for name in ("f1", "f2"):
        assert lifecycle.down(name=name, base=lab_base)
    for lab, trace in zip((first, second), seen, strict=True):
        assert remaining(trace, lab.layout.run_dir) == []
    assert machine_state() == before


def test_a_flat_node_without_power_takes_its_tasks_along(
    can_hold_flat_labs: None, lab_base: Path
) -> None:
    lab = flat_up(lab_base, "f3", slurmd_timeout_s=2, extra_conf=["MessageTimeout=3"])
    line = labs.enter_command(lab, ["srun", "-N2", "-K1", "sleep", "986"])
    srun = subprocess.Popen(line, env=labs.environment(lab), stderr=subprocess.DEVNULL)
    try:
        login = lab.holder.login

        def sleepers() -> list[int]:
            return [pid for pid in descendants(login) if command_line(pid)[1:] == ["986"]]

        assert wait_until(lambda: len(sleepers()) == 2, timeout_s=20)
        lifecycle.kill_node(lab, "n1")
        assert len(sleepers()) == 1
        assert {node.name: node.power for node in labs.status(lab).nodes} == {
            "n0": "on",
            "n1": "off",
        }
        assert lifecycle.boot_node(lab, "n1")
        srun.send_signal(signal.SIGTERM)
        assert srun.wait(timeout=30) != 0
        wait_for_state(lab, "n1", "idle")
        assert sorted(
            run(lab, ["srun", "-N2", "sh", "-c", "echo $SLURMD_NODENAME"]).stdout.split()
        ) == [
            "n0",
            "n1",
        ]
    finally:
        lifecycle.down(name="f3", base=lab_base)
        srun.kill()
        srun.wait()


def test_a_flat_lab_whose_first_process_is_killed_ends_by_itself(
    can_hold_flat_labs: None, lab_base: Path
) -> None:
    lab = flat_up(lab_base, "f4")
    seen = traces(lab)
    os.kill(lab.holder.login, signal.SIGKILL)
    assert wait_until(lambda: remaining(seen, lab.layout.run_dir) == [], timeout_s=10), remaining(
        seen, lab.layout.run_dir
    )
    assert process(lab.holder.login) is None
    assert not lifecycle.down(name="f4", base=lab_base)


@pytest.mark.gpu
def test_one_flat_node_takes_this_machines_own_gpus(
    can_hold_flat_labs: None, lab_base: Path
) -> None:
    machine = observe()
    if not machine.gpus:
        pytest.skip("no NVIDIA GPUs here")
    lab = lifecycle.up(sized(machine, flat=True), name="f5", base=lab_base)
    try:
        count = len(machine.gpus)
        srun = ["srun", f"-n{count}", "--gpus-per-task=1", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES"]
        assert sorted(run(lab, srun).stdout.split()) == [str(gpu) for gpu in range(count)]
    finally:
        lifecycle.down(name="f5", base=lab_base)
