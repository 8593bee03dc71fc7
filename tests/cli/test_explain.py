"""``clusterlab explain``: each strategy's table and drawing, its JSON, a step elsewhere, what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from clusterlab.cli.main import main
from clusterlab.runs.training.setup import STRATEGIES, TrainTyped, setup_of
from clusterlab.trainers.plans.compose import plan_of
from clusterlab.trainers.plans.plan import counted

Capture = pytest.CaptureFixture[str]
ELSEWHERE = ["--what-if", "hgx-h100", "-g", "8"]


def answer(capsys: Capture, *words: str) -> dict[str, Any]:
    assert main(["explain", *words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("where", [[], ELSEWHERE])
def test_the_table_has_every_byte_of_the_plan(capsys: Capture, name: str, where: list[str]) -> None:
    found = answer(capsys, name, *where)
    setup = setup_of(TrainTyped(name), 8 if where or name == "3d" else 4, "nccl")
    planned = counted(plan_of(setup, found["rank"]).calls)
    keys = ("op", "axis", "ranks", "size_bytes", "dtype", "phase")
    told = {
        tuple(tuple(c[k]) if k == "ranks" else c[k] for k in keys): 0 for c in found["calls"]
    }  # fmt: skip
    for call in found["calls"]:
        told[tuple(tuple(call[k]) if k == "ranks" else call[k] for k in keys)] += call["count"]
    assert told == dict(planned)
    assert main(["explain", name, *where]) == 0
    said = capsys.readouterr().out
    for op in {key[0] for key in planned}:
        assert f" {op} " in said
    assert ("predicted step on hgx-h100" in said) == bool(where)
    assert all(len(line) < 240 for line in said.splitlines())


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_predicted_step_has_its_parts(capsys: Capture, name: str) -> None:
    found = answer(capsys, name, *ELSEWHERE)["predicted"]
    parts = [found[f"{part}_us"] for part in ("forward", "backward", "optimizer", "bubble")]
    assert found["step_us"] == pytest.approx(sum(parts) + sum(found["exposed_us"].values()))
    assert found["compute"]["name"] == "H100-SXM5-80GB"
    assert found["fabric"] == "hgx-h100"


def test_torch_is_not_needed() -> None:
    script = "import sys; from clusterlab.cli.main import main; main(sys.argv[1:]);"
    script += "sys.exit('torch' in sys.modules)"
    words = [sys.executable, "-c", script, "explain", "3d", *ELSEWHERE]
    assert subprocess.run(words, check=False, capture_output=True).returncode == 0


def test_a_rank_may_be_chosen(capsys: Capture) -> None:
    """The last stage of a pipeline sends no x on."""
    last = answer(capsys, "pp", "--pp", "4", "--rank", "3")
    assert ("send", "forward") not in {(c["op"], c["phase"]) for c in last["calls"]}


def test_rates_may_be_typed(capsys: Capture) -> None:
    slow, fast = (
        answer(capsys, "tp", *ELSEWHERE, "--compute", text)["predicted"]["forward_us"]
        for text in ("0.001,1", "0.01,10")
    )
    assert slow > 5 * fast


def test_a_pipelines_drawing_has_every_action(capsys: Capture) -> None:
    main(["explain", "pp", "--pp", "3", "--micro-batches", "3", "--layers", "3", "--batch", "3"])
    drawn = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  rank ")]
    assert len(drawn) == 3
    for line in drawn:
        assert all(f"{kind}{m}" in line for kind in "FB" for m in range(3))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["zp"], "unknown strategy 'zp'"),
        (["tp", "--tp", "3", "--heads", "4"], "no multiple of tp 3"),
        (["tp", "--tp", "3", "-g", "4"], "4 ranks for a mesh of tp 3"),
        (["pp", "--pp", "4", "--micro-batches", "2", "--batch", "8"], "2 micro-batches for 4"),
        (["ep", "--experts", "2", "-g", "4"], "2 experts on ep 4 ranks"),
        (["dp", "-g", "0"], "--ranks"),
        (["dp", "--rank", "4"], "0 to 3"),
        (["dp", "--rank", "0", *ELSEWHERE], "--rank"),
        (["dp", "--compute", "1,1"], "--what-if FABRIC"),
        (["dp", "--what-if", "hgx-h10"], "hgx-h100"),
        (["dp", "--what-if", "host"], "clusterlab train"),
        (["dp", "--what-if", "hgx-h100", "-g", "16"], "at most its 8 GPUs"),
        (["dp", "--what-if", "hgx-h100", "--backend", "gloo"], "gloo on hgx-h100"),
        (["dp", "--what-if", "lab-2x4"], "--compute"),
        (["dp", *ELSEWHERE, "--compute", "H1000"], "unknown GPU"),
        (["dp", *ELSEWHERE, "-x", "PATH=1"], "-x"),
        (["dp", "--bucket", "x"], "--bucket"),
    ],
)
def test_what_does_not_fit_is_one_line(capsys: Capture, words: list[str], message: str) -> None:
    assert main(["explain", *words]) == 2
    said = capsys.readouterr()
    assert message in said.err
    assert len(said.err.strip().splitlines()) == 1
    assert said.out == ""
