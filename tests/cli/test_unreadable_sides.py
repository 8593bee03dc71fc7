"""`compare` and `baseline check` of files that are no text, and of sides that cannot be compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterlab.cli.main import main
from tests.formats.measured.examples import devices, table

BINARY = {
    "random": bytes(range(128, 256)) * 40,
    "null": b"\x7fELF\x02\x01\x01\x00\x00" * 60,
    "late": b"collective,size_bytes,time_us\n" + b"x" * 9000 + b"\xff\xfe\xdb",
}


@pytest.mark.parametrize("content", BINARY)
@pytest.mark.parametrize(
    "words",
    [
        ("baseline", "check", "{good}", "{bad}"),
        ("baseline", "check", "{bad}", "{good}"),
        ("compare", "{good}", "{bad}"),
    ],
    ids=" ".join,
)
def test_what_is_no_text_is_said_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, words: tuple[str, ...]
) -> None:
    good, bad = tmp_path / "a.log", tmp_path / "bin.log"
    good.write_text(devices(1, 8) + table("all_reduce", 8))
    bad.write_bytes(BINARY[content])
    assert main([word.format(good=good, bad=bad) for word in words]) == 2
    err = capsys.readouterr().err
    assert "text" in err and str(bad) in err and "codec" not in err


def test_refused_sides_are_not_said_to_be_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever differs is said once, and not denied below."""
    eight, sixteen = tmp_path / "8.log", tmp_path / "16.log"
    eight.write_text(devices(1, 8) + table("all_reduce", 8))
    sixteen.write_text(devices(2, 8) + table("all_reduce", 16))
    assert main(["compare", str(eight), str(sixteen)]) == 3
    out = capsys.readouterr().out
    assert "other ranks" in out and "nothing that both say" not in out
