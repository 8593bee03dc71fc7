"""Watching a run: it grows, is torn, requeued, dies, ends; on a terminal, in a log, as JSON."""

from __future__ import annotations

import io
import json
import os
import pty
import random
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clusterlab.cli.main import main
from clusterlab.core.errors import UsageError
from clusterlab.core.findings import Verdict
from clusterlab.core.placement import local_placement
from clusterlab.core.soaking import SoakPass
from clusterlab.core.stepping import StepLine
from clusterlab.records.documents import write_placement
from clusterlab.records.lease import ALIVE, DEAD_S, LEAVES_S
from clusterlab.records.lines import SOAK, STEPS, LineWriter
from clusterlab.records.run_dir import RunDir, create_run, end_attempt, open_run, start_attempt
from clusterlab.records.samples import SamplesWriter
from clusterlab.report.console.watch_lines import cell_width, watch_lines
from clusterlab.report.console.watching import State
from clusterlab.runs.sweeping.plan import resolve_config
from clusterlab.runs.watching.pulse import START_S
from clusterlab.runs.watching.run import Watched
from clusterlab.runs.watching.watch import WatchOptions, watch
from tests.conftest import CLI, clean_environment
from tests.records.fake_runs import START, fake_row, make_run, points

POINTS = list(points(["all_reduce"]))
HOSTILE = "n\x1b[2J\x1b]0;x\x07\u202e\n0"


class Clock:
    """Sleeping advances it, and does the next of some steps."""

    def __init__(self, *steps: Callable[[], object]) -> None:
        self.now_s = START.timestamp()
        self._steps = iter(steps)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        step = next(self._steps, None)
        if step is not None:
            step()

    def __call__(self) -> float:
        return self.now_s


def begun(root: Path, **more: Any) -> RunDir:
    return start_attempt(
        create_run("grows", root=root, now=START), planned_points=len(POINTS), now=START, **more
    )


def append(run: RunDir, first: int, count: int = 1, **more: Any) -> None:
    with run.writer() as writer:
        for number, point in enumerate(POINTS[first : first + count], start=first):
            row = fake_row(
                point, random.Random(number), attempt=run.attempt, number=4 * number, **more
            )
            writer.append(row)


def watched(run: Path, clock: Clock, **options: Any) -> tuple[int, str]:
    """Exit code and what was printed where stdout is no terminal."""
    out = io.StringIO()
    code = watch(
        WatchOptions(run, every_s=1.0, **options),
        stdout=out,
        clock=clock,
        now=clock,
        sleep=clock.sleep,
    )
    return code, out.getvalue()


def forever(clock: Clock, kind: type[Exception] = KeyboardInterrupt) -> None:
    raise kind


def test_a_growing_run_is_followed_to_its_end(tmp_path: Path) -> None:
    run = begun(tmp_path)
    append(run, 0, 4)
    clock = Clock(
        lambda: append(run, 4, 2, slow=3.0),
        lambda: append(run, 6, 10),
        lambda: end_attempt(run, 3),
    )
    code, out = watched(run.path, clock)
    lines = out.splitlines()
    assert code == 3
    assert lines[0] == f"sweep grows: {run.info.run_id}"
    assert lines[1].startswith("attempt 1 is running: process ")
    assert [line.split()[0] for line in lines[2:18]] == [f"[{n}/16]" for n in range(1, 17)]
    assert "ratio 0.3" in lines[6] and lines[6].endswith(", slow")
    slow = sum(line.endswith(", slow") for line in lines)
    assert slow >= 2
    assert lines[18:] == [
        "attempt 1 ended with exit code 3: no verdict",
        "16 of 16 points, 100%",
        f"outside their interval: {slow} slow, 0 faster than expected, of 16 judged",
    ]


