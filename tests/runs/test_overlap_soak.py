"""``clusterlab overlap`` and ``soak`` end to end over real gloo ranks: prints, files, exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.core.findings import Verdict
from clusterlab.records.documents import read_findings
from clusterlab.records.lines import SOAK, read_lines
from clusterlab.records.run_dir import open_run
from clusterlab.report.data import load
from clusterlab.runs.sweeping.resume import sweep_of
from tests.conftest import CLI, Bench


def start(bench: Bench, *words: str, **environ: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*CLI, *words],
        env=bench.environment | environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(bench: Bench, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    process = start(bench, *words, **environ)
    out, err = process.communicate(timeout=180)
    return subprocess.CompletedProcess(words, process.returncode, out, err)


OVERLAP = (
    "overlap",
    "all_reduce",
    "--with",
    "compute,all_gather",
    "-b",
    "32K",
    "-n",
    "4",
    "-g",
    "2",
)
SOAKED = ("soak", "all_reduce", "-b", "16K", "-g", "2", "--pass", "0.05s")


def wait_for_passes(bench: Bench, process: subprocess.Popen[str], count: int) -> Path:
    end = time.monotonic() + 90
    while time.monotonic() < end and process.poll() is None:
        for folder in bench.runs.iterdir() if bench.runs.exists() else ():
            file = folder / SOAK
            if file.exists() and file.read_bytes().count(b"\n") >= count:
                return folder
        time.sleep(0.05)
    raise AssertionError(process.communicate(timeout=30))


@pytest.mark.ranks
def test_overlap_keeps_rows_apart_and_is_resumed_where_it_was(bench: Bench) -> None:
    done = run(bench, *OVERLAP)
    assert done.returncode == 0, done.stderr
    assert "all_reduce + compute" in done.stdout
    assert "all_reduce + all_gather" in done.stdout
    folder = bench.run_dir()
    data = load(open_run(folder))
    said = {(r.collective, r.beside) for r in data.rows}
    assert said == {
        ("all_reduce", None),
        ("all_gather", None),
        ("all_reduce", "compute"),
        ("all_reduce", "all_gather"),
        ("all_gather", "all_reduce"),
    }
    assert all(r.predicted_time_us is None for r in data.rows if r.beside)
    assert all(r.predicted_time_us for r in data.rows if not r.beside)
    # One truth: judged by its data only, counted alike, the rows' times are the table's.
    assert data.judged.verdict == Verdict.PASS
    assert data.run_verdict.summaries == ()
    assert "2 of 2 overlaps measured; verdict pass: no wrong element" in done.stderr
    assert "not judged" in done.stderr
    assert "[2/2]" in done.stderr
    assert " points" not in done.stderr
    by_side = {(r.collective, r.beside): r for r in data.rows}
    compute, gather = data.overlaps
    assert by_side["all_reduce", None].time_us_loop == pytest.approx(compute.alone_us.value)
    assert by_side["all_gather", None].time_us_loop == pytest.approx(gather.other_alone_us.value)
    assert all(r.time_us_loop == r.time_us_p50 for r in data.rows)
    assert data.run_verdict.points == data.run.info.planned_points == 5
    assert [(o.collective, o.beside, o.wrong, o.other_wrong) for o in data.overlaps] == [
        ("all_reduce", "compute", 0, 0),
        ("all_reduce", "all_gather", 0, 0),
    ]
    assert data.overlaps[0].compute
    shown = run(bench, "report", str(folder))
    assert "all_reduce + compute" in shown.stdout
    assert "all_reduce + compute" in (folder / "report.html").read_text()
    as_json = json.loads(run(bench, "report", str(folder), "--json").stdout)
    assert len(as_json["overlaps"]) == 2
    assert (
        as_json["overlaps"][0]["efficiency"]["low"] <= as_json["overlaps"][0]["efficiency"]["high"]
    )

    again = run(bench, *OVERLAP, CLUSTERLAB_RUN_DIR=str(folder))
    assert again.returncode == 0, again.stderr
    assert len(read_lines(folder).overlaps) == 2
    assert len(open_run(folder).records().rows) == 5  # nothing was measured twice
    with pytest.raises(UsageError, match="overlap"):
        sweep_of(open_run(folder))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("overlap", "all_reduce", "--with", "nothing"), "nothing"),
        (("overlap", "all_reduce", "--with", "compute", "-b", "0"), "-b"),
        (("overlap", "all_reduce", "-d", "all"), "-d"),
        (("overlap", "all_reduce", "--backend", "gloo", "--max-ctas", "4"), "--max-ctas"),
        (("overlap", "all_reduce", "--matmul", "3", "--backend", "gloo"), "side"),
        (
            ("overlap", "all_reduce", "-d", "float8_e4m3fn", "--backend", "gloo", "-g", "2"),
            "gloo has no",
        ),
        (("soak", "all_reduce", "--for", "soon"), "--for"),
        (("soak", "all_reduce", "--for", "0s"), "--for"),
        (("soak", "all_reduce", "--for", "1s", "--pass", "1h"), "--pass"),
        (("soak", "all_reduce", "--tolerance", "0"), "--tolerance"),
        (("soak", "nothing"), "nothing"),
    ],
)
def test_bad_input_is_one_line(bench: Bench, words: tuple[str, ...], says: str) -> None:
    done = run(bench, *words)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert says in done.stderr
    assert not bench.runs.exists()


@pytest.mark.ranks
def test_a_soak_too_short_to_say_has_its_own_exit_code(bench: Bench) -> None:
    done = run(bench, *SOAKED, "--for", "1s", "--json")
    assert done.returncode == 3, done.stderr
    told = json.loads(done.stdout)
    assert told["verdict"] == Verdict.NO_VERDICT
    assert told["points"][0]["drift"]["passes"] >= 2
    assert f"verdict no_verdict: {told['reason']}" in done.stderr
    assert "noisy" not in done.stderr  # its one row is of one pass
    run_dir = open_run(bench.run_dir())
    assert len(run_dir.records().rows) == 1
    assert run_dir.info.attempts[0].exit_code == 3
    with pytest.raises(UsageError, match="soak"):
        sweep_of(run_dir)


@pytest.mark.ranks
def test_ctrl_c_ends_a_soak_cleanly_with_its_report(bench: Bench) -> None:
    process = start(bench, *SOAKED, "--for", "1h")
    folder = wait_for_passes(bench, process, 5)
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode in (0, 1, 3), err
    assert "Soak of all_reduce" in out
    assert "Soak of all_reduce" in (folder / "report.html").read_text()
    assert open_run(folder).info.attempts[0].ended_utc is not None
    assert "Traceback" not in err


@pytest.mark.ranks
def test_a_killed_soak_loses_no_pass_and_goes_on(bench: Bench) -> None:
    process = start(bench, *SOAKED, "--for", "1h")
    folder = wait_for_passes(bench, process, 5)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    kept = len(read_lines(folder).passes)
    assert kept >= 5
    with (folder / SOAK).open("ab") as file:
        file.write(b'{"schema_version": 1, "num')  # a crash in the middle of a write
    config = open_run(folder).info.configuration
    assert config["duration_s"] == 3600
    process = start(bench, *SOAKED, "--for", "1h", CLUSTERLAB_RUN_DIR=str(folder))
    wait_for_passes(bench, process, kept + 3)
    os.kill(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    lines = read_lines(folder)
    assert len(lines.warnings) == 1
    assert {p.attempt for p in lines.passes} == {1, 2}
    times = [p.elapsed_s for p in lines.passes]
    assert times == sorted(times)


@pytest.mark.ranks
def test_wrong_data_ends_a_soak_at_once(bench: Bench) -> None:
    done = run(bench, *SOAKED, "--for", "1h", "--corrupt", "1:17")
    assert done.returncode == 1
    folder = bench.run_dir()
    assert [p.wrong for p in read_lines(folder).passes] == [1]
    assert [f.code for f in read_findings(folder)] == ["WRONG_DATA"]
    assert "rank 1 at index 17" in done.stderr
    assert "verdict invalid: wrong data" in done.stderr
    assert "the soak ended there" in done.stdout
