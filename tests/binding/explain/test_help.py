"""Every example of the help can be run as it stands, and fits a terminal."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from clusterlab.binding.explain.profile_files import profile_from_yaml
from clusterlab.cli import bind, bind_explain, doctor, exec
from clusterlab.cli.main import main


def examples(text: str) -> list[list[str]]:
    """The command lines of a help text, in words, without ``clusterlab``."""
    joined = text.replace("\\\n", " ")
    lines = re.findall(r"^  clusterlab (.*)$", joined, re.MULTILINE)
    return [shlex.split(line, comments=True) for line in lines]


@pytest.mark.parametrize("words", examples(bind_explain.EXAMPLE) + examples(bind._MASK_EXAMPLE))
def test_each_example_is_answered_and_none_is_refused_by_slurm(
    words: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")  # no Slurm here
    assert main(words) == 0
    out = capsys.readouterr().out
    assert out
    assert "rejected:" not in out
    assert '"rejected": "' not in out


def test_there_are_examples() -> None:
    assert len(examples(bind_explain.EXAMPLE)) == 3
    assert len(examples(bind._MASK_EXAMPLE)) == 2


@pytest.mark.parametrize("text", [bind_explain.EXAMPLE, bind._MASK_EXAMPLE, doctor._EXAMPLE])
def test_what_stands_on_lines_of_its_own_fits_80_columns(text: str) -> None:
    kept = [p for p in text.split("\n\n") if p.startswith("\b")]
    assert kept
    assert max(len(f"  {line}") for p in kept for line in p.splitlines()) <= 80


def test_the_help_of_exec_fits_80_columns() -> None:
    assert max(map(len, exec.help_text().splitlines())) <= 80


def test_the_profile_in_the_help_is_one() -> None:
    body = bind_explain.EXAMPLE.partition("in YAML:\n")[2].partition("\n\n")[0]
    content = "\n".join(line[2:] for line in body.splitlines())
    profile = profile_from_yaml(content, file="help")
    assert (profile.sockets, profile.cpus, len(profile.gpus)) == (2, 224, 8)


def test_the_profile_and_the_commands_in_the_documentation_work(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = (Path(__file__).parents[3] / "docs/binding.md").read_text()
    (content,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert profile_from_yaml(content, file="docs").cpus == 224
    joined = page.replace("\\\n", " ")
    lines = re.findall(r"^clusterlab (bind .*)$", joined, re.MULTILINE)
    assert len(lines) == 4
    for line in lines:
        assert main(shlex.split(line)) == 0
        assert "rejected:" not in capsys.readouterr().out
