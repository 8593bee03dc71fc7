"""NCCL's output caught in a file, what the user asked for kept."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from clusterlab.bench.bringup.nccl_output import caught_output, expand, subsystems

HOST = socket.gethostname().partition(".")[0]


def as_nccl(environ: dict[str, str], text: str) -> None:
    """Write where NCCL would."""
    with Path(expand(environ["NCCL_DEBUG_FILE"])).open("a", encoding="utf-8") as file:
        file.write(text)


@pytest.mark.parametrize(
    ("wanted", "asked"),
    [
        (None, {"INIT", "BOOTSTRAP", "ENV"}),
        ("", {"INIT", "BOOTSTRAP", "ENV"}),
        ("COLL", {"COLL", "INIT", "BOOTSTRAP"}),
        ("init,TUNING", {"init", "TUNING", "BOOTSTRAP"}),
        ("ALL", {"ALL", "INIT", "BOOTSTRAP"}),
        ("^INIT,ENV", {"^ENV"}),
        ("^init", {"ALL"}),
        ("^COLL", {"^COLL"}),
    ],
)
def test_what_the_split_needs_is_added_to_what_the_user_wants(
    wanted: str | None, asked: set[str]
) -> None:
    assert set(subsystems(wanted).split(",")) == asked


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("/x/nccl.%h.%p", "/x/nccl.HOST.PID"),
        ("100%%", "100%"),
        ("%q%", "%q%"),
        ("plain", "plain"),
    ],
)
def test_file_names_are_expanded_as_nccl_does(pattern: str, path: str) -> None:
    assert expand(pattern) == path.replace("HOST", HOST).replace("PID", str(os.getpid()))


def test_a_log_nobody_asked_for_stays_off_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    environ: dict[str, str] = {}
    with caught_output(environ) as output:
        assert output() == ""
        assert environ["NCCL_DEBUG"] == "INFO"
        as_nccl(environ, "one\n")
        assert output() == "one\n"
        file = Path(environ["NCCL_DEBUG_FILE"])
    assert not file.exists()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("level", ["INFO", "WARN", "trace"])
def test_a_log_the_user_wanted_is_printed_in_the_end(
    level: str, capsys: pytest.CaptureFixture[str]
) -> None:
    environ = {"NCCL_DEBUG": level}
    with caught_output(environ):
        as_nccl(environ, "wanted\n")
    assert capsys.readouterr().err == "wanted\n"
    assert environ["NCCL_DEBUG"] == ("trace" if level == "trace" else "INFO")


def test_a_failure_shows_what_nccl_said(capsys: pytest.CaptureFixture[str]) -> None:
    environ: dict[str, str] = {}
    with pytest.raises(RuntimeError, match="NCCL error"), caught_output(environ):
        as_nccl(environ, "NCCL WARN why\n")
        raise RuntimeError("NCCL error")
    assert "NCCL WARN why" in capsys.readouterr().err


def test_a_file_of_the_users_own_is_read_and_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    environ = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": str(tmp_path / "nccl.%p")}
    with caught_output(environ) as output:
        assert output() == ""
        as_nccl(environ, "mine\n")
        assert output() == "mine\n"
    assert (tmp_path / f"nccl.{os.getpid()}").read_text() == "mine\n"
    assert capsys.readouterr().err == ""
