"""The index over many runs: several writers, damage, and folders that nobody can write."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from clusterlab.records import index as index_module
from clusterlab.records import index_files, index_scan
from clusterlab.records.columns import NUMBER, TEXT, WHOLE, DamagedError, table_of
from clusterlab.records.index import Batch, Index, answered, refresh
from clusterlab.records.index_files import LIST, Entry, read_list
from clusterlab.records.index_scan import SHORT, settled, stamp_of

KINDS = {"word": TEXT, "count": WHOLE, "figure": NUMBER}


class Reader:
    """Runs whose rows are the words of their records.jsonl; ``read`` are those that were looked at."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def __call__(self, root: Path, names: Sequence[str]) -> Iterator[Batch]:
        for name in names:
            self.read.append(name)
            stamp = stamp_of(f"{root}/{name}", short=False)
            if stamp is None:
                continue
            words = (root / name / "records.jsonl").read_text().split()
            table = table_of(
                KINDS,
                {"word": words, "count": range(len(words)), "figure": [0.5] * len(words)},
            )
            said = {"name": name, "ended_utc": "then"}
            yield Batch(
                [(name, Entry(stamp[:SHORT], settled(stamp), said, rows=len(words)))], table
            )


@pytest.fixture(autouse=True)
def _settles_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_scan, "SETTLES_S", 0.0)


def _run(root: Path, name: str, words: str) -> None:
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text("{}")
    (folder / "records.jsonl").write_text(words)
    time.sleep(0.002)


def _words(index: Index) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {name: [] for name in index.runs.entries}
    for table, runs in index.runs.tables().items():
        columns = index.columns(table, ["word"])
        for code, run in zip(
            columns.arrays["word"].tolist(), index.run_of_rows(table, runs).tolist(), strict=True
        ):
            if run >= 0:
                found[runs[run]].append(str(columns.texts["word"][code]))
    return found


def _asked(root: Path, reader: Reader, **options: object) -> dict[str, list[str]]:
    def refreshed(distrusted: frozenset[str]) -> Index:
        return refresh(
            root,
            root / ".index",
            KINDS,
            reader,
            distrusted=distrusted,
            **options,  # type: ignore[arg-type]
        )

    words, _ = answered(refreshed, _words)
    return words  # type: ignore[no-any-return]


def test_only_new_and_changed_runs_are_read(tmp_path: Path) -> None:
    for name in "abc":
        _run(tmp_path, name, f"{name}1 {name}2")
    reader = Reader()
    right = {name: [f"{name}1", f"{name}2"] for name in "abc"}
    assert _asked(tmp_path, reader) == right
    assert _asked(tmp_path, reader) == right
    assert reader.read == ["a", "b", "c"]
    _run(tmp_path, "b", "b3")
    _run(tmp_path, "d", "")
    (tmp_path / "a" / "run.json").unlink()
    assert _asked(tmp_path, reader) == {"b": ["b3"], "c": right["c"], "d": []}
    assert reader.read == ["a", "b", "c", "b", "d"]
    assert _asked(tmp_path, reader, rebuild=True) == {"b": ["b3"], "c": right["c"], "d": []}
    assert reader.read[5:] == ["b", "c", "d"]


def test_a_run_that_was_just_written_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_scan, "SETTLES_S", 60.0)
    _run(tmp_path, "a", "old")
    reader = Reader()
    _asked(tmp_path, reader)
    file = tmp_path / "a" / "records.jsonl"
    before = file.stat()
    file.write_text("new")  # of one size, and within one tick of a coarse clock
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert _asked(tmp_path, reader) == {"a": ["new"]}


@pytest.mark.parametrize("victim", [LIST, "table"])
@pytest.mark.parametrize(
    "harm",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-30]),
        lambda path: path.write_bytes(path.read_bytes().replace(b"a1", b"a9")),
        lambda path: path.write_bytes(b'{"clusterlab_index": 99}\n{}\n'),
        lambda path: path.write_bytes(b"[]\n"),
    ],
)
def test_a_torn_or_foreign_index_is_made_again(tmp_path: Path, victim: str, harm: object) -> None:
    _run(tmp_path, "a", "a1 a2")
    _run(tmp_path, "b", "b1")
    right = {"a": ["a1", "a2"], "b": ["b1"]}
    reader = Reader()
    assert _asked(tmp_path, reader) == right
    folder = tmp_path / ".index"
    path = folder / LIST if victim == LIST else next(folder.glob("rows-*.npz"))
    harm(path)  # type: ignore[operator]
    assert _asked(tmp_path, reader) == right
    assert _asked(tmp_path, Reader()) == right


@pytest.mark.parametrize("field", ["sizes", "stamps", "tables", "starts", "rows", "names"])
def test_a_list_that_contradicts_itself_is_made_again(tmp_path: Path, field: str) -> None:
    """A checksum says that nothing was changed since; not that who wrote it was right."""
    import json
    import zlib

    _run(tmp_path, "a", "a1 a2")
    _asked(tmp_path, Reader())
    path = tmp_path / ".index" / LIST
    head, body = path.read_bytes().split(b"\n", 1)
    data = json.loads(body)
    data[field] = {"../../x.npz": 3} if field == "sizes" else data[field] and [7]
    body = json.dumps(data).encode()
    head = json.dumps({**json.loads(head), "crc32": zlib.crc32(body)}).encode()
    path.write_bytes(head + b"\n" + body + b"\n")
    assert _asked(tmp_path, Reader()) == {"a": ["a1", "a2"]}


