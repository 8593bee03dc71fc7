"""Whatever stands in place of a run's file is one UsageError that names the file: no wait, no traceback."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.records import index_files
from clusterlab.records.columns import DamagedError, read_table
from clusterlab.records.documents import read_fabric
from clusterlab.records.growing import Growing
from clusterlab.records.lease import ALIVE, sign_of_life
from clusterlab.records.ledgers import ledger_path, read_ledger
from clusterlab.records.lines import EXPERTS, OVERLAP, SOAK, STEPS
from clusterlab.records.run_dir import open_run
from clusterlab.records.samples import read_samples
from clusterlab.records.store import schema_problems
from clusterlab.records.trouble import read_trouble
from clusterlab.report.data import load
from clusterlab.runs.calibrating.calibration_rows import read_rows
from tests.records.fake_runs import fake_rows, make_run, points

LINE_FILES = ("records.jsonl", OVERLAP, SOAK, STEPS, EXPERTS)
DOCUMENTS = ("run.json", "placement.json", "fabric.yaml", "findings.json", "collectives.json")

DEEP = 100_000


def _fifo(file: Path) -> None:
    os.mkfifo(file)


def _endless(file: Path) -> None:
    file.symlink_to("/dev/zero")


def _device(file: Path) -> None:
    file.symlink_to("/dev/tty")


def _folder(file: Path) -> None:
    file.mkdir()


def _loop(file: Path) -> None:
    file.symlink_to(file.name)


def _unreadable(file: Path) -> None:
    file.write_bytes(b"{}")
    file.chmod(0)
    if os.access(file, os.R_OK):
        pytest.skip("this user may read anything")


def _content(content: bytes) -> Callable[[Path], None]:
    def write(file: Path) -> None:
        file.write_bytes(content)

    return write


NO_FILES = {
    "fifo": _fifo,
    "endless": _endless,
    "device": _device,
    "folder": _folder,
    "loop": _loop,
    "mode 000": _unreadable,
}
NO_CONTENTS = {
    "digits": _content(b'{"schema_version": 1, "design": ' + b"9" * 6000 + b"}\n"),
    "latin-1": _content(b'{"schema_version": 1, "design": "\xe9"}\n'),
}
DEEP_CONTENT = {"deep": _content(b"[" * DEEP + b"]" * DEEP + b"\n")}


@pytest.fixture(autouse=True)
def _no_wait() -> Iterator[None]:
    """A reader that waits for a writer fails here, not at the end of the suite."""

    def late(_signal: int, _frame: object) -> None:
        raise TimeoutError("still reading")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("what", [*NO_FILES, *NO_CONTENTS, *DEEP_CONTENT])
@pytest.mark.parametrize("name", [*DOCUMENTS, *LINE_FILES])
def test_what_is_no_file_of_ours_is_refused_by_its_name(
    tmp_path: Path, name: str, what: str
) -> None:
    if name in LINE_FILES and what in {"latin-1", *DEEP_CONTENT}:
        pytest.skip("a line that is no JSON may be half-written")
    run = make_run(tmp_path, fake_rows(points(["all_reduce"]))).path
    (run / name).unlink(missing_ok=True)
    (NO_FILES | NO_CONTENTS | DEEP_CONTENT)[what](run / name)
    with pytest.raises(UsageError) as refused:
        load(open_run(run))
    assert name in str(refused.value)
    assert len(str(refused.value)) < 600


BOMB = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (BOMB, "fabric.yaml:1: anchors and aliases"),
        ("design: &x y\nsha256: *x\n", "fabric.yaml:1: anchors and aliases"),
        ("[" * 40, "fabric.yaml:1: nested too deeply"),
        ("{a: " * 5000, "nested too deeply"),
        ("design: " + "x" * (2 << 20), "fabric.yaml: too large"),
        ("design: " + "9" * 6000, "fabric.yaml: not a value"),
        ("design: 2026-99-99", "fabric.yaml: not a value"),
        ("? [a, b]\n: c", "not YAML"),
        ("design: !!python/object/apply:os.getcwd []", "not YAML"),
        ("design: \x07", "not YAML"),
        ("a: 1\n---\nb: 2\n", "not YAML"),
    ],
)
def test_a_small_document_cannot_grow(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "fabric.yaml").write_text(content)
    with pytest.raises(UsageError, match=said) as refused:
        read_fabric(tmp_path)
    assert len(str(refused.value)) < 600


@pytest.mark.parametrize("what", NO_FILES)
def test_files_beside_a_report_are_read_as_carefully(tmp_path: Path, what: str) -> None:
    damage = NO_FILES[what]

    def at(path: Path) -> Path:
        path.parent.mkdir(exist_ok=True)
        damage(path)
        return path

    for read in (
        lambda: read_samples(at(tmp_path / "rank-00000.jsonl.gz")),
        lambda: list(read_ledger(at(ledger_path(tmp_path, 0)).parent.parent, 0)),
        lambda: read_trouble(at(tmp_path / "trouble.json").parent),
    ):
        with pytest.raises(UsageError):
            read()
    folder = at(tmp_path / index_files.LIST).parent
    known, why = index_files.read_list(folder, {})
    assert known is None
    assert why is not None
    with pytest.raises(DamagedError):
        read_table(at(tmp_path / "rows-0.npz"), {}, [])
    sign = sign_of_life(at(tmp_path / ALIVE).parent)
    assert sign is None or sign.lives is None
    schema_problems(tmp_path / "rank-00000.jsonl.gz")
    try:
        assert Growing(tmp_path / ALIVE).lines() in ([], [b"{}"])
    except UsageError as error:
        assert ALIVE in str(error)


@pytest.mark.parametrize("name", ["records.jsonl", "run.json", "placement.json"])
def test_a_run_that_is_calibrated_from_is_read_as_carefully(tmp_path: Path, name: str) -> None:
    run = make_run(tmp_path, fake_rows(points(["all_reduce"]))).path
    (run / name).unlink()
    os.mkfifo(run / name)
    with pytest.raises(UsageError, match="no regular file"):
        read_rows([run], None)
