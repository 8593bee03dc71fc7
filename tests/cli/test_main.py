from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from clusterlab import __version__
from clusterlab.cli.app import app
from clusterlab.cli.main import main

HEAVY = ("torch", "pandas", "networkx", "scipy", "numpy", "submitit", "jinja2", "pynvml")


def commands(command: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every path of words that names a command."""
    yield path
    for name, sub in getattr(command, "commands", {}).items():
        yield from commands(sub, (*path, name))


TREE = typer.main.get_command(app)
PATHS = list(commands(TREE))


def command_at(path: tuple[str, ...]) -> Any:
    found: Any = TREE
    for word in path:
        found = found.commands[word]
    return found


def bad_words() -> Iterator[tuple[str, ...]]:
    """For every command: an option that it does not have, nothing where something is required, words too
    many, an option without its value; for every number text, and less than the least.
    """
    for path in PATHS:
        if path[:1] == ("exec",):
            continue  # reads its words by itself
        found = command_at(path)
        if not found.context_settings.get("ignore_unknown_options"):
            yield (*path, "--no-such-option")
        if any(p.required for p in found.params):
            yield path
        if not any(p.nargs == -1 for p in found.params) and not hasattr(found, "commands"):
            yield (*path, *["no-such-word"] * 9)
        options = [p for p in found.params if p.param_type_name == "option" and not p.is_flag]
        for option in options:
            if option.type_descriptor.annotation in (int, float):
                yield (*path, option.opts[0], "many")
            if option.min is not None:
                yield (*path, option.opts[0], f"{option.min - 1}")
        yield from ((*path, option.opts[0]) for option in options[:1])


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_every_command_explains_itself_with_an_example(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*path, "--help"]) == 0
    text = capsys.readouterr().out
    assert "Usage: clusterlab" in text
    is_group = any(p[:-1] == path for p in PATHS if p)
    assert is_group or "Example" in text


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from clusterlab.cli.main import main\n"
        "assert main(['bench', '--help']) == 0\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr.strip() == "[]"


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.split() == ["clusterlab", __version__]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["bnech"], "bench"),
        (["bench"], "collective"),
        (["bench", "all_reduce", "--itres", "3"], "--iters"),
        (["bench", "all_reduce", "-n", "many"], "-n"),
        (["bench", "all_redcue"], "did you mean 'all_reduce'"),
        (["bench", "all_reduce", "-d", "flaot"], "did you mean 'float"),
        (["bench", "all_reduce", "-o", "summ"], "did you mean 'sum'"),
        (["bench", "all_reduce", "-b", "8Q"], "-b: not a size: '8Q'"),
        (["bench", "all_reduce", "-b", "8", "-e", "4"], "-b at most -e"),
        (["bench", "all_reduce", "-n", "0"], "-n: 0; expected at least 1"),
        (["bench", "broadcast", "-r", "9", "-g", "2"], "-r: root 9 of 2 ranks"),
        (["bench", "all_reduce", "--place", "up"], "out, in or both"),
        (["bench", "all_reduce", "--backend", "mpi"], "auto, gloo or nccl"),
        (["path", "topologeis"], "did you mean 'topologies'"),
    ],
)
def test_bad_usage_is_one_message_and_exit_code_2(
    argv: list[str], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    err = capfd.readouterr().err
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize("words", list(bad_words()), ids=" ".join)
def test_words_that_a_command_does_not_take_are_one_line(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    said = capsys.readouterr()
    assert not said.out
    assert said.err.startswith("clusterlab: ") and said.err.count("\n") == 1, said.err
    assert "see `clusterlab" in said.err


def test_a_line_about_words_names_the_command_and_what_is_wrong(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["topo", "show"]) == 2
    said = capsys.readouterr().err
    assert re.fullmatch(
        r"clusterlab: topo show: missing argument '.*'; see `clusterlab topo show -h`\n", said
    )
    for words in (["bench", "all_reduce", "-I"], ["topo", "show", "--hosts"], ["lab", "up", "-n"]):
        assert main(words) == 2  # an option without its value, or none of the command's
        named = " ".join(w for w in words[:2] if w != "all_reduce")
        assert f"see `clusterlab {named} -h`" in capsys.readouterr().err
    assert main(["bnech\nbench"]) == 2
    assert capsys.readouterr().err.startswith("clusterlab: no such command 'bnech")


def test_a_group_alone_says_what_it_has(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topo"]) == 2
    assert "Commands:" in capsys.readouterr().err