def test_two_writers_at_once_lose_nothing_for_long(tmp_path: Path) -> None:
    _run(tmp_path, "a", "a1")
    _asked(tmp_path, Reader())

    class Overtaken(Reader):
        """While it reads b, another host reads b and c, and publishes both."""

        def __call__(self, root: Path, names: Sequence[str]) -> Iterator[Batch]:
            yield from super().__call__(root, names)
            _run(tmp_path, "c", "c1")
            assert _asked(tmp_path, Reader()) == {"a": ["a1"], "b": ["b1"], "c": ["c1"]}

    _run(tmp_path, "b", "b1")
    slow = _asked(tmp_path, Overtaken())
    assert slow["b"] == ["b1"]
    reader = Reader()
    assert _asked(tmp_path, reader) == {"a": ["a1"], "b": ["b1"], "c": ["c1"]}
    assert reader.read == []  # the slow writer took over what the other had added


def test_a_reader_whose_tables_were_removed_meanwhile_reads_the_new_list(tmp_path: Path) -> None:
    _run(tmp_path, "a", "a1")
    _asked(tmp_path, Reader())
    old = refresh(tmp_path, tmp_path / ".index", KINDS, Reader())
    for table in (tmp_path / ".index").glob("rows-*.npz"):
        table.unlink()
    with pytest.raises(DamagedError):
        _words(old)
    assert _asked(tmp_path, Reader()) == {"a": ["a1"]}


def test_many_small_tables_are_joined_and_removed_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ".index"
    for i in range(index_module.MOST_SMALL + 2):
        _run(tmp_path, f"run{i:02}", f"w{i}")
        _asked(tmp_path, Reader())
    runs, _ = read_list(folder, KINDS)
    assert runs is not None
    assert len(runs.tables()) <= 2
    assert len(list(folder.glob("rows-*.npz"))) > index_module.MOST_SMALL  # somebody may read them
    monkeypatch.setattr(index_files, "KEPT_S", -1.0)
    _run(tmp_path, "run99", "last")
    reader = Reader()
    words = _asked(tmp_path, reader)
    assert reader.read == ["run99"]
    assert words["run03"] == ["w3"]
    assert len(list(folder.glob("rows-*.npz"))) <= 3
    assert words == _asked(tmp_path, Reader(), rebuild=True)


def test_a_table_of_which_little_is_needed_is_written_anew(tmp_path: Path) -> None:
    for name in "abcd":
        _run(tmp_path, name, f"{name} " * 10)
    _asked(tmp_path, Reader())
    for name in "abc":
        (tmp_path / name / "run.json").unlink()
    _run(tmp_path, "e", "e")
    reader = Reader()
    assert _asked(tmp_path, reader) == {"d": ["d"] * 10, "e": ["e"]}
    assert reader.read == ["e"]
    runs, _ = read_list(tmp_path / ".index", KINDS)
    assert runs is not None
    assert sum(runs.sizes.values()) == 11


def test_what_no_list_names_is_removed_after_a_day(tmp_path: Path) -> None:
    _run(tmp_path, "a", "a1")
    _asked(tmp_path, Reader())
    lost, fresh = (tmp_path / ".index" / f"rows-{c * 16}.npz" for c in "01")
    for file in (lost, fresh):
        file.write_bytes(b"")
    os.utime(lost, (0, 0))
    _run(tmp_path, "b", "b1")
    _asked(tmp_path, Reader())
    assert not lost.exists()
    assert fresh.exists()


def test_without_a_place_for_an_index_everything_is_done_in_memory(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    _run(root, "a", "a1")
    (root / ".index").write_text("a file where the folder should be")  # root may write anywhere
    reader = Reader()
    index = refresh(root, root / ".index", KINDS, reader)
    assert _words(index) == {"a": ["a1"]}
    assert any("no index is kept" in note and "--index" in note for note in index.notes)
    assert _asked(root, reader) == {"a": ["a1"]}
    assert reader.read == ["a", "a"]


def _keep_asking(root: Path, times: int) -> None:
    for _ in range(times):
        for name, words in _asked(root, Reader()).items():
            assert words == [name] * 3


def test_processes_that_read_and_write_at_once_agree_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on several hosts of one file system: nothing is locked, and everything ends up in the index."""
    monkeypatch.setattr(index_files, "KEPT_S", 0.2)  # tables vanish while others may read them
    monkeypatch.setattr(index_module, "MOST_SMALL", 3)
    monkeypatch.setattr(os, "fsync", lambda _fd: None)
    context = multiprocessing.get_context("fork")
    others = [context.Process(target=_keep_asking, args=(tmp_path, 12)) for _ in range(3)]
    for other in others:
        other.start()
    for i in range(40):
        name = f"run{i:02}"
        folder = tmp_path / f".{name}"
        _run(tmp_path, folder.name, f"{name} " * 3)
        folder.rename(tmp_path / name)
    for other in others:
        other.join()
        assert other.exitcode == 0
    right = {f"run{i:02}": [f"run{i:02}"] * 3 for i in range(40)}
    assert _asked(tmp_path, Reader()) == right
    reader = Reader()
    assert _asked(tmp_path, reader) == right
    assert reader.read == []
