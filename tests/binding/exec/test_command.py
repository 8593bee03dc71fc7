"""The wrapper around a command: streams, exit codes, signals, what is left behind."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from clusterlab.binding.exec.plan import by_default, make_plan
from tests.conftest import CLI, clean_environment

EXEC = [*CLI, "exec"]
ENVIRONMENT = clean_environment(
    RANK="5", WORLD_SIZE="8", LOCAL_RANK="1", LOCAL_WORLD_SIZE="4", GROUP_RANK="1"
)
TAG = f"[{make_plan(ENVIRONMENT, by_default({})).tag}] "
DEADLINE_S = 60

# Prints its pid, then each signal as it comes, until stdin ends.
LISTEN = """
import os, signal, sys
for name in sys.argv[1:]:
    tell = lambda number, _: os.write(1, f"{signal.Signals(number).name}\\n".encode())
    signal.signal(getattr(signal, name), tell)
print(os.getpid(), flush=True)
sys.stdin.read()
"""


def start(*command: str, options: tuple[str, ...] = (), **popen: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*EXEC, *options, "--", *command],
        **{
            "env": ENVIRONMENT,
            "stdin": subprocess.PIPE,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            **popen,
        },  # type: ignore[call-overload]
    )


def finish(process: subprocess.Popen[bytes], text: bytes = b"") -> tuple[int, bytes, bytes]:
    out, err = process.communicate(text, timeout=DEADLINE_S)
    return process.returncode, out, err


def listening(*names: str, **popen: object) -> tuple[subprocess.Popen[bytes], int]:
    """A wrapped listener that is up, and its own pid."""
    process = start(sys.executable, "-c", LISTEN, *names, **popen)
    assert process.stdout is not None
    return process, int(process.stdout.readline().split()[-1])


def wait_for(reached: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.01)


def state(pid: int) -> str:
    """The kernel's letter for a process; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def test_both_streams_are_tagged_and_kept_apart_and_stdin_passes() -> None:
    code, out, err = finish(start("sh", "-c", "cat; echo oops >&2; exit 3"), b"a\nb\n")
    assert code == 3
    assert out.decode() == f"{TAG}a\n{TAG}b\n"
    assert err.decode() == f"{TAG}oops\n"


@pytest.mark.parametrize(
    ("which", "out", "err"), [("stdout", 1, 0), ("stderr", 0, 1), ("none", 0, 0)]
)
def test_a_stream_that_is_not_tagged_is_the_commands_own(which: str, out: int, err: int) -> None:
    done = finish(start("sh", "-c", "echo out; echo err >&2", options=("--tag", which)))
    assert done == (0, f"{TAG * out}out\n".encode(), f"{TAG * err}err\n".encode())


def test_without_a_tag_the_process_becomes_the_command() -> None:
    process = start("sh", "-c", "echo $$", options=("--tag=none",))
    assert finish(process)[1].decode() == f"{process.pid}\n"


@pytest.mark.parametrize("code", [0, 1, 3, 127, 255])
def test_the_exit_code_is_the_commands(code: int) -> None:
    assert finish(start("sh", "-c", f"exit {code}")) == (code, b"", b"")


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGSEGV", "SIGABRT", "SIGINT", "SIGPIPE"])
def test_a_command_that_a_signal_ends_ends_the_wrapper_by_it(name: str) -> None:
    number = getattr(signal, name)
    assert finish(start("sh", "-c", f"echo last; kill -{number} $$"))[:2] == (
        -number,
        f"{TAG}last\n".encode(),
    )


def test_a_command_that_cannot_be_started_says_why(tmp_path: Path) -> None:
    plain, script, bare = tmp_path / "plain", tmp_path / "script", tmp_path / "bare"
    for file, text in ((plain, ""), (script, "#!/nowhere/sh\n"), (bare, "echo hi\n")):
        file.write_text(text)
    script.chmod(0o755)
    bare.chmod(0o755)
    expected = {
        "no-such-command": (127, "no such command in PATH"),
        str(tmp_path / "absent"): (127, "No such file or directory"),
        str(script): (127, "its interpreter (the path after #!) does not exist"),
        str(plain): (126, "Permission denied"),
        str(bare): (126, "neither a program nor a script that begins with #!"),
        str(tmp_path): (126, "Permission denied"),
    }
    for tag in ("both", "none"):
        for name, (code, why) in expected.items():
            done = finish(start(name, options=("--tag", tag)))
            assert done == (code, b"", f"clusterlab exec: {name}: {why}\n".encode())


def test_much_output_arrives_whole_and_in_order() -> None:
    script = "import sys\nfor i in range(300000): sys.stdout.write(f'{i} \\0\\xff' + 'x' * (i % 97) + '\\n')"
    code, out, _ = finish(start(sys.executable, "-X", "utf8", "-c", script))
    lines = out.split(b"\n")
    assert code == 0
    assert len(lines) == 300001
    tag = TAG.encode()
    for i, line in enumerate(lines[:-1]):
        assert line == tag + f"{i} \0\xff".encode() + b"x" * (i % 97)