def test_half_a_row_is_waited_for_and_a_torn_one_skipped(tmp_path: Path) -> None:
    run = begun(tmp_path)
    append(run, 0, 2)
    whole = run.records_path.read_bytes()
    append(run, 2)
    third = run.records_path.read_bytes()[len(whole) :]
    cut = len(third) // 2
    run.records_path.write_bytes(whole + third[:cut])
    look = Watched(run.path)
    assert look.look().done == 2
    with run.records_path.open("ab") as file:
        file.write(third[cut:])
    seen = look.look()
    assert seen.done == 3 and len(seen.new) == 1 and not seen.notes
    with run.records_path.open("ab") as file:
        file.write(third[:cut])  # a crash; the next attempt ends the line before it appends
    assert look.look().done == 3
    again = start_attempt(run)
    append(again, 2, 3)
    seen = look.look()
    assert seen.done == 5 and len(seen.attempts) == 2
    assert seen.notes == (
        "1 rows are of points measured again; the latest count",
        "1 half-written lines skipped (a crash or a full disk)",
    )


def test_a_line_that_is_no_row_is_an_error_that_names_it(tmp_path: Path) -> None:
    run = begun(tmp_path)
    append(run, 0)
    with run.records_path.open("ab") as file:
        file.write(b'{"schema_version": 4, "colective": "x"}\n')
    with pytest.raises(UsageError, match=r"records\.jsonl:2"):
        watched(run.path, Clock())


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_requeue_is_told_and_waited_for_when_asked(tmp_path: Path, how: str) -> None:
    run = begun(tmp_path)
    append(run, 0, 3)
    clock = Clock(
        lambda: end_attempt(run, 143) if how == "stopped" else killed(run),
        *[lambda: None] * 30,
        lambda: append(start_attempt(open_run(run.path)), 3, 13),
        lambda: end_attempt(open_run(run.path), 0),
    )
    code, out = watched(run.path, clock, wait=True)
    assert code == 0
    said = [line for line in out.splitlines() if not line.startswith("[")]
    assert sum(line.endswith("; waiting for another attempt") for line in said) == 1
    assert said[-4].startswith("attempt 2 is running: ") and said[-2] == "16 of 16 points, 100%"


def test_without_wait_the_end_of_an_attempt_is_the_end(tmp_path: Path) -> None:
    run = begun(tmp_path)
    code, out = watched(run.path, Clock(lambda: end_attempt(run, 143)))
    assert code == 143 and "exit code 143: stopped by signal 15" in out


def killed(run: RunDir) -> None:
    """As if its process had been killed: it is noted, and lives no more."""
    held = json.loads((run.path / ALIVE).read_text())
    (run.path / ALIVE).write_text(json.dumps(held | {"started": "1"}))


@pytest.mark.parametrize(
    "how", [killed, lambda run: (run.path / ALIVE).unlink()], ids=["killed", "gone"]
)
def test_a_dead_run_is_told_and_not_waited_for(
    tmp_path: Path, how: Callable[[RunDir], None]
) -> None:
    run = begun(tmp_path)
    append(run, 0, 3)
    clock = Clock(lambda: how(run))
    code, out = watched(run.path, clock)
    assert code == 4
    assert "attempt 1 is dead: it did not end, and " in out and "3 of 16 points" in out
    assert clock() - START.timestamp() <= LEAVES_S + 3


def test_who_has_let_go_is_given_a_moment_to_say_how_it_ended(tmp_path: Path) -> None:
    run = begun(tmp_path)
    clock = Clock((run.path / ALIVE).unlink, lambda: None, lambda: end_attempt(run, 0))
    code, out = watched(run.path, clock)
    assert code == 0 and "dead" not in out


@pytest.mark.parametrize(
    "how", [killed, lambda run: (run.path / ALIVE).unlink()], ids=["killed", "gone"]
)
@pytest.mark.parametrize("once", [False, True])
def test_of_a_normal_end_only_the_end_is_said(
    tmp_path: Path, how: Callable[[RunDir], None], once: bool
) -> None:
    run = begun(tmp_path)
    if once:
        how(run)
        clock = Clock(lambda: end_attempt(run, 0))
    else:
        clock = Clock(lambda: how(run), lambda: end_attempt(run, 0))
    code, out = watched(run.path, clock, once=once)
    assert code == 0 and "gone" not in out and "nobody" not in out and "dead" not in out
    assert "attempt 1 ended with exit code 0: fine" in out


