"""``clusterlab exec``: its words, what --print shows, what it imports."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from clusterlab.cli.exec import OPTIONS, help_text, parse
from clusterlab.cli.main import main
from tests.conftest import CLI, clean_environment

RANK = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}


def run(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CLI, "exec", *words], env=clean_environment(**environ), capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip


def test_options_end_at_two_dashes_or_at_the_command() -> None:
    assert parse(["--tag", "none", "-v", "--", "-x", "--bind"]).command == ("-x", "--bind")
    options = parse(["--bind=gpu,nic", "app", "--tag", "both"])
    assert options.command == ("app", "--tag", "both")
    assert (options.wanted.bind, options.wanted.asked) == ({"gpu", "nic"}, True)
    assert parse(["--bind", "none", "app"]).wanted.bind == frozenset()


def test_without_bind_the_environment_says_what_is_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CLUSTERLAB_NICS", "CLUSTERLAB_CPU_BIND"):
        monkeypatch.delenv(name, raising=False)
    assert parse(["app"]).wanted == (frozenset({"cpu"}), False)
    monkeypatch.setenv("CLUSTERLAB_NICS", "mlx5_0")
    monkeypatch.setenv("CLUSTERLAB_CPU_BIND", "none")
    assert parse(["app"]).wanted == (frozenset({"nic"}), False)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "exec: no command"),
        (["--bind"], "--bind: no value"),
        (["--bind", "gpu,ncis", "app"], "unknown word 'ncis'"),
        (["--bind=", "app"], "--bind: unknown word ''"),
        (["--tag", "bth", "app"], "did you mean 'both'"),
        (["--bnid", "gpu", "app"], "did you mean '--bind'"),
        (["--verbose=1", "app"], "unknown option '--verbose=1'"),
        (["--json", "app"], "--json without --print"),
    ],
)
def test_words_that_make_no_sense_are_one_message(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["exec", *words]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_the_help_names_every_option() -> None:
    assert all(spelling in help_text() for spelling, _ in OPTIONS)


def test_print_shows_what_would_be_set_and_starts_nothing() -> None:
    done = run("--print", "--", "sh", "-c", "echo started", OMP_NUM_THREADS="", **RANK)
    assert (done.returncode, done.stderr) == (0, "")
    assert "started" not in done.stdout
    assert "export OMP_NUM_THREADS=" in done.stdout
    assert "# rank: 5 of 8, local rank 1 of 4 on" in done.stdout


def test_print_as_json_names_the_rank_and_why() -> None:
    done = run(
        "--bind", "gpu,cpu,nic", "--print", "--json", CUDA_VISIBLE_DEVICES="GPU-8a7b3c1d", **RANK
    )
    found = json.loads(done.stdout)
    assert (found["rank"], found["world_size"], found["local_rank"]) == (5, 8, 1)
    assert "CUDA_VISIBLE_DEVICES" not in found["set"]
    assert set(found["reasons"]) >= {"rank", "gpu", "cpu", "nic"}


def test_what_is_set_reaches_the_command_and_what_was_set_stays() -> None:
    script = "echo $OMP_NUM_THREADS $CLUSTERLAB_LOG_TAG"
    done = run("--tag=none", "--", "sh", "-c", script, OMP_NUM_THREADS="5", **RANK)
    assert done.stdout.startswith("5 rank 5 ")


def test_what_was_asked_for_and_cannot_be_done_is_said() -> None:
    done = run("--bind", "nic", "--", "true", CLUSTERLAB_NICS="mlx5_0", **RANK)
    assert done.returncode == 2
    assert "names 1 NICs, local rank 1 has none" in done.stderr
    mask = {"CUDA_VISIBLE_DEVICES": "0,1", **RANK}
    refused = run("--bind", "gpu", "--", "echo", "started", **mask)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "4 ranks on this node, 2 visible GPUs" in refused.stderr


def test_launchers_that_contradict_each_other_bind_nothing() -> None:
    both = {**RANK, "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0",
            "OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}  # fmt: skip
    asked = run("--bind", "cpu", "--", "echo", "started", **both)
    assert (asked.returncode, asked.stdout) == (2, "")
    assert "contradicts" in asked.stderr
    tagged = run("--", "echo", "started", **both)
    assert tagged.returncode == 0
    assert tagged.stdout.startswith("[rank ? ")
    assert "not bound: nothing is bound" in tagged.stderr


def test_nothing_that_a_rank_would_wait_for_is_imported() -> None:
    heavy = (
        "typer",
        "pathlib",
        "socket",
        "subprocess",
        "yaml",
        "pynvml",
        "json",
        "numpy",
        "asyncio",
    )
    code = (
        "import sys; before = set(sys.modules); from clusterlab.cli.main import main\n"
        "assert main(['exec', '--bind', 'gpu,cpu,nic', '--print']) == 0\n"
        f"print([m for m in {heavy!r} if m in sys.modules and m not in before], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr.strip() == "[]"
