"""Waiting for a job: a run directory that grows and a Slurm that answers from a list."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.errors import DeadlineError
from clusterlab.formats.scontrol import JobRecord
from clusterlab.launch.submit import SubmittedJob
from clusterlab.launch.submit_state import SilentError
from clusterlab.records.run_dir import RunDir, create_run, end_attempt, open_run, start_attempt
from clusterlab.runs.sweeping import following
from clusterlab.runs.sweeping.following import SILENCE_S, Tail, follow, wait_for_end
from tests.records.fake_runs import fake_row, points

PLANNED = 6


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    made = create_run("x", root=tmp_path)
    (made.path / "submit").mkdir()
    return made


@pytest.fixture
def job(run: RunDir) -> SubmittedJob:
    return SubmittedJob("41", run.path / "submit")


def state(name: str, reason: str | None = None, **more: object) -> JobRecord:
    return JobRecord("41", name, reason, "n[0-1]", 0, 0, **more)  # type: ignore[arg-type]


class Slurm:
    """Answers, one a second, each after something has happened; a clock that sleeping advances."""

    def __init__(self, *steps: tuple[Callable[[], object] | None, JobRecord | Exception | None]):
        self._steps = iter(steps)
        self.time_s = 0.0

    def ask(self, job_id: str) -> JobRecord | None:
        assert job_id == "41"
        act, answer = next(self._steps)
        if act is not None:
            act()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def sleep(self, seconds: float) -> None:
        self.time_s += seconds

    def clock(self) -> float:
        return self.time_s


def wait(run: RunDir, job: SubmittedJob, slurm: Slurm) -> JobRecord | None:
    return wait_for_end(run, job, ask=slurm.ask, clock=slurm.clock, sleep=slurm.sleep)


def rows(run: RunDir, count: int) -> None:
    """``count`` further rows, the first of them opening the attempt."""
    if not open_run(run.path).attempt:
        start_attempt(run, configuration={"world_size": 4}, planned_points=PLANNED)
    with run.writer() as writer:
        for point in list(points())[:count]:
            writer.append(fake_row(point, random.Random(0)))


def test_the_table_the_state_and_the_points_are_shown_as_they_come(
    run: RunDir, job: SubmittedJob, capsys: pytest.CaptureFixture[str]
) -> None:
    def first() -> None:
        rows(run, 2)
        job.stdout(0).write_text("# table\nrow 1\nhalf a")

    def last() -> None:
        rows(run, 4)
        job.stdout(0).write_text("# table\nrow 1\nhalf a row\nno newline")

    slurm = Slurm(
        (None, state("PENDING", "Priority")),
        (None, state("PENDING", "Priority")),
        (None, state("RUNNING")),
        (first, state("RUNNING")),
        (None, state("RUNNING")),
        (last, state("COMPLETED")),
    )
    ended = wait(run, job, slurm)
    assert ended is not None
    assert ended.state == "COMPLETED"
    out, err = capsys.readouterr()
    assert out == "# table\nrow 1\nhalf a row\nno newline\n"
    assert err.splitlines() == [
        "clusterlab: job 41 is pending (Priority)",
        "clusterlab: job 41 is running on n[0-1]",
        "clusterlab: job 41: 2 of 6 points measured",
    ]


def test_a_task_that_ends_badly_is_reported_before_the_job_ends(
    run: RunDir, job: SubmittedJob, capsys: pytest.CaptureFixture[str]
) -> None:
    def die() -> None:
        job.batch_log.write_text("srun: error: n1: task 3: Killed\nsrun: error: n0: task 0: Te\n")

    wait(
        run, job, Slurm((die, state("RUNNING")), (None, state("RUNNING")), (None, state("FAILED")))
    )
    err = capsys.readouterr().err
    assert "job 41: rank 3 on n1 was ended by signal 9 (SIGKILL); waiting" in err
    assert "rank 0" not in err


def test_a_requeued_job_is_waited_for_and_a_hopeless_one_says_so(
    run: RunDir, job: SubmittedJob, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm = Slurm(
        (None, state("RUNNING")),
        (None, state("COMPLETING", "NodeDown")),
        (None, state("PENDING", "BeginTime", restarts=1)),
        (None, state("PENDING", "PartitionNodeLimit", restarts=1)),
        (None, state("COMPLETED", restarts=1)),
    )
    ended = wait(run, job, slurm)
    assert ended is not None
    assert ended.restarts == 1
    err = capsys.readouterr().err.splitlines()
    assert err[1:3] == [
        "clusterlab: job 41 is completing on n[0-1]",
        "clusterlab: job 41 is pending (BeginTime), start 2",
    ]
    assert "scancel 41" in err[3]


def test_a_silent_slurm_is_waited_for_and_given_up_in_the_end(
    run: RunDir, job: SubmittedJob, capsys: pytest.CaptureFixture[str]
) -> None:
    silent = SilentError("no answer")
    assert wait(run, job, Slurm(*[(None, silent)] * 9, (None, state("FAILED")))) is not None
    assert capsys.readouterr().err.count("does not answer") == 1
    now_and_then = [(None, silent), (None, state("RUNNING"))] * 500
    slurm = Slurm(*now_and_then, (None, state("FAILED")))
    assert wait(run, job, slurm) is not None
    assert slurm.time_s > SILENCE_S
    endless = Slurm(*[(None, silent)] * 10_000)
    with pytest.raises(DeadlineError, match="may be running; wait for it: clusterlab follow"):
        wait(run, job, endless)
    assert SILENCE_S < endless.time_s < SILENCE_S + 20


def test_slurm_is_asked_ever_more_rarely(run: RunDir, job: SubmittedJob) -> None:
    times: list[float] = []
    slurm = Slurm()

    def ask(_job: str) -> JobRecord:
        times.append(slurm.time_s)
        return state("COMPLETED" if slurm.time_s > 3600 else "RUNNING")

    wait_for_end(run, job, ask=ask, clock=slurm.clock, sleep=slurm.sleep)
    between = [b - a for a, b in pairwise(times)]
    assert between[0] <= 1.25
    assert max(between) <= 5.25
    assert len(times) < 800


def test_ctrl_c_stops_the_waiting_and_says_how_to_go_on(
    run: RunDir,
    job: SubmittedJob,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(following, "wait_for_end", interrupted)
    with pytest.raises(KeyboardInterrupt):
        follow(run, job)
    err = capsys.readouterr().err
    assert "stopped waiting; job 41 goes on" in err
    assert f"clusterlab follow {run.path}" in err
    assert "scancel 41" in err


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[JobRecord | None], None]]:
    """Let the next wait end at once with the record given."""
    monkeypatch.setattr(following, "_STALE_S", 0.2)
    yield lambda record: monkeypatch.setattr(following, "wait_for_end", lambda *_: record)


End = Callable[[JobRecord | None], None]


def test_a_good_end_is_the_verdict_and_the_report(
    run: RunDir, job: SubmittedJob, ended: End, capsys: pytest.CaptureFixture[str]
) -> None:
    rows(run, PLANNED)
    end_attempt(open_run(run.path), 0)
    ended(state("COMPLETED"))
    assert follow(run, job) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[-2].startswith("clusterlab: 6 of 6 points measured; verdict ")
    assert lines[-1] == f"clusterlab: report {run.path / 'report.html'}"
    assert run.report_path.exists()
    # what rank 0 wrote is not written again
    run.report_path.write_text("rank 0's")
    assert follow(run, job) == 0
    assert run.report_path.read_text() == "rank 0's"


def test_a_run_whose_rank_0_died_is_ended_for_it(
    run: RunDir, job: SubmittedJob, ended: End, capsys: pytest.CaptureFixture[str]
) -> None:
    rows(run, 2)
    job.batch_log.write_text("srun: error: n0: task 0: Killed\n")
    ended(state("FAILED"))
    assert follow(run, job) == 4
    err = capsys.readouterr().err
    assert "job 41: rank 0 on n0 was ended by signal 9 (SIGKILL)" in err
    assert "2 of 6 points measured; verdict no_verdict" in err
    assert open_run(run.path).info.attempts[-1].exit_code == 4
    assert run.report_path.exists()


@pytest.mark.parametrize("first", ["tasks 0-1", "task 1"])
def test_a_rank_that_failed_by_itself_is_quoted(
    run: RunDir, job: SubmittedJob, ended: End, capsys: pytest.CaptureFixture[str], first: str
) -> None:
    job.batch_log.write_text(f"srun: error: n0: {first}: Exited with exit code 1\n")
    job.stderr(1).write_text("")  # a refusal that concerns all is printed by rank 0 alone
    job.stderr(0).write_text("a\nb\nc\nclusterlab: rank 0 on n0: two ranks on GPU 0\n")
    ended(state("FAILED"))
    assert follow(run, job) == 1
    err = capsys.readouterr().err
    assert "  clusterlab: rank 0 on n0: two ranks on GPU 0\n" in err
    assert "  a\n" not in err
    assert f"nothing was measured; logs {job.folder}" in err


def test_only_the_last_start_of_a_requeued_job_counts(
    run: RunDir, job: SubmittedJob, ended: End, capsys: pytest.CaptureFixture[str]
) -> None:
    starts = "clusterlab: job starts on n[0-1], restarts"
    job.batch_log.write_text(
        f"{starts} 0\nsrun: error: n1: task 1: Killed\n{starts} 1\n"
        "srun: error: n0: task 0: Exited with exit code 2\n"
    )
    ended(state("FAILED"))
    assert follow(run, job) == 2
    assert "SIGKILL" not in capsys.readouterr().err


def test_a_completed_job_without_an_ended_sweep_is_no_success(
    run: RunDir, job: SubmittedJob, ended: End, capsys: pytest.CaptureFixture[str]
) -> None:
    job.batch_log.write_text("clusterlab: job starts\nsrun: error: task 1 launch failed: x\n")
    ended(state("COMPLETED"))
    assert follow(run, job) == 4
    assert "  srun: error: task 1 launch failed: x\n" in capsys.readouterr().err


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n"))), st.data())
def test_a_tail_gives_every_line_once_however_the_file_grows(
    lines: list[str], data: st.DataObject
) -> None:
    import tempfile

    content = "".join(f"{line}\n" for line in lines).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)))))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log")
        tail = Tail(path)
        assert tail.lines() == []
        seen: list[str] = []
        for cut in [*cuts, len(content)]:
            path.write_bytes(content[:cut])
            seen += tail.lines()
    assert seen == lines
