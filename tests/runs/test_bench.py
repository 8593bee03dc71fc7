"""``clusterlab bench`` end to end over real gloo ranks: what it prints, writes and returns."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from clusterlab.core.rows import SCHEMA_VERSION, Row
from clusterlab.records.documents import read_fabric, read_findings, read_placement
from clusterlab.records.run_dir import open_run
from clusterlab.records.samples import read_samples, samples_path
from clusterlab.records.store import read_records
from tests.conftest import CLI, Bench

pytestmark = pytest.mark.ranks

QUICK = ("-g", "2", "-b", "1K", "-e", "64K", "-f", "8", "-n", "3", "-w", "1")
LONG = ("-g", "2", "-b", "1K", "-e", "4M", "-f", "2", "-n", "200", "-w", "1")


def rows_of(folder: Path) -> tuple[Row, ...]:
    return read_records(folder).rows


def wait_for_rows(bench: Bench, process: subprocess.Popen[str], count: int) -> Path:
    """Wait until the running sweep has so many rows on disk."""
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        folders = list(bench.runs.iterdir()) if bench.runs.exists() else []
        records = folders[0] / "records.jsonl" if folders else None
        if records and records.exists() and records.read_bytes().count(b"\n") >= count:
            return folders[0]
        time.sleep(0.05)
    raise AssertionError(f"no {count} rows in time: {process.communicate(timeout=30)}")


def rank_pids(process: subprocess.Popen[str]) -> list[int]:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [int(pid) for pid in children.split()]


def test_every_point_is_predicted_measured_checked_and_kept(bench: Bench) -> None:
    done = bench("all", *QUICK)
    assert done.returncode == 0, done.stderr
    run = open_run(bench.run_dir())
    rows = rows_of(run.path)
    assert len(rows) == run.info.planned_points == 7 * 3 * 2
    unchecked = {(r.collective, r.in_place) for r in rows if r.wrong is None}
    # They read and write the same memory at once: undefined in place, N/A in nccl-tests too.
    assert unchecked == {("all_to_all", True), ("send_recv", True)}
    assert not any(r.wrong for r in rows)
    assert all(r.predicted_time_us and r.bound_time_us is not None for r in rows)
    assert all(r.predicted_time_us >= r.bound_time_us for r in rows)
    assert {r.backend for r in rows} == {"gloo"}
    placement = read_placement(run.path)
    assert placement is not None
    assert placement.world_size == 2
    fabric = read_fabric(run.path)
    assert fabric is not None
    assert fabric.design == "host"
    assert "self-calibration" in (fabric.calibration or "")
    for rank in range(2):
        samples = read_samples(samples_path(run.samples_path, rank))
        assert [len(p.times_us) for p in samples.points] == [3] * len(rows)
    assert run.info.attempts[0].exit_code == 0
    assert (run.path / "report.html").stat().st_size > 10_000
    tables = [x for x in done.stdout.splitlines() if x and not x.startswith("#")]
    assert len(tables) == 7 * 3
    assert all(len(line.split()) == 16 for line in tables)


def test_strict_tables_and_json_lines_are_for_parsers(bench: Bench) -> None:
    strict = bench("all_gather", *QUICK, "--nccl-tests")
    lines = [x for x in strict.stdout.splitlines() if x and not x.startswith("#")]
    assert [len(line.split()) for line in lines] == [13] * 3
    as_json = bench("allreduce", *QUICK, "--json", "--place", "in")
    rows = [json.loads(line) for line in as_json.stdout.splitlines()]
    assert [r["size_bytes"] for r in rows] == [1024, 8192, 65536]
    assert all(r["in_place"] for r in rows)


@pytest.mark.parametrize(("options", "points"), [((), 1), (("--keep-going",), 6)])
def test_corrupted_data_is_caught_with_rank_index_expected_and_got(
    bench: Bench, options: tuple[str, ...], points: int
) -> None:
    done = bench("all_reduce", *QUICK, "-d", "int32", "--corrupt", "1:17", *options)
    assert done.returncode == 1
    assert "the first on rank 1 at index 17: expected " in done.stderr
    assert ("--keep-going measures all of it" in done.stderr) == (not options)
    for place in ("out of place", "in place") if options else ("out of place",):
        assert f"wrong data: all_reduce int32 sum 1024 B {place}: 1 wrong elements" in done.stderr
    assert "too few" not in done.stderr and "noisy" not in done.stderr  # wrong data is the news
    rows = rows_of(bench.run_dir())
    assert len(rows) == points
    assert {(r.wrong, r.wrong_rank, r.wrong_index) for r in rows} == {(1, 1, 17)}
    assert all(r.wrong_expected != r.wrong_got for r in rows)
    (finding,) = read_findings(bench.run_dir())
    assert (finding.code, finding.ranks) == ("WRONG_DATA", (1,))


def test_a_stopped_rank_ends_the_sweep_at_the_deadline_and_is_a_finding(bench: Bench) -> None:
    process = bench.start("all_reduce", *LONG, "--deadline", "3")
    folder = wait_for_rows(bench, process, 4)
    victim = rank_pids(process)[1]
    os.kill(victim, signal.SIGSTOP)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 4
    assert f"(pid {victim}) does not answer: stopped by a signal (SIGSTOP)" in err
    assert "  last finished: all_reduce float32 sum " in err
    (found,) = read_findings(folder)
    assert (found.code, found.ranks) == ("RANK_STOPPED", (1,))
    assert f"  fix: {found.fix}\n" in err
    (attempt,) = open_run(folder).info.attempts
    assert attempt.exit_code == 4
    assert len(rows_of(folder)) >= 4
    report = subprocess.run(
        [*CLI, "report", str(folder), "--no-html"], env=bench.environment, capture_output=True,
        text=True, check=False, timeout=60,
    )  # fmt: skip
    assert "fatal: RANK_STOPPED ranks 1" in report.stdout


def test_a_killed_rank_ends_the_sweep_and_keeps_its_rows(bench: Bench) -> None:
    process = bench.start("all_reduce", *LONG)
    folder = wait_for_rows(bench, process, 4)
    victim = rank_pids(process)[1]
    os.kill(victim, signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 4
    assert f"rank 1 (pid {victim}) was ended by signal 9 (SIGKILL)" in err
    assert "Traceback" not in err
    run = open_run(folder)
    assert len(rows_of(folder)) >= 4
    assert run.info.attempts[-1].exit_code == 4
    (found,) = read_findings(folder)
    assert (found.code, found.ranks) == ("RANK_DIED", (1,))
    assert f"(pid {victim}) does not answer: its process is gone" in found.evidence[0]
    assert (folder / "report.html").exists()


def test_ctrl_c_ends_the_sweep_with_130_and_keeps_its_rows(bench: Bench) -> None:
    process = bench.start("all_reduce", *LONG)
    folder = wait_for_rows(bench, process, 2)
    os.killpg(process.pid, signal.SIGINT)  # what a terminal does
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted by SIGINT" in err
    assert "Traceback" not in err
    assert len(rows_of(folder)) >= 2
    assert read_findings(folder) == (), "ranks that are told to stop lose each other: no finding"
    assert not any(Path(f"/proc/{pid}").exists() for pid in rank_pids_of_log(folder))


def rank_pids_of_log(folder: Path) -> list[int]:
    """Ranks are gone with their parent; their logs name no pid, so ask the process table."""
    mine = str(folder)
    found = []
    for proc in Path("/proc").glob("[0-9]*"):
        try:
            if mine in (proc / "cmdline").read_text():
                found.append(int(proc.name))
        except OSError:
            continue
    return found


def test_a_full_disk_is_one_message_and_keeps_what_was_written(
    bench: Bench, tiny_disk: Callable[[int], Path]
) -> None:
    runs = tiny_disk(64)
    bench.environment["CLUSTERLAB_RUNS"] = str(runs)
    full = Bench(runs, bench.environment)
    done = full("all_reduce", "-g", "2", "-b", "8", "-e", "1M", "-f", "1.2", "-n", "2", "-w", "0")
    assert done.returncode == 1, done.stderr
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    rows = rows_of(full.run_dir())
    assert rows
    assert len({r.point for r in rows}) == len(rows)


def test_sizes_beyond_memory_are_refused_before_anything_is_measured(bench: Bench) -> None:
    done = bench("all_reduce", "-g", "2", "-b", "100T")
    assert done.returncode == 2
    assert "of memory is free" in done.stderr
    assert "expected at most" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_sweep_goes_on_where_its_directory_says_it_stopped(bench: Bench) -> None:
    made = subprocess.run(
        [*CLI, "runs", "create", "--name", "again", "--job", "7"],
        env=bench.environment, capture_output=True, text=True, check=True, timeout=60,
    ).stdout.strip()  # fmt: skip
    bench.environment["CLUSTERLAB_RUN_DIR"] = made
    process = bench.start("all_reduce", *LONG)
    wait_for_rows(bench, process, 4)
    os.kill(rank_pids(process)[0], signal.SIGKILL)
    process.communicate(timeout=60)
    before = rows_of(Path(made))
    done = subprocess.run(
        [*CLI, "resume", made],
        env=bench.environment, capture_output=True, text=True, check=False, timeout=170,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    after = rows_of(Path(made))
    assert after[: len(before)] == before
    assert len(after) == len({r.point for r in after}) == 13 * 2
    assert {r.attempt for r in after} == {1, 2}
    other = bench("all_reduce", *QUICK)
    assert other.returncode == 2
    assert "another sweep" in other.stderr


@pytest.mark.parametrize(
    ("fabric", "message"),
    [
        ("hgx-h10", "did you mean 'hgx-h100'"),
        ("dangling.yaml", "gpu9"),
        ("negative.yaml", "-1"),
    ],
)
def test_a_broken_fabric_is_refused_with_its_place(
    bench: Bench, tmp_path: Path, fabric: str, message: str
) -> None:
    text = """\
