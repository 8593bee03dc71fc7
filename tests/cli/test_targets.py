"""Every option that names a file to write: what cannot become a file is refused before any work."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from clusterlab.cli.main import main
from clusterlab.core.errors import StorageError, UsageError
from clusterlab.records.files import write_atomic
from clusterlab.records.target import write_target
from tests.cli.test_main import PATHS, command_at
from tests.records.fake_runs import fake_rows, make_run, points

NAMES = {
    "--output", "--out", "--output_file", "--html", "--svg", "--parquet", "--trace", "--facts",
    "--nccl-tests-json", "--reframe", "--save-fabric", "--bundle",
}  # fmt: skip
FOLDERS = {
    "report -o",
    "export tensorboard -o",
    "export wandb -o",
    "doctor --bundle",
    "jobs render --out",
}
OPTIONS = [
    (*path, option.opts[0])
    for path in PATHS
    for option in command_at(path).params
    if NAMES & set(option.opts) and not getattr(option, "is_flag", False)
]


def bad_targets(folder: Path) -> dict[str, Path | str]:
    """Of every kind one; none of them can become a file, nor a folder."""
    plain, pipe, unix = folder / "plain", folder / "pipe", folder / "unix"
    plain.write_text("kept")
    os.mkfifo(pipe)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(unix))
    (folder / "loop").symlink_to("loop")
    (folder / "to_pipe").symlink_to(pipe)
    return {
        "device": "/dev/full",
        "tty": "/dev/ptmx",
        "pipe": pipe,
        "link to a pipe": folder / "to_pipe",
        "socket": unix,
        "a parent that is a file": plain / "below",
        "too long": folder / ("n" * 256),
        "much too long": "n" * 100_000,
        "undecodable": folder / "\udcff\udc1b",
        "a loop of links": folder / "loop",
    }


def test_there_are_such_options() -> None:
    assert len(OPTIONS) > 20
    assert {" ".join(one) for one in OPTIONS} >= FOLDERS


@pytest.mark.parametrize("option", OPTIONS, ids=" ".join)
def test_what_cannot_become_a_file_is_refused_by_its_option(
    option: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    bad = bad_targets(tmp_path)
    if " ".join(option) in FOLDERS:
        bad["a file"] = tmp_path / "plain"
    elif option[:2] == ("export", "prom"):
        bad["a folder"] = "nowhere/x.prom"  # a folder that is there is meant
    else:
        bad |= {"a folder": tmp_path, "dot": ".", "no folder": tmp_path / "no" / "x"}
    # What else the command needs is missing, or comes after: the option is looked at first.
    for kind, target in bad.items():
        before = os.lstat(target) if kind in ("device", "pipe", "socket", "tty") else None
        runs = ["no_such_run"] if option[:2] == ("export", "prom") else []
        assert main([*option, str(target), *runs]) == 2, kind
        said = capsys.readouterr().err
        if kind != "undecodable" and option[:2] != ("export", "prom"):
            assert said.startswith(f"clusterlab: {option[-1]} "), said[:300]
        assert said.count("\n") == 1 and len(said) < 1000, (kind, said[:300])
        if before is not None:
            assert stat.S_IFMT(os.lstat(target).st_mode) == stat.S_IFMT(before.st_mode)
    assert (tmp_path / "plain").read_text() == "kept"


def test_streams_are_written_through_and_links_kept(tmp_path: Path) -> None:
    kept, link = tmp_path / "kept", tmp_path / "link"
    kept.write_text("old")
    link.symlink_to("kept")
    write_target(link, b"new")
    assert link.is_symlink() and kept.read_bytes() == b"new"
    device = Path("/dev/null").stat().st_rdev
    write_target(Path("/dev/null"), b"new")
    assert Path("/dev/null").stat().st_rdev == device
    read, write = os.pipe()
    write_target(Path(f"/dev/fd/{write}"), b"through")
    os.close(write)
    assert os.read(read, 100) == b"through"
    os.close(read)
    write_target(tmp_path / ("n" * 255), b"a name as long as can be")
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("kind", ["pipe", "socket", "a parent that is a file", "device"])
def test_nothing_but_a_file_is_ever_replaced(tmp_path: Path, kind: str) -> None:
    target = Path(bad_targets(tmp_path)[kind])
    with pytest.raises(StorageError):
        write_atomic(target, b"new")
    with pytest.raises(UsageError):
        write_target(target, b"new")
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize("words", [["compare", "--html"], ["export zoom", "-o"]], ids=str)
def test_a_page_goes_to_stdout_by_its_name(tmp_path: Path, words: list[str], capfd: object) -> None:
    run = make_run(tmp_path, fake_rows(points(["all_gather"])))
    if words[0] == "export zoom":
        pytest.importorskip("plotly")
    sides = [str(run.path)] * (2 if words[0] == "compare" else 1)
    main([*words[0].split(), *sides, words[1], "/dev/stdout"])
    assert "<html" in capfd.readouterr().out.lower()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "words",
    [
        "report RUN --no-html --nccl-tests-json",
        "report RUN --csv -o",
        "report RUN -o",
        "compare RUN RUN --html",
    ],
)
def test_a_name_that_was_typed_acts_on_no_terminal(
    tmp_path: Path, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path, fake_rows(points(["all_gather"], sizes=[1024])))
    target = tmp_path / "\x1b[2J\u202e.x"
    main([*words.replace("RUN", str(run.path)).split(), str(target)])
    said = capsys.readouterr()
    assert target.exists() and "\\x1b[2J" in said.out + said.err
    assert "\x1b" not in said.out + said.err and "\u202e" not in said.out + said.err
