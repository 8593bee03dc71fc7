"""Local ranks: who they are, where their output goes, and that all of them end."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from clusterlab.core.errors import ExitCode, UsageError
from clusterlab.launch import roll_call
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.local import run_local_ranks
from clusterlab.launch.local_outcome import RankExit, judge
from clusterlab.launch.local_output import MAX_LINE_BYTES, TaggedOutput

ranks = pytest.mark.ranks


@ranks
def test_every_rank_knows_who_it_is_and_all_share_one_store(tmp_path):
    def rank_main(identity: RankIdentity, open_store) -> int:
        store = open_store(30)
        store.set(f"from-{identity.rank}", repr(identity))
        for other in range(identity.world_size):
            store.wait([f"from-{other}"])
        if identity.rank == 0:
            said = [store.get(f"from-{r}").decode() for r in range(identity.world_size)]
            (tmp_path / "said").write_text("\n".join(said))
            store.wait([f"read-{r}" for r in range(1, identity.world_size)])
        else:
            store.set(f"read-{identity.rank}", "")
        return 0

    outcome = run_local_ranks(8, rank_main)
    assert outcome.exit_code == ExitCode.OK
    assert outcome.message is None
    host = os.uname().nodename
    expected = [RankIdentity(r, 8, r, 8, 0, host, "local") for r in range(8)]
    assert (tmp_path / "said").read_text().splitlines() == [repr(e) for e in expected]
    assert [e.rank for e in outcome.ranks] == list(range(8))
    assert len({e.pid for e in outcome.ranks}) == 8


@ranks
@pytest.mark.parametrize("late", [(1,), (2,), (1, 2)], ids=str)
def test_a_rank_that_hears_late_still_hears(late, monkeypatch):
    """Rank 0 serves the store. With nothing to do after a roll call (a finished run repeated), it is the
    first to end; whoever is slow must find the store all the same."""
    hear = roll_call._Call.hear_verdict

    def slowly(call, timeout_s):
        if call.identity.rank in late:
            time.sleep(0.7)
        hear(call, timeout_s)

    monkeypatch.setattr(roll_call._Call, "hear_verdict", slowly)

    def rank_main(identity: RankIdentity, open_store) -> int:
        me = {"rank": identity.rank, "host": identity.host, "pid": os.getpid()}
        roll_call.roll_call(open_store(30), identity, "n", me, lambda _: None, timeout_s=30)
        return 0

    outcome = run_local_ranks(3, rank_main)
    assert (outcome.exit_code, outcome.message) == (ExitCode.OK, None)


@ranks
def test_rank_0_waits_for_no_rank_that_failed():
    def rank_main(identity: RankIdentity, open_store) -> int:
        store = open_store(30)
        if identity.rank == 1:
            store.wait(["rank 0 ended"])
            raise UsageError("broken", where="here")
        store.set("rank 0 ended", "")
        return 0

    began = time.monotonic()
    outcome = run_local_ranks(2, rank_main, grace_s=0.3)
    assert outcome.exit_code == ExitCode.USAGE
    assert outcome.message is not None and "broken" in outcome.message
    assert time.monotonic() - began < 20


@ranks
def test_rank_0_keeps_stdout_and_the_others_write_tagged_logs(tmp_path, capfd):
    def rank_main(identity: RankIdentity, _open_store) -> int:
        print(f"one {identity.rank}")
        os.write(2, f"two {identity.rank}, no newline".encode())  # as a C library would
        return 0

    run_local_ranks(3, rank_main, log_dir=tmp_path / "logs")
    out, err = capfd.readouterr()
    assert out == "one 0\n"
    assert err == "two 0, no newline"
    assert sorted(p.name for p in (tmp_path / "logs").iterdir()) == ["rank-1.log", "rank-2.log"]
    for rank in (1, 2):
        lines = (tmp_path / "logs" / f"rank-{rank}.log").read_text().splitlines()
        assert all(line.startswith(f"[rank {rank}] ") for line in lines)
        assert "one" in "".join(lines)
        assert f"two {rank}, no newline" in "".join(lines)


@ranks
def test_without_a_log_directory_the_others_write_tagged_lines_to_stderr(capfd):
    def rank_main(identity: RankIdentity, _open_store) -> int:
        print("hello")
        return 0

    run_local_ranks(2, rank_main)
    out, err = capfd.readouterr()
    assert (out, err) == ("hello\n", "[rank 1] hello\n")


@ranks
@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_a_launcher_whose_streams_have_no_descriptor_starts_ranks(name, monkeypatch):
    """As in a notebook, or under pytest's capsys."""
    monkeypatch.setattr(sys, name, io.StringIO())
    assert run_local_ranks(2, lambda _identity, _open_store: 0).exit_code == 0