name: x
links: {nv: {class: nvlink, GBps: 20, GBps_source: "a test"}}
network:
  devices: [{name: gpu0, kind: gpu}, {name: gpu1, kind: gpu}]
  links: [{from: gpu0, to: gpu1, type: nv}]
"""
    (tmp_path / "dangling.yaml").write_text(text.replace("to: gpu1", "to: gpu9"))
    (tmp_path / "negative.yaml").write_text(text.replace("GBps: 20", "GBps: -1"))
    name = str(tmp_path / fabric) if fabric.endswith(".yaml") else fabric
    done = bench("all_reduce", *QUICK, "--fabric", name)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert "measured" not in done.stdout


def test_reports_of_what_is_no_run_are_refused(bench: Bench, tmp_path: Path) -> None:
    def report(path: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*CLI, "report", str(path)], capture_output=True, text=True, check=False, timeout=60
        )

    for path in (tmp_path, tmp_path / "absent", Path(__file__)):
        done = report(path)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
    assert bench("all_gather", *QUICK).returncode == 0
    folder = bench.run_dir()
    good = (folder / "run.json").read_text()
    (folder / "run.json").write_text(
        good.replace(f'"schema_version": {SCHEMA_VERSION}', '"schema_version": 99')
    )
    newer = report(folder)
    assert newer.returncode == 2
    assert "newer" in newer.stderr
    (folder / "run.json").write_text(good)
    records = folder / "records.jsonl"
    records.write_bytes(records.read_bytes()[:-20])
    torn = report(folder)
    assert torn.returncode == 0, torn.stderr
