"""What files say is shown, not obeyed: escapes, marks that turn text around; and files that are none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clusterlab.cli.main import main
from clusterlab.cli.shown import shown
from tests.cli.test_unfit_rows import a_run, damaged

NAMES = ["\x1b[2J", "\x1b]0;title\x07", "a\x08b", "\u202eabc", "\u009b31m"]


@pytest.mark.parametrize("text", ["×1.2 → 3 µs, “plain” – ok", "two\nlines\tand", "", "多", "1 2"])
def test_what_can_be_seen_stays(text: str) -> None:
    assert shown(text) == text


@pytest.mark.parametrize("name", NAMES, ids=ascii)
@pytest.mark.parametrize("command", ["why", "compare", "baseline check", "runs reproduce"])
def test_names_in_rows_do_not_act_on_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, name: str
) -> None:
    first, second = a_run(tmp_path, 1), a_run(tmp_path, 2)
    damaged(second, lambda rows: [{**row, "op": name, "backend": name} for row in rows])
    words = [str(second)] if command == "why" else [str(first), str(second)]
    main([*command.split(), *words])
    out = capsys.readouterr().out
    assert out and not any(c in out for c in "\x1b\x07\x08\u202e\u009b")


@pytest.mark.parametrize("file", ["run.json", "records.jsonl", "placement.json"])
@pytest.mark.parametrize("what", ["pipe", "deep"])
def test_a_file_that_is_none_is_one_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, what: str
) -> None:
    first, second = a_run(tmp_path, 1), a_run(tmp_path, 2)
    path = second / file
    path.unlink()
    if what == "pipe":
        os.mkfifo(path)
    else:
        path.write_text("[" * 100_000)
    assert main(["compare", str(first), str(second)]) == 2
    err = capsys.readouterr().err
    assert file in err and "Traceback" not in err and err.count("\n") == 1