def test_a_full_disk_loses_the_log_not_the_job(tmp_path, capfd):
    (tmp_path / "rank-1.log").symlink_to("/dev/full")

    def rank_main(identity: RankIdentity, _open_store) -> int:
        for i in range(1000):
            print(f"line {i}")
        return 0

    outcome = run_local_ranks(2, rank_main, log_dir=tmp_path)
    assert outcome.exit_code == ExitCode.OK
    assert capfd.readouterr().err == "rank 1: log lost: No space left on device\n"


@ranks
def test_every_line_of_a_talkative_rank_arrives_even_if_it_closes_its_output(tmp_path):
    def rank_main(identity: RankIdentity, _open_store) -> int:
        if identity.rank == 1:
            for i in range(20_000):
                print(f"line {i}")
            sys.stdout.flush()
            os.close(1)
            os.close(2)
            time.sleep(0.3)
            os._exit(0)
        return 0

    assert run_local_ranks(2, rank_main, log_dir=tmp_path).exit_code == ExitCode.OK
    lines = (tmp_path / "rank-1.log").read_text().splitlines()
    assert lines == [f"[rank 1] line {i}" for i in range(20_000)]


@ranks
def test_the_exit_code_of_a_rank_is_that_of_the_job():
    outcome = run_local_ranks(2, lambda identity, _: 1 if identity.rank == 0 else 0)
    assert outcome.exit_code == 1
    assert outcome.culprit.rank == 0
    assert "rank 0" in outcome.message
    assert "exit code 1" in outcome.message


@ranks
def test_a_clear_error_keeps_its_exit_code_and_its_words_without_a_traceback(tmp_path, capfd):
    def rank_main(identity: RankIdentity, _open_store) -> int:
        if identity.rank == 1:
            raise UsageError("not a size: 'x'", where="-b")
        time.sleep(60)
        return 0

    outcome = run_local_ranks(2, rank_main, log_dir=tmp_path, grace_s=0.2)
    assert outcome.exit_code == ExitCode.USAGE
    assert outcome.message.endswith("-b: not a size: 'x'; the other ranks were stopped")
    assert (tmp_path / "rank-1.log").read_text() == "[rank 1] -b: not a size: 'x'\n"
    assert capfd.readouterr().err == ""


@ranks
def test_a_rank_that_ignores_being_asked_to_stop_is_killed():
    def rank_main(identity: RankIdentity, open_store) -> int:
        store = open_store(30)
        if identity.rank == 1:
            store.wait(["ready"])
            return 7
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        store.set("ready", "")
        time.sleep(60)
        return 0

    outcome = run_local_ranks(2, rank_main, grace_s=0.2)
    assert outcome.exit_code == 7
    assert outcome.ranks[0].signal == signal.SIGKILL
    assert outcome.ranks[0].stopped
    assert outcome.culprit.rank == 1


@ranks
def test_a_rank_that_is_asked_to_stop_cleans_up(tmp_path):
    def rank_main(identity: RankIdentity, open_store) -> int:
        store = open_store(30)
        if identity.rank == 1:
            store.wait(["ready"])
            return 7
        try:
            store.set("ready", "")
            time.sleep(60)
        finally:
            (tmp_path / "cleaned").touch()
        return 0

    outcome = run_local_ranks(2, rank_main, grace_s=0.2)
    assert (tmp_path / "cleaned").exists()
    assert outcome.ranks[0].exit_code == 128 + signal.SIGTERM


@ranks
def test_ranks_compute_with_one_thread_and_leave_the_environment_alone(tmp_path):
    before = dict(os.environ)

    def rank_main(identity: RankIdentity, _open_store) -> int:
        import torch

        text = f"{torch.get_num_threads()} {os.environ['OMP_NUM_THREADS']}"
        (tmp_path / str(identity.rank)).write_text(text)
        return 0

    assert run_local_ranks(2, rank_main).exit_code == ExitCode.OK
    assert (tmp_path / "1").read_text() == "1 1"
    assert dict(os.environ) == before


@ranks
def test_signal_handlers_are_put_back():
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    run_local_ranks(1, lambda identity, _: 0)
    assert {n: signal.getsignal(n) for n in before} == before


@ranks
def test_a_signal_that_the_caller_ignores_stops_nobody():
    """As under nohup, or behind a shell's `&`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    parent = os.getpid()

    def rank_main(identity: RankIdentity, _open_store) -> int:
        os.kill(parent, signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGHUP)
        return 0

    try:
        assert run_local_ranks(1, rank_main).exit_code == ExitCode.OK
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("world_size", [0, -1, 5000])
def test_a_senseless_number_of_ranks_is_refused(world_size):
    with pytest.raises(UsageError, match="local ranks"):
        run_local_ranks(world_size, lambda identity, _: 0)


def test_forking_beside_a_running_thread_is_refused():
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, name="busy")
    thread.start()
    try:
        with pytest.raises(RuntimeError, match="busy"):
            run_local_ranks(1, lambda identity, _: 0)
    finally:
        stop.set()
        thread.join()


SLEEPERS = """
    import os, signal, sys, time
    from pathlib import Path
    from clusterlab.launch.local import run_local_ranks

    signal.signal(signal.SIGINT, signal.default_int_handler)

    def rank_main(identity, open_store):
        if "stubborn" in sys.argv:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        Path(sys.argv[1], str(os.getpid())).touch()
        time.sleep(120)
        return 0

    sys.exit(run_local_ranks(3, rank_main, grace_s=90).exit_code)
