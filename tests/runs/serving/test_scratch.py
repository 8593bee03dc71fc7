"""What a killed server leaves in /tmp is removed by the next; what lives, or is none of ours, stays."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from clusterlab.runs.serving.scratch import remove_abandoned, scratch_folder

HOLD = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from clusterlab.runs.serving.scratch import scratch_folder
with scratch_folder() as pages:
    (pages / "page.html").write_text("x")
    print(pages.parent, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSEGV, None], ids=str)
def test_of_a_dead_server_nothing_stays(
    tmp_path: Path, how: signal.Signals | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    others = ["clusterlab-serve-file", "clusterlab-serve-other", "mine"]
    (tmp_path / others[0]).write_text("kept")
    for name in others[1:]:
        (tmp_path / name).mkdir()
    (tmp_path / "clusterlab-serve-link").symlink_to("mine")
    (tmp_path / "mine" / "held").write_text("")
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True,
    ) as server:  # fmt: skip
        assert server.stdout is not None and server.stdin is not None
        folder = Path(server.stdout.readline().strip())
        remove_abandoned(tmp_path)
        assert (folder / "pages" / "page.html").exists()
        if how is None:
            server.stdin.close()
        else:
            server.send_signal(how)
        server.wait(30)
    assert folder.exists() is (how is not None)
    with scratch_folder() as pages:
        assert pages.is_dir() and not folder.exists()
        left = {path.name for path in tmp_path.iterdir()} - {pages.parent.name}
    assert left == {*others, "clusterlab-serve-link"}
