"""Training runs on this machine: what they keep; an interrupted one goes on as if nothing had been."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from clusterlab.cli.main import main
from clusterlab.core.errors import UsageError
from clusterlab.core.shipped import shipped
from clusterlab.core.stepping import StepLine
from clusterlab.records.documents import read_fabric
from clusterlab.records.ledgers import ledger_ranks, read_collectives, read_ledger
from clusterlab.records.lines import STEPS, read_lines
from clusterlab.records.run_dir import open_run
from clusterlab.runs.training.setup import STRATEGIES, TrainTyped, setup_of
from clusterlab.runs.training.whatif import fabric_of_run
from clusterlab.trainers.breakdown import break_down
from clusterlab.trainers.checkpoint import finished
from tests.conftest import LAUNCHERS, clean_environment
from tests.report.test_trace import check

pytestmark = pytest.mark.ranks

STEPS_IN_ALL = 40
LONG = ("--steps", str(STEPS_IN_ALL))


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No launcher, and a folder of its own for runs."""
    for name in [n for n in os.environ if n.startswith(LAUNCHERS)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("CLUSTERLAB_RUNS", str(tmp_path / "runs"))
    import torch.distributed  # noqa: F401 - once, before the forks


def run_of(tmp_path: Path) -> Path:
    (only,) = (tmp_path / "runs").iterdir()
    return only


def in_a_child(arguments: Sequence[str], log: Path) -> int:
    """Start ``clusterlab ARGUMENTS`` in a forked process, a session of its own; its pid."""
    pid = os.fork()
    if pid:
        return pid
    os.setsid()
    output = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    code = 99
    try:
        code = main(arguments)
    finally:
        os._exit(code)


def wait_for(what: Callable[[], bool], *, timeout_s: float = 90) -> None:
    end = time.monotonic() + timeout_s
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


def steps_done(tmp_path: Path) -> int:
    found = list((tmp_path / "runs").glob(f"*/{STEPS}"))
    return found[0].read_bytes().count(b"\n") if found else 0


def ended(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def losses(steps: Sequence[StepLine]) -> list[float | None]:
    return [step.loss for step in steps]


def test_a_run_keeps_a_line_a_step_and_every_ranks_ledger(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.json"
    code = main(["train", "tp", "-g", "2", "--steps", "4", "--text", "--trace", str(trace)])
    said = capfd.readouterr()
    assert code == 0, said.err
    folder = run_of(tmp_path)
    steps = read_lines(folder).steps
    assert [step.step for step in steps] == [0, 1, 2, 3]
    for step in steps:
        parts = step.data_us + step.forward_us + step.backward_us + step.optimizer_us
        parts += sum(step.exposed_us.values()) + step.bubble_us + step.other_us
        assert parts == pytest.approx(step.step_us, rel=0.02)
        assert step.exposed_us["tp"] > 0
    assert ledger_ranks(folder) == [0, 1]
    for rank in (0, 1):
        assert [one.step for one in read_ledger(folder, rank)] == [0, 1, 2, 3]
    table = [line.split() for line in said.out.splitlines()]
    assert [row[0] for row in table[2:]] == ["0", "1", "2", "3"]
    assert "all_reduce" in said.err
    info = open_run(folder).info
    assert info.configuration["measures"] == "training"
    assert info.attempts[-1].exit_code == 0
    check(json.loads(trace.read_text()))
    assert '<h2 id="h-training">Training</h2>' in (folder / "report.html").read_text()
    assert main(["export", "trace", str(folder), "--step", "1"]) == 0
    check(json.loads((folder / "trace.json").read_text()))
    assert main(["export", "trace", str(folder), "--step", "9"]) == 2


def test_what_experts_took_is_kept_shown_and_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    typed = ["train", "ep", "-g", "2", "--experts", "4", "--top-k", "1", "--steps", "2", "--json"]
    assert main([*typed, "--workload", "hot_expert", "--per-node", "1"]) == 0
    said = capfd.readouterr()
    (folder,) = (tmp_path / "runs").iterdir()
    kept = read_lines(folder).experts
    told = [json.loads(line)["experts"] for line in said.out.splitlines()]
    assert [json.loads(json.dumps(one.to_json())) for one in kept] == told
    assert [one.step for one in kept] == [0, 1]
    for one in kept:
        # Half of all choices of 8 sequences, 32 positions and 4 blocks; the rest evenly.
        assert sorted(one.tokens) == [168, 172, 172, 512]
        assert sum(one.tokens) == 8 * 32 * 4
        assert one.overload == pytest.approx(1.33, abs=0.01)
    assert "experts: 4, tokens of each in a step 168 to 512" in said.err
    assert "from each rank along ep" in (folder / "report.html").read_text()
    assert main(["report", str(folder), "--json"]) in (0, 3)
    assert json.loads(capfd.readouterr().out)["experts"] == told


@pytest.mark.parametrize(
    ("strategy", "where"),
    [("dp", ("host",)), ("pp", ("host",)), ("tp", ("lab-8x1", "--compute", "probe"))],
    ids=["dp-host", "pp-host", "tp-lab"],
)
def test_steps_are_predicted_beside_being_measured(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    strategy: str,
    where: tuple[str, ...],
) -> None:
    """On cores: a probe of all ranks at once, gloo's constants of this host or a lab's links."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    sizes = ("--hidden", "128", "--sequence", "128", "--steps", "4")
    assert main(["train", strategy, "-g", "2", *sizes, "--fabric", *where]) == 0
    said = capfd.readouterr().err
    (folder,) = (tmp_path / "runs").iterdir()
    steps = read_lines(folder).steps
    (predicted,) = {step.predicted_us for step in steps}
    assert predicted is not None and predicted > 0
    assert "ms a step: measured" in said
    fabric = read_fabric(folder)
    assert fabric is not None and where[0] in fabric.design
    kinds = read_collectives(folder)
    assert kinds
    for one in kinds:
        if one.phase not in ("handshake", "loss"):
            assert one.predicted_us is not None and one.predicted_us > 0
    if where == ("host",):
        # Others compute here, too: neither side is off by more than they can explain.
        measured = statistics.median(step.step_us for step in steps[1:])
        assert 0.1 < measured / predicted < 10


def test_this_hosts_cores_predict_no_nccl() -> None:
    with pytest.raises(UsageError, match="design of the GPUs"):
        fabric_of_run("host", "nccl")
    assert fabric_of_run("host", "gloo").name == "host"


def test_a_library_for_experts_that_is_missing_is_refused_before_ranks_start(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    if importlib.util.find_spec("deep_ep"):
        pytest.skip("deep_ep is installed")
    assert main(["train", "ep", "-g", "2", "--expert-backend", "deep_ep"]) == 2
    assert "cannot be imported" in capfd.readouterr().err
    assert not list(tmp_path.glob("runs/*"))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_job_file_runs_under_bash(tmp_path: Path, strategy: str) -> None:
    program = str(Path(sys.executable).with_name("clusterlab"))
    done = subprocess.run(
        ["bash", str(shipped("jobs") / f"train_{strategy}.sbatch"), "--steps", "2", "--json"],
        env=clean_environment(CLUSTERLAB=program, RANKS="2", CLUSTERLAB_RUNS=str(tmp_path / "runs")),
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["step"] for line in done.stdout.splitlines()] == [0, 1]
    assert f"-train_{strategy}-" in run_of(tmp_path).name


def test_the_parts_of_a_step_add_up_to_what_a_clock_outside_says(tmp_path: Path) -> None:
    import torch

    from clusterlab.trainers.axis import open_axes
    from clusterlab.trainers.build import build
    from clusterlab.trainers.ledger import Ledger

    typed = TrainTyped("dp", hidden=128, sequence=128, micro_batches=2)
    setup = setup_of(typed, 1, "gloo")
    ledger = Ledger()
    trainer = build(setup, 0, open_axes(setup.mesh, 0, ledger), ledger, torch.device("cpu"))
    outside = []
    for number in range(6):
        began = time.perf_counter()
        trainer.step(number)
        outside.append((time.perf_counter() - began) * 1e6)
    off = []
    for number, us in enumerate(outside):
        spans = [span for span in ledger.spans if span.step == number]
        off.append(abs(break_down(spans, []).total_us - us) / us)
    # Another process may come between the two clocks, but hardly six times.
    assert min(off) < 0.02


@pytest.mark.parametrize(
    "typed",
    [
        ("dp", "-g", "2", "--data-parallel", "fsdp"),
        ("tp", "-g", "2"),
        ("pp", "-g", "2"),
        ("ep", "-g", "2"),
        ("3d", "--tp", "2", "--pp", "1", "--dp", "2"),
    ],
    ids=lambda typed: typed[0],
)
def test_killed_in_mid_run_it_goes_on_with_the_same_losses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: tuple[str, ...]
) -> None:
    arguments = ["train", *typed, *LONG, "--checkpoint-every", "5"]
    pid = in_a_child(arguments, tmp_path / "log")
    wait_for(lambda: steps_done(tmp_path) >= 8)
    os.killpg(pid, signal.SIGKILL)
    ended(pid)
    folder = run_of(tmp_path)
    done = len(read_lines(folder).steps)
    assert 8 <= done < STEPS_IN_ALL
    kept = finished(folder / "checkpoints")[-1]
    assert 5 <= kept <= done
    monkeypatch.setenv("CLUSTERLAB_RUN_DIR", str(folder))
    assert main(arguments) == 0
    monkeypatch.delenv("CLUSTERLAB_RUN_DIR")
    steps = read_lines(folder).steps
    assert [step.attempt for step in steps] == [1] * kept + [2] * (STEPS_IN_ALL - kept)

    monkeypatch.setenv("CLUSTERLAB_RUNS", str(tmp_path / "whole" / "runs"))
    assert main(arguments) == 0
    assert losses(steps) == losses(read_lines(run_of(tmp_path / "whole")).steps)


def test_sigterm_keeps_the_step_in_hand_and_sigusr1_keeps_going(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["train", "dp", "-g", "2", "--steps", "250", "--checkpoint-every", "0"]
    pid = in_a_child(arguments, tmp_path / "log")
    wait_for(lambda: steps_done(tmp_path) >= 3)
    folder = run_of(tmp_path)
    assert not finished(folder / "checkpoints")
    os.kill(pid, signal.SIGUSR1)
    wait_for(lambda: bool(finished(folder / "checkpoints")))
    first = finished(folder / "checkpoints")[0]
    wait_for(lambda: steps_done(tmp_path) > first + 1)
    os.kill(pid, signal.SIGTERM)
    assert ended(pid) == 128 + signal.SIGTERM, (tmp_path / "log").read_text()
    done = len(read_lines(folder).steps)
    assert finished(folder / "checkpoints")[-1] == done < 250
    assert open_run(folder).info.attempts[-1].exit_code == 128 + signal.SIGTERM
    monkeypatch.setenv("CLUSTERLAB_RUN_DIR", str(folder))
    assert main(arguments) == 0
    steps = read_lines(folder).steps
    assert [step.attempt for step in steps] == [1] * done + [2] * (250 - done)


def test_a_loss_that_is_not_finite_is_a_finding_and_ends_the_run(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "dp", "-g", "1", "--lr", "1e8", "--steps", "50"]) == 1
    assert "is not finite" in capfd.readouterr().err
    steps = read_lines(run_of(tmp_path)).steps
    assert steps[-1].loss is None
    assert len(steps) < 50


def test_another_configuration_does_not_go_on_in_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "dp", "-g", "1", "--steps", "2"]) == 0
    folder = run_of(tmp_path)
    monkeypatch.setenv("CLUSTERLAB_RUN_DIR", str(folder))
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    capfd.readouterr()
    assert main(["train", "dp", "-g", "1", "--steps", "3", "--seed", "2"]) == 2
    (said,) = capfd.readouterr().err.splitlines()
    assert "holds another training run (seed: 1 there, 2 now, steps: 2 there, 3 now)" in said
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_second_start_in_a_run_that_is_alive_is_refused_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    arguments = ["train", "dp", "-g", "2", "--steps", "2000"]
    pid = in_a_child(arguments, tmp_path / "log")
    wait_for(lambda: steps_done(tmp_path) >= 2)
    folder = run_of(tmp_path)
    monkeypatch.setenv("CLUSTERLAB_RUN_DIR", str(folder))
    capfd.readouterr()
    code = main(arguments)
    said = capfd.readouterr().err
    attempts = open_run(folder).info.attempts
    os.kill(pid, signal.SIGTERM)
    assert code == 2
    assert said.count("an attempt is still running in it: process") == 1
    assert "Traceback" not in said
    assert [attempt.ended_utc for attempt in attempts] == [None]
    assert ended(pid) == 128 + signal.SIGTERM
    assert not (folder / "alive.json").exists()


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (["zp"], "unknown strategy 'zp'"),
        (["tp", "-g", "3", "--heads", "4"], "heads 4 is no multiple of tp 3"),
        (["dp", "--checkpoint-every", "-1"], "--checkpoint-every: -1"),
        (["dp", "--trace", "/no/such/folder/t.json"], "--trace /no/such/folder/t.json: no folder"),
        (["dp", "--trace", "/"], "--trace /: a folder"),
        (["dp", "--trace", "."], "--trace .: a folder"),
        (["ep", "--capacity", "nan"], "--capacity: nan"),
        (["dp", "--bucket", "x"], "--bucket: not a size: 'x'"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], typed: list[str], message: str
) -> None:
    assert main(["train", *typed]) == 2
    said = capfd.readouterr().err
    assert message in said
    assert "Traceback" not in said
    assert not (tmp_path / "runs").exists()