@pytest.mark.parametrize(
    ("command", "kind"),
    [("train", "training"), ("bench all_reduce", "sweep"), ("bench pairs", "pairs"), ("hunt", "hunt"),
     ("submit train", "training"), ("resume", "run")],
)  # fmt: skip
def test_before_ranks_start_its_kind_is_what_was_typed(
    tmp_path: Path, command: str, kind: str
) -> None:
    run = create_run("soon", root=tmp_path, command=("/bin/clusterlab", *command.split()))
    seen = Watched(run.path).look()
    text = "\n".join(watch_lines(seen, 100, 5))
    assert seen.kind == kind and seen.state == State.STARTING
    assert text.startswith(f"{kind} soon: ") and "not started" in text and " 0 " not in text


def test_a_pipe_cuts_no_line(tmp_path: Path) -> None:
    run = create_run("n" * 110, root=tmp_path, command=("clusterlab", "bench", "all_reduce"))
    _, out = watched(run.path, Clock(), once=True)
    assert "…" not in out and "n" * 110 in out


def test_of_another_host_only_its_beats_tell(tmp_path: Path) -> None:
    run = begun(tmp_path)
    held = json.loads((run.path / ALIVE).read_text())
    (run.path / ALIVE).write_text(json.dumps(held | {"kernel": "another", "host": HOSTILE}))
    beats = [lambda n=n: os.utime(run.path / ALIVE, (n, n)) for n in range(100)]
    clock = Clock(*beats)
    code, out = watched(run.path, clock)
    assert code == 4
    assert "no sign of life of process" in out.splitlines()[-2]
    assert "\x1b" not in out and "\u202e" not in out
    assert 100 + DEAD_S < clock() - START.timestamp() < 100 + DEAD_S + 5


def test_a_run_that_never_starts_is_given_up(tmp_path: Path) -> None:
    run = create_run("x", root=tmp_path, now=START)
    clock = Clock()
    code, out = watched(run.path, clock)
    assert code == 4 and "no attempt was started" in out
    assert START_S <= clock() - START.timestamp() < START_S + 3


def test_a_run_that_is_not_there_is_waited_for_only_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLUSTERLAB_RUNS", str(tmp_path))
    with pytest.raises(UsageError, match="--wait"):
        watched(Path("later"), Clock())

    def made() -> None:
        run = begun(tmp_path)
        end_attempt(run, 0)
        run.path.rename(tmp_path / "later")

    assert watched(Path("later"), Clock(lambda: None, made), wait=True)[0] == 0
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="not a run directory"):
        watched(tmp_path / "file", Clock(), wait=True)


def test_json_has_a_line_for_each_change_and_none_for_the_clock(tmp_path: Path) -> None:
    run = begun(tmp_path)
    append(run, 0)
    still = [lambda: None] * 40
    code, out = watched(
        run.path, Clock(*still, lambda: append(run, 1, 2, wrong=3), *still, lambda: end_attempt(run, 1)),
        as_json=True,
    )  # fmt: skip
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 1
    assert [(x["state"], x["done"], len(x["new"])) for x in lines] == [
        ("running", 1, 1), ("running", 3, 2), ("ended", 3, 0),
    ]  # fmt: skip
    assert [row["verdict"] for row in lines[1]["new"]] == ["invalid", "invalid"]
    assert lines[1]["wrong"] == 6 and lines[2]["exit_code"] == 1


def sweep(root: Path) -> RunDir:
    config = resolve_config(
        collective_text="all_reduce,broadcast", begin="1K", end="16M", factor=4, step=None,
        dtype_text="float32", op_text="sum", root=0, place="both", iterations=20, warmup=5, check=True,
        backend="gloo", deadline_s=60, fabric=None,
    )  # fmt: skip
    run = create_run("sweep", root=root, now=START)
    return start_attempt(
        run, configuration={**config.to_json(), "world_size": 4}, planned_points=32, now=START
    )


