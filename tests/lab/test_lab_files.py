from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path

import pytest

from clusterlab.core.errors import ClusterlabError, UsageError
from clusterlab.lab import files


def test_a_tree_is_removed_and_a_missing_one_is_no_error(tmp_path: Path) -> None:
    tree = tmp_path / "a"
    (tree / "b").mkdir(parents=True)
    files.remove_tree(tree)
    files.remove_tree(tree)
    assert not tree.exists()


def test_a_tree_with_something_mounted_below_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path / "a b"
    (tree / "kept").mkdir(parents=True)
    point = str(tree / "kept")
    monkeypatch.setattr(files, "mounts_below", lambda folder: [point])
    with pytest.raises(ClusterlabError, match="umount"):
        files.remove_tree(tree)
    assert (tree / "kept").is_dir()


def test_mount_points_are_found_by_path_and_not_by_prefix() -> None:
    assert "/proc" in files.mounts_below(Path("/proc"))
    assert files.mounts_below(Path("/pro")) == []
    assert {"/", "/proc"} <= set(files.mounts_below(Path("/")))


def test_written_files_have_their_mode_whatever_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o077)
    try:
        files.write(tmp_path / "x", "text", mode=0o755)
        files.make_directory(tmp_path / "d", mode=0o1777)
    finally:
        os.umask(old)
    assert (tmp_path / "x").read_text() == "text"
    assert (tmp_path / "x").stat().st_mode & 0o7777 == 0o755
    assert (tmp_path / "d").stat().st_mode & 0o7777 == 0o1777
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def _hold(folder: Path, log: Path) -> None:
    with files.locked(folder):
        with log.open("a") as stream:
            stream.write("in\n")
        time.sleep(0.05)
        # Removing the folder under the lock must not let the next one in beside us.
        files.remove_tree(folder)
        with log.open("a") as stream:
            stream.write("out\n")


def test_one_at_a_time_holds_a_folder_even_if_it_is_removed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_hold, args=(tmp_path / "f", log)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
        assert worker.exitcode == 0
    assert log.read_text().split() == ["in", "out"] * 3


def test_a_folder_that_cannot_be_made_is_the_users_to_mend(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(UsageError, match=r"file/x: cannot be made: .*CLUSTERLAB_LABS"),
        files.locked(tmp_path / "file" / "x"),
    ):
        pytest.fail("it was made")