"""


@ranks
def test_no_rank_outlives_a_launcher_that_is_killed(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(SLEEPERS), str(tmp_path)])
    try:
        _wait_for(lambda: len(list(tmp_path.iterdir())) == 3)
    finally:
        process.kill()
    process.wait()
    pids = [int(p.name) for p in tmp_path.iterdir()]
    _wait_for(lambda: not any(_running(pid) for pid in pids))


@ranks
def test_a_second_signal_kills_at_once(tmp_path):
    script = textwrap.dedent(SLEEPERS)
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path), "stubborn"])
    try:
        _wait_for(lambda: len(list(tmp_path.iterdir())) == 3)
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=1)  # all of them ignore the first request
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 128 + signal.SIGINT
    finally:
        process.kill()


def _running(pid: int) -> bool:
    """Whether the process exists and is no zombie (nobody may be there to reap it)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def _wait_for(condition) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _exit(rank: int, **changes) -> RankExit:
    base = {"pid": 100 + rank, "exit_code": 0, "signal": None, "stopped": False}
    return RankExit(rank=rank, **(base | changes))


def test_a_rank_ended_by_a_signal_is_to_blame_before_those_that_lost_it():
    lost = _exit(0, exit_code=4, error="lost the connection", error_time_ns=1)
    killed = _exit(2, exit_code=None, signal=9)
    outcome = judge([lost, killed], interrupted_by=None)
    assert outcome.culprit == killed
    assert outcome.exit_code == ExitCode.DEADLINE


@pytest.mark.parametrize("heeded", [True, False])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV])
def test_a_rank_that_somebody_ended_is_to_blame_not_those_that_lost_it(number, heeded):
    by = {"exit_code": None, "signal": number}
    if heeded and number == signal.SIGTERM:
        by = {"exit_code": 128 + number}  # it unwinds its stack and leaves by itself
    lost = _exit(0, exit_code=4, error="connection closed", error_time_ns=10)
    outcome = judge([lost, _exit(2, **by)], interrupted_by=None)
    assert outcome.culprit.rank == 2
    assert outcome.exit_code == ExitCode.DEADLINE
    assert f"rank 2 (pid 102) was ended by signal {number:d}" in outcome.message


def test_the_earliest_error_is_to_blame_whatever_the_order_of_the_ends():
    late = _exit(0, exit_code=1, error="lost", error_time_ns=20)
    early = _exit(1, exit_code=2, error="bad", error_time_ns=10)
    outcome = judge([late, early], interrupted_by=None)
    assert outcome.culprit == early
    assert outcome.exit_code == ExitCode.USAGE


def test_ranks_that_the_launcher_stopped_are_not_to_blame():
    stopped = _exit(0, exit_code=None, signal=9, stopped=True)
    failed = _exit(1, exit_code=1)
    outcome = judge([failed, stopped], interrupted_by=None)
    assert outcome.culprit == failed
    assert outcome.message.endswith("; the other ranks were stopped")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_job_says_so_and_blames_nobody(number):
    stopped = _exit(0, exit_code=143, stopped=True)
    outcome = judge([stopped], interrupted_by=number)
    assert outcome.exit_code == 128 + number
    assert outcome.culprit is None
    assert number.name in outcome.message


def test_a_passed_deadline_is_named_with_the_log(tmp_path):
    log = tmp_path / "rank-1.log"
    outcome = judge([_exit(1, exit_code=4, log=log)], interrupted_by=None)
    assert (
        outcome.message == f"rank 1 (pid 101) ended with exit code 4 (a deadline passed); see {log}"
    )


def test_lines_are_tagged_whole_however_they_arrive(tmp_path):
    output = TaggedOutput.open(4, tmp_path)
    for piece in (b"on", b"e\ntw", b"o\n\nlast"):
        os.write(output.child_fd, piece)
        output.pump()
    output.close_child_end()
    output.close()
    text = (tmp_path / "rank-4.log").read_text()
    assert text == "[rank 4] one\n[rank 4] two\n[rank 4] \n[rank 4] last\n"


def test_a_line_without_end_is_cut_not_kept(tmp_path):
    output = TaggedOutput.open(0, tmp_path)
    for _ in range(3):
        os.write(output.child_fd, b"x" * (MAX_LINE_BYTES // 2))
        output.pump()
        assert len(output.pending) < MAX_LINE_BYTES
    output.close_child_end()
    output.close()
    assert (tmp_path / "rank-0.log").read_text().count("x") == 3 * MAX_LINE_BYTES // 2