def test_nothing_is_said_of_sizes_whose_time_nobody_knows(tmp_path: Path) -> None:
    run = sweep(tmp_path)
    append(run, 0, 4)
    text = run.records_path.read_text()  # all in the same second
    run.records_path.write_text(
        re.sub(r'"time_utc":"[^"]*"', f'"time_utc":"{START.isoformat()}"', text)
    )
    seen = Watched(run.path).look()
    assert seen.done == 4 and seen.left is None


def test_what_is_in_flight_and_how_long_the_rest_takes(tmp_path: Path) -> None:
    run = sweep(tmp_path)
    look = Watched(run.path, now=START.timestamp)
    assert look.look().in_flight == "all_reduce float32 sum 1 KiB"
    append(run, 0, 6)  # a point each four seconds
    seen = look.look()
    assert seen.in_flight == "all_reduce float32 sum 64 KiB"
    assert seen.left is not None and seen.left.at_least and seen.left.seconds == 26 * 4
    append(run, 6, 10)
    seen = look.look()
    assert seen.in_flight == "broadcast float32 1 KiB"
    assert seen.left is not None and not seen.left.at_least and seen.left.seconds == 16 * 4
    killed(run)
    once = Watched(run.path, once=True).look()
    assert once.state == State.DEAD and once.left is None
    assert "in flight when it died: broadcast float32 1 KiB" in watch_lines(once, 100, 1)
    end_attempt(run, 0)
    seen = look.look()
    assert seen.left is None and not seen.in_flight


def test_the_slowest_rank_has_a_name(tmp_path: Path) -> None:
    run = begun(tmp_path)
    write_placement(run.path, local_placement(3, HOSTILE))
    look = Watched(run.path)
    for number, point in enumerate(POINTS[:5]):
        for rank in range(3):
            with SamplesWriter(run.samples_path, rank, 1) as writer:
                slow = 12.0 if rank == (2 if number else 1) else 10.0
                writer.append(point, [slow, slow, 99.0])
        seen = look.look()
    assert seen.slowest is not None
    assert (seen.slowest.rank, seen.slowest.times, seen.slowest.of) == (2, 4, 5)
    assert seen.slowest.ratio == pytest.approx(1.2)
    assert "slowest rank: 2 on n 0, in 4 of 5, 20.0 %" in "\n".join(watch_lines(seen, 100, 3))


def step(number: int, **changes: Any) -> StepLine:
    made = StepLine(
        number, 1, f"2026-11-29T12:00:{2 * number:02d}Z", 5.0 - number, 1000.0, 3, 10.0, 300.0, 400.0,
        {"tp": 200.0}, 0.0, 50.0, 40.0, 1 << 20, 16, 800.0,
    )  # fmt: skip
    return replace(made, **changes)


def test_a_training_shows_loss_and_where_its_steps_go(tmp_path: Path) -> None:
    run = start_attempt(
        create_run("t", root=tmp_path, now=START), now=START,
        configuration={"measures": "training", "train": {"steps": 10}},
    )  # fmt: skip
    with LineWriter(run.path / STEPS) as writer:
        writer.append_all([step(n) for n in range(4)])
        writer.append_all([step(n, attempt=1) for n in (2, 3)])  # again, from a checkpoint
    seen = Watched(run.path).look()
    assert (seen.done, seen.planned, seen.unit, seen.in_flight) == (4, 10, "steps", "step 4")
    assert seen.left is not None and seen.left.seconds == 6 * 2
    text = "\n".join(watch_lines(seen, 100, 2))
    assert "backward 40.0 %, forward 30.0 %, exposed tp 20.0 %" in text
    assert "   3  2.0000  1.00      0.800   1.25    0.200             3" in text
    assert "slowest rank: 3, in 4 of 4" in text


def test_a_soak_shows_its_passes_and_ends_by_its_time(tmp_path: Path) -> None:
    run = start_attempt(
        create_run("s", root=tmp_path, now=START), now=START,
        configuration={"measures": "soak", "duration_s": 100.0, "tolerance": 0.03},
    )  # fmt: skip
    one = SoakPass(7, 1, 30.0, "2026-11-29T12:00:30Z", "all_reduce", "float32", "sum", False, 1 << 20,
                   1 << 20, 9, 50.0, 50.0, 45.0, 60.0, 55.0, 0, 1980.0, 61.0, None)  # fmt: skip
    with LineWriter(run.path / SOAK) as writer:
        writer.append(one)
    seen = Watched(run.path, now=lambda: START.timestamp() + 30).look()
    assert (seen.done, seen.unit) == (7, "passes")
    assert seen.left is not None and seen.left.seconds == 70
    assert "1,980" in "\n".join(watch_lines(seen, 100, 5))


