"""Standard output and error that cannot be written: one line, a code, and no measurement lost."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.conftest import CLI, Bench, clean_environment

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
QUICK = ("all_reduce", "-g", "2", "-b", "1K", "-e", "4K", "-n", "2", "-w", "0")


@needs_full
@pytest.mark.parametrize(
    "command", [["topo", "list"], ["--help"], ["predict", "--fabric", "h200-2"]]
)
def test_a_full_disk_under_stdout_is_one_line(command: list[str]) -> None:
    with FULL.open("w") as full:
        done = subprocess.run(
            [*CLI, *command],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["topo list", "jobs list", "predict --fabric h200-2 --json"])
def test_a_closed_stdout_is_no_crash(command: str) -> None:
    line = f"exec {' '.join(CLI)} {command} >&-"
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, check=False, timeout=60
    )
    assert "Traceback" not in done.stderr
    assert done.returncode == 0


@pytest.mark.ranks
def test_a_reader_that_leaves_does_not_end_the_measurement(bench: Bench) -> None:
    with bench.start(*QUICK) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr is not None
        err = process.stderr.read()
    assert process.returncode == 0, err
    assert len((bench.run_dir() / "records.jsonl").read_text().splitlines()) == 6


@pytest.mark.ranks
@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("OMP_NUM_THREADS", "abc", "OMP_NUM_THREADS: 'abc'; expected a number"),
        ("GLOO_SOCKET_IFNAME", "nosuch0", "no network interface 'nosuch0'"),
    ],
)
def test_rubbish_in_the_environment_is_named(
    bench: Bench, variable: str, value: str, message: str
) -> None:
    bench.environment[variable] = value
    done = bench(*QUICK)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_too_many_ranks_and_iterations_are_refused_at_once() -> None:
    for arguments, message in (
        (["-g", "100000"], "per core"),
        (["-n", "99999999999999999999"], "-n: "),
        (["-T", "nan"], "--deadline"),
        (["-b", "9" * 330 + "G"], "too large a size"),
    ):
        done = subprocess.run(
            [*CLI, "bench", "all_reduce", "--backend", "gloo", *arguments],
            env=clean_environment(), capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 2
        assert message in done.stderr
        assert "Traceback" not in done.stderr


def test_a_locale_without_our_characters_is_no_traceback() -> None:
    done = subprocess.run(
        [*CLI, "exec", "--help"],
        env={**clean_environment(), "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "srun \\u2026 clusterlab exec" in done.stdout


@pytest.mark.parametrize("tag", ["none", "both"])
def test_an_empty_command_is_not_found(tag: str) -> None:
    done = subprocess.run(
        [*CLI, "exec", "--bind", "none", "--tag", tag, "--", ""],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 127
    assert "'': no such command" in done.stderr
