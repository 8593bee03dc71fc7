"""Checkpoints that are damaged or cannot be written: one line, and the newest whole one counts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from clusterlab.cli.main import main
from clusterlab.records.lines import read_lines
from clusterlab.records.run_dir import open_run
from clusterlab.trainers.checkpoint import finished
from tests.conftest import LAUNCHERS

pytestmark = pytest.mark.ranks

TYPED = ["train", "tp", "-g", "2", "--layers", "1", "--steps", "4", "--checkpoint-every", "2"]

Damage = Callable[[Path], None]


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No launcher, and a folder of its own for runs."""
    for name in [n for n in os.environ if n.startswith(LAUNCHERS)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("CLUSTERLAB_RUNS", str(tmp_path / "runs"))
    import torch.distributed  # noqa: F401 - once, before the forks


def overwritten(checkpoint: Path) -> None:
    shard = next(checkpoint.glob("__1_*"))
    shard.write_bytes(b"\xff" * shard.stat().st_size)


def missing(checkpoint: Path) -> None:
    next(checkpoint.glob("__1_*")).unlink()


def truncated(checkpoint: Path) -> None:
    shard = next(checkpoint.glob("__0_*"))
    shard.write_bytes(shard.read_bytes()[:100])


def no_metadata(checkpoint: Path) -> None:
    (checkpoint / ".metadata").write_bytes(b"")


def other_metadata(checkpoint: Path) -> None:
    (checkpoint / ".metadata").write_bytes(b"\x80\x04no pickle\xff")


def one_bit(checkpoint: Path) -> None:
    """In the middle of a shard: its archive still reads well."""
    shard = next(checkpoint.glob("__1_*"))
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 0x10
    shard.write_bytes(content)


DAMAGES = (overwritten, missing, truncated, no_metadata, other_metadata, one_bit)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with checkpoints after two and four steps."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [n for n in os.environ if n.startswith(LAUNCHERS)]:
            patch.delenv(name)
        patch.setenv("CLUSTERLAB_RUNS", str(tmp_path_factory.mktemp("whole")))
        import torch.distributed  # noqa: F401 - once, before the forks

        assert main(TYPED) == 0
        (folder,) = Path(os.environ["CLUSTERLAB_RUNS"]).iterdir()
    assert finished(folder / "checkpoints") == [2, 4]
    return folder


def copy_of(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    monkeypatch.setenv("CLUSTERLAB_RUN_DIR", str(folder))
    return folder


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_gone_on_from(
    whole: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    damage: Damage,
) -> None:
    folder = copy_of(whole, tmp_path, monkeypatch)
    losses = [step.loss for step in read_lines(folder).steps]
    damage(folder / "checkpoints" / "step-00000004")
    assert main(TYPED) == 0
    said = capfd.readouterr().err
    assert "Traceback" not in said
    (line,) = [line for line in said.splitlines() if "cannot be loaded" in line]
    assert "step-00000004" in line
    assert "step-00000002" in line
    steps = read_lines(folder).steps
    assert [step.loss for step in steps] == losses
    assert [step.attempt for step in steps] == [1, 1, 2, 2]
    assert finished(folder / "checkpoints") == [2, 4]
    capfd.readouterr()
    # What was written in its place is whole.
    assert main(TYPED) == 0
    assert "cannot be loaded" not in capfd.readouterr().err


@pytest.mark.parametrize("damage", [missing, no_metadata], ids=lambda damage: damage.__name__)
def test_where_none_can_be_loaded_that_is_one_error(
    whole: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    damage: Damage,
) -> None:
    folder = copy_of(whole, tmp_path, monkeypatch)
    for number in (2, 4):
        damage(folder / "checkpoints" / f"step-{number:08d}")
    assert main(TYPED) == 2
    said = capfd.readouterr().err
    assert "Traceback" not in said
    (line,) = [line for line in said.splitlines() if "cannot be loaded" in line]
    assert "step-00000004" in line
    assert "step-00000002" in line
    assert finished(folder / "checkpoints") == [2, 4]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("file", ["__0_0.distcp", "__1_0.distcp", ".metadata.tmp"])
def test_a_full_disk_at_a_checkpoint_is_one_message(
    whole: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    file: str,
) -> None:
    folder = copy_of(whole, tmp_path, monkeypatch)
    last = folder / "checkpoints" / "step-00000004"
    shutil.rmtree(last)
    last.mkdir()
    (last / file).symlink_to("/dev/full")
    assert main(TYPED) == 1
    said = capfd.readouterr().err
    assert "Traceback" not in said
    assert said.count("No space left on device") == 1
    assert not last.exists()
    assert finished(folder / "checkpoints") == [2]
    assert open_run(folder).info.attempts[-1].exit_code == 1