@pytest.mark.parametrize("width", [20, 40, 60, 100])
def test_a_narrow_terminal_is_not_exceeded(tmp_path: Path, width: int) -> None:
    run = sweep(tmp_path)
    write_placement(run.path, local_placement(4, "節" * 30))
    append(run, 0, 9, slow=9.0)
    lines = watch_lines(Watched(run.path).look(), width, 5)
    assert all(cell_width(line) <= width for line in lines)
    assert sum("all_reduce" in line for line in lines) >= 5
    said = " ".join(lines)
    assert all(word in said for word in ("slow", "points", "in flight"))


def test_pairs_name_the_slowest_so_far(tmp_path: Path) -> None:
    run = start_attempt(create_run("p", root=tmp_path), configuration={"pattern": "pairs"})
    write_placement(run.path, local_placement(4, HOSTILE))
    row = fake_row(POINTS[0], random.Random(0))
    with run.writer() as writer:
        for number, ranks in enumerate([(0, 1), (1, 2), (2, 3), (3, 0)]):
            rate = 5.0 if number == 2 else 10.0
            writer.append(replace(row, collective="send", ranks=ranks, algbw_GBps=rate))
    seen = Watched(run.path).look()
    assert seen.kind == "pairs"
    assert (
        "slowest send so far: rank 2 → 3" in seen.tables[0]
        and "0.50 of the median" in seen.tables[0]
    )
    assert "\x1b" not in "\n".join(watch_lines(seen, 100, 5))


def test_once_is_a_snapshot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = begun(tmp_path)
    append(run, 0, 2)
    assert main(["watch", str(run.path), "--once"]) == 0
    assert "2 of 16 points" in capsys.readouterr().out
    assert main(["watch", str(run.path), "--once", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"] == {Verdict.PASS.value: 2}
    killed(run)
    assert main(["watch", str(run.path), "--once"]) == 4
    ended = make_run(tmp_path, [], name="ended", exit_code=1)
    assert main(["watch", str(ended.path), "--once"]) == 1
    assert main(["watch", str(tmp_path / "none"), "--once", "--wait"]) == 2
    assert Watched(ended.path).look().state == State.ENDED


def test_on_a_terminal_it_is_drawn_again_and_ctrl_c_leaves_the_run_alone(tmp_path: Path) -> None:
    run = begun(tmp_path)
    write_placement(run.path, local_placement(2, HOSTILE))
    append(run, 0, 2)
    leader, follower = pty.openpty()
    with subprocess.Popen(
        [*CLI, "watch", str(run.path), "--every", "0.1"], stdin=follower, stdout=follower,
        stderr=follower, env={**clean_environment(), "TERM": "xterm", "COLUMNS": "60", "LINES": "30"},
    ) as child:  # fmt: skip
        os.close(follower)
        seen = _until(leader, b"2 of 16 points", b"")
        append(run, 2)
        seen = _until(leader, b"3 of 16 points", seen)
        child.send_signal(signal.SIGINT)
        while True:
            try:
                seen += os.read(leader, 1 << 16)
            except OSError:
                break
    os.close(leader)
    assert child.returncode == 128 + signal.SIGINT
    assert b"Traceback" not in seen and b"\x1b[2J" not in seen and b"\x1b]0" not in seen
    assert seen.rindex(b"\x1b[?25h") > seen.rindex(b"\x1b[?25l")  # the cursor is shown again
    assert open_run(run.path).info.attempts[-1].ended_utc is None
    assert sys.executable


def _until(leader: int, what: bytes, seen: bytes) -> bytes:
    while what not in seen:
        seen += os.read(leader, 1 << 16)
    return seen
