"""The tests of `make test`: what starts labs or a browser mostly waits, so it runs beside the rest.

    python tests/setup/suite.py         exit code 0, or that of the first part that failed

Beside the rest: Slurm in a box, headless Chromium; their output is shown when they are done. After both, with
the machine to itself: what is marked `alone` (it measures) and what needs GPUs. Ctrl-C ends each of them
once, so that labs come down.

What runs beside the rest, and alone, is looked for in the few files that have such marks: to collect all of
them takes a process 24 s. tests/conftest.py sees to it that none is marked elsewhere.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOG = ROOT / "build" / "test-beside.log"

ALONE = ("alone", "gpu")
BESIDE = ("slurm", "browser")


@dataclass(frozen=True, slots=True)
class Part:
    """One pytest. ``log``: where its output goes, None for this one's own."""

    name: str
    command: tuple[str, ...]
    log: Path | None = None


def parts() -> tuple[tuple[Part, ...], ...]:
    """What runs at the same time, one after the other."""
    pytest = (sys.executable, "-m", "pytest")
    alone, beside = " or ".join(ALONE), " or ".join(BESIDE)
    return (
        (
            Part(
                "Slurm and the browser",
                # a cache of its own: two that end at the same time would write one file
                (*pytest, "-o", "cache_dir=.pytest_cache/beside", *marked(BESIDE),
                 "-m", f"({beside}) and not ({alone})"),
                LOG,
            ),
            Part(
                "the rest",
                (*pytest, "-n", "2", "--dist", "loadfile", "-m", f"not ({beside} or {alone})"),
            ),
        ),
        (Part("alone", (*pytest, *marked(ALONE), "-m", alone)),),
    )  # fmt: skip


@cache
def marked(names: tuple[str, ...]) -> tuple[str, ...]:
    """Files that may have tests with a mark of ``names``: they write it, or a conftest above them does."""
    mark = re.compile(rf"\bmark\.({'|'.join(names)})\b")
    tests = ROOT / "tests"
    found: set[Path] = set()
    for file in tests.rglob("*.py"):
        if mark.search(file.read_text(encoding="utf-8")):
            found |= set(file.parent.rglob("test_*.py")) if file.name == "conftest.py" else {file}
    return tuple(sorted(str(f.relative_to(ROOT)) for f in found if f.name.startswith("test_")))


def environment() -> dict[str, str]:
    """This one, with leave to keep compiled files: else each of many processes compiles all it imports."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def run(stages: Sequence[Sequence[Part]]) -> int:
    """Run the parts of each stage at once; the first exit code that is not 0. Raises KeyboardInterrupt."""
    codes = [code for stage in stages for code in _at_once(stage)]
    return next((code for code in codes if code), 0)


def _at_once(stage: Sequence[Part]) -> list[int]:
    began = time.monotonic()
    started = [(part, _start(part)) for part in stage]
    try:
        for part, process in sorted(started, key=lambda pair: pair[0].log is not None):
            if part.log is not None and process.poll() is None:
                _say(f"{part.name}: still running, see {part.log}")
            process.wait()
            if part.log is not None:
                _say(f"{part.name}: what they said")
                _show(part.log)
            _say(f"{part.name}: exit code {process.returncode}, {time.monotonic() - began:.0f} s")
    except KeyboardInterrupt:
        for _, process in started:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
        for part, process in started:
            process.wait()
            if part.log is not None:
                _show(part.log)
        raise
    return [process.returncode for _, process in started]


def _start(part: Part) -> subprocess.Popen[bytes]:
    """In a session of its own: a terminal's Ctrl-C reaches it by us, once, and not a second time while it
    takes its labs down.
    """
    if part.log is None:
        return subprocess.Popen(part.command, cwd=ROOT, env=environment(), start_new_session=True)
    part.log.parent.mkdir(parents=True, exist_ok=True)
    with part.log.open("wb") as file:
        return subprocess.Popen(
            part.command, cwd=ROOT, env=environment(), stdout=file, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip


def _show(log: Path) -> None:
    sys.stdout.write(log.read_text(encoding="utf-8", errors="replace"))
    sys.stdout.flush()


def _say(text: str) -> None:
    print(f"== {text}", flush=True)


def _interrupt(number: int, _frame: object) -> None:
    raise KeyboardInterrupt(number)


def main() -> int:
    """The exit code; 130 and 143 after Ctrl-C and SIGTERM."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        return run(parts())
    except KeyboardInterrupt as stop:
        return 128 + int(stop.args[0])


if __name__ == "__main__":
    sys.exit(main())
