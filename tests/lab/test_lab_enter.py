"""The program that runs commands in a lab, here without entering anything (pid 0)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import clusterlab.lab.enter as enter_module
from clusterlab.lab.processes import wait_until

REQUEST = {"pid": 0, "start": "", "user": False, "cwd": "/", "host": "ctl"}


def command(*words: str, **changes: object) -> list[str]:
    script = str(enter_module.__file__)
    return [sys.executable, "-I", "-S", script, json.dumps(REQUEST | changes), *words]


@pytest.mark.parametrize(("script", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)])
def test_the_exit_status_is_the_commands(script: str, status: int) -> None:
    assert subprocess.run(command("sh", "-c", script), check=False).returncode == status


def test_a_command_that_cannot_run_is_127_or_126_with_a_reason() -> None:
    absent = subprocess.run(command("no-such"), capture_output=True, text=True, check=False)
    assert absent.returncode == 127
    assert absent.stderr == "clusterlab: no-such: command not found on ctl\n"
    refused = subprocess.run(command("/etc/passwd"), capture_output=True, text=True, check=False)
    assert refused.returncode == 126
    assert "Permission denied" in refused.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_signals_reach_the_command(number: signal.Signals, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    trap = f"trap 'echo got; exit 5' {number.name[3:]}; : > {ready}; while :; do sleep 0.01; done"
    child = subprocess.Popen(command("sh", "-c", trap), stdout=subprocess.PIPE, text=True)
    assert wait_until(ready.exists, timeout_s=20)
    child.send_signal(number)
    said, _ = child.communicate(timeout=20)
    assert (said, child.returncode) == ("got\n", 5)


def test_a_command_that_a_signal_ends_gives_128_and_the_signal() -> None:
    child = subprocess.Popen(command("sh", "-c", "echo on; exec sleep 60"), stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    child.terminate()
    assert child.wait(timeout=20) == 128 + signal.SIGTERM
    child.stdout.close()


def test_the_working_directory_is_kept_or_its_loss_said(tmp_path: Path) -> None:
    kept = subprocess.run(
        command("pwd", cwd=str(tmp_path)), capture_output=True, text=True, check=True
    )
    assert kept.stdout.strip() == str(tmp_path)
    lost = subprocess.run(
        command("pwd", cwd="/no/such"), capture_output=True, text=True, check=True
    )
    assert lost.stdout == "/\n"
    assert lost.stderr == "clusterlab: /no/such: No such file or directory on ctl; running in /\n"


def test_a_process_id_that_was_given_away_again_is_not_entered() -> None:
    found = subprocess.run(
        command("true", pid=os.getpid(), start="1"), capture_output=True, text=True, check=False
    )
    assert found.returncode == 4
    assert "cannot enter ctl: it is gone" in found.stderr


def test_the_environment_and_standard_streams_pass_through() -> None:
    found = subprocess.run(
        command("sh", "-c", "read x; echo $x $Y; echo e >&2"),
        input="in\n",
        env={**os.environ, "Y": "var"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (found.stdout, found.stderr) == ("in var\n", "e\n")