def test_a_reader_that_stops_reading_stdout_does_not_hold_up_stderr() -> None:
    script = "head -c 3000000 /dev/zero & echo still here >&2; wait"
    with start("sh", "-c", script, stdin=subprocess.DEVNULL) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stderr.readline().decode() == f"{TAG}still here\n"
        assert process.poll() is None
        assert process.stdout.read().count(b"\0") == 3000000
    assert process.returncode == 0


def test_a_command_whose_reader_goes_ends_by_sigpipe() -> None:
    with start("yes") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(DEADLINE_S) == -signal.SIGPIPE


def test_a_line_begun_is_shown_while_the_command_waits() -> None:
    with start("sh", "-c", "printf 'go on? '; read answer; echo $answer") as process:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline().decode() == f"{TAG}go on? \n"
        process.stdin.write(b"yes\n")
        process.stdin.flush()
        assert process.stdout.readline().decode() == f"{TAG}yes\n"


def test_a_full_disk_is_said_and_the_command_goes_on() -> None:
    with Path("/dev/full").open("wb") as full:
        process = start("sh", "-c", "echo lost; echo fine >&2; exit 5", stdout=full)
        code, _, err = finish(process)
    assert code == 5
    said = sorted(err.decode().splitlines())
    assert said == [f"{TAG}fine", "clusterlab exec: output lost: No space left on device"]


def test_closed_streams_stay_closed() -> None:
    command = " ".join([*EXEC, "--", "sh", "-c", "'test -e /dev/fd/1; echo $? >&2'", ">&-"])
    done = subprocess.run(
        ["sh", "-c", command], env=ENVIRONMENT, capture_output=True, timeout=DEADLINE_S, check=False
    )
    assert (done.returncode, done.stderr.decode()) == (0, f"{TAG}1\n")


def test_a_process_left_behind_neither_holds_up_the_wrapper_nor_loses_its_lines(
    tmp_path: Path,
) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    script = f"(read line < {go}; echo $line) & echo early; exit 4"
    with start("sh", "-c", script) as process:
        assert process.stdout is not None
        assert process.wait(DEADLINE_S) == 4
        assert process.stdout.readline().decode() == f"{TAG}early\n"
        go.write_text("late\n")
        assert process.stdout.read().decode() == f"{TAG}late\n"


SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGQUIT", "SIGALRM")


def heard(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().decode().removeprefix(TAG).rstrip()


def test_signals_to_the_wrapper_alone_reach_the_command() -> None:
    process, _ = listening(*SIGNALS)
    for name in SIGNALS:
        process.send_signal(getattr(signal, name))
        assert heard(process) == name
    assert finish(process)[:2] == (0, b"")


def test_signals_to_the_whole_group_reach_the_command_once() -> None:
    process, _ = listening(*SIGNALS, start_new_session=True)
    for name in (*SIGNALS, "SIGTERM", "SIGTERM"):
        os.killpg(process.pid, getattr(signal, name))
        assert heard(process) == name
        time.sleep(0.5)  # long enough for a second one
    assert finish(process)[:2] == (0, b"")


def test_what_the_launcher_ignores_stays_ignored() -> None:
    def ignore() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    process = start("sh", "-c", "kill -HUP $$; echo alive", preexec_fn=ignore)
    assert finish(process)[:2] == (0, f"{TAG}alive\n".encode())


def test_stopping_the_wrapper_stops_the_command_and_it_goes_on_again() -> None:
    # A group of its own: in an orphaned one, such as a CI job's, the kernel drops SIGTSTP.
    process, pid = listening("SIGUSR1", process_group=0)
    process.send_signal(signal.SIGTSTP)
    wait_for(lambda: state(pid) == state(process.pid) == "T")
    process.send_signal(signal.SIGCONT)
    wait_for(lambda: state(pid) == state(process.pid) == "S")
    assert finish(process)[0] == 0


def test_the_command_does_not_outlive_a_killed_wrapper() -> None:
    process, pid = listening("SIGUSR1")
    process.kill()
    process.wait(DEADLINE_S)
    wait_for(lambda: state(pid) in ("", "Z"))
    finish(process)


def test_nothing_is_left_behind() -> None:
    """All descendants fall to this process when theirs end: at the end there is none, dead or alive."""
    script = f"""
import ctypes, os, subprocess, sys
ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
for text in ('echo out; echo err >&2', 'exec >&- 2>&-; sleep 0.2', 'kill -9 $$'):
    subprocess.run([*{EXEC!r}, '--', 'sh', '-c', text], stdout=-3, stderr=-3)
try:
    print(os.waitpid(-1, os.WNOHANG))
except ChildProcessError:
    print('nobody')
"""
    if not hasattr(ctypes.CDLL(None), "prctl"):
        pytest.skip("no prctl here")
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=ENVIRONMENT, capture_output=True, text=True, timeout=DEADLINE_S, check=True,
    )  # fmt: skip
    assert done.stdout == "nobody\n"
