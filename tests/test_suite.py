"""`make test` runs parts at once: every exit code counts, all output is shown, a stop ends each once."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from _pytest.mark.expression import Expression

from tests.conftest import pytest_collection_modifyitems
from tests.setup.suite import ALONE, BESIDE, ROOT, Part, marked, parts, run

SAYS = "import sys; print(sys.argv[1]); sys.exit(int(sys.argv[2]))"


def part(name: str, code: int, log: Path | None = None) -> Part:
    return Part(name, (sys.executable, "-c", SAYS, f"{name} spoke", str(code)), log)


@pytest.mark.parametrize(
    ("codes", "found"),
    [((0, 0, 0), 0), ((1, 0, 0), 1), ((0, 2, 0), 2), ((0, 0, 3), 3), ((1, 2, 3), 1), ((5, 0, 1), 5)],
)  # fmt: skip
def test_every_exit_code_counts_and_all_output_is_shown(
    codes: tuple[int, int, int], found: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    beside, rest, alone = codes
    log = tmp_path / "new" / "log"
    stages = ((part("beside", beside, log), part("rest", rest)), (part("alone", alone),))
    assert run(stages) == found
    said = capfd.readouterr().out
    for name, code in zip(("beside", "rest", "alone"), codes, strict=True):
        assert said.count(f"{name} spoke\n") == 1
        assert f"== {name}: exit code {code}, " in said
    assert said.index("rest spoke") < said.index("beside spoke") < said.index("alone spoke")


MARKERS = ("alone", "slurm", "gpu", "browser")


@pytest.mark.parametrize("present", list(product((False, True), repeat=len(MARKERS))))
def test_every_test_is_in_one_part_and_those_that_measure_are_by_themselves(
    present: tuple[bool, ...],
) -> None:
    marks = {name for name, there in zip(MARKERS, present, strict=True) if there}
    mine = [
        (number, part)
        for number, stage in enumerate(parts())
        for part in stage
        if Expression.compile(part.command[-1]).evaluate(lambda name, **_: name in marks)
    ]
    ((number, _),) = mine
    stage = parts()[number]
    assert (len(stage) == 1) == bool({"alone", "gpu"} & marks)


@pytest.mark.parametrize("names", [ALONE, BESIDE])
def test_a_mark_in_a_file_that_is_not_looked_into_is_refused(names: tuple[str, ...]) -> None:
    def item(file: Path, mark: str) -> pytest.Item:
        def get(name: str) -> pytest.Mark | None:
            return getattr(pytest.mark, mark).mark if name == mark else None

        return cast(pytest.Item, SimpleNamespace(path=file, nodeid="one", get_closest_marker=get))

    known = [ROOT / file for file in marked(names)]
    assert all(file.is_file() for file in known)
    elsewhere = ROOT / "tests" / "core" / "test_new.py"
    pytest_collection_modifyitems([item(known[0], names[0]), item(elsewhere, "ranks")])
    for name in names:
        with pytest.raises(pytest.UsageError, match=f"one is marked .*{name}"):
            pytest_collection_modifyitems([item(elsewhere, name)])


WORKS = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # as tests/conftest.py has it
try:
    print("up", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(0.5)  # a second one here would leave labs behind
    print("down", flush=True)
    sys.exit(2)
"""
RUNS = """
import sys
from pathlib import Path
from tests.setup import suite

command = (sys.executable, "-c", sys.argv[1])
stages = ((suite.Part("beside", command, Path(sys.argv[2])), suite.Part("rest", command)),
          (suite.Part("alone", (sys.executable, "-c", "print('alone ran')")),))
suite.parts = lambda: stages
sys.exit(suite.main())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_ends_all_parts_once_and_waits_for_them(
    number: signal.Signals, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    process = subprocess.Popen(
        [sys.executable, "-c", RUNS, WORKS, str(log)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    while not log.exists() or log.read_text() != "up\n":
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(number)
    said = process.communicate(timeout=30)[0]
    assert process.returncode == 128 + number
    assert said.count("down\n") == 2
    assert "alone ran" not in said
