"""``clusterlab p2p`` as typed: what it refuses in one line, and what it does with a machine's answers."""

from __future__ import annotations

import json

import pytest

from clusterlab.bench.p2p.plan import CopyStep
from clusterlab.cli.main import main
from clusterlab.core.p2p import Way, Wrong
from clusterlab.launch.gpus import visible_gpus
from tests.bench.p2p.fakes import FakeMachine, access, gpus

Capture = pytest.CaptureFixture[str]
FAST = ("p2p", "--no-nccl", "--fabric", "h200-2", "-b", "1M", "-e", "16M")


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    """A host with two made-up GPUs; everything above the machine is real."""
    machine = FakeMachine()
    here = "clusterlab.runs.probing.p2p."
    monkeypatch.setattr(here + "count_gpus", lambda: 2)
    monkeypatch.setattr(here + "visible_gpus", lambda: gpus(2))
    monkeypatch.setattr(here + "access_table", lambda *_: access(2))
    monkeypatch.setattr(here + "_cuda_machine", lambda _plan, _options: machine)
    monkeypatch.setattr("torch.cuda.mem_get_info", lambda _gpu: (100 << 30, 141 << 30))
    return machine


def test_without_a_gpu_it_is_one_line_and_exit_code_2(capsys: Capture) -> None:
    if visible_gpus():
        pytest.skip("this machine has a GPU")
    assert main(["p2p"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.startswith("clusterlab: p2p: no GPU; expected at least one")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--sms", "0"], "--sms: '0'"),
        (["--sms", "1,,2"], "--sms: ''"),
        (["--sms", "٣"], "--sms: '٣'"),
        (["--access", "3"], "--access: '3'"),
        (["--access", "16,32"], "--access: '32'"),
        (["--kernel-size", "100"], "--kernel-size: 100 bytes"),
        (["--kernel-size", "0"], "--kernel-size: 0 bytes"),
        (["-e", "huge"], "-e: not a size: 'huge'"),
        (["-b", "2M", "-e", "1M"], "no sizes from -b 2M to -e 1M"),
        (["-f", "1"], "-f: a factor of 1"),
        (["--pairs", "0-2"], "--pairs: no pair of GPUs: '0-2'"),
        (["--fabric", "nowhere"], "unknown fabric 'nowhere'"),
        (["--fabric", "h200-1"], "fabric h200-1: 2 visible GPUs"),
        (["-e", "64G"], "-e: two buffers of 64 GiB"),
        (["--kernel-size", "64G"], "--kernel-size: two buffers of 64 GiB"),
    ],
)
def test_bad_words_are_one_line_that_names_the_option(
    two_gpus: FakeMachine, capsys: Capture, words: list[str], said: str
) -> None:
    assert main([*FAST, *words]) == 2
    err = capsys.readouterr().err.splitlines()
    assert len(err) == 1
    assert said in err[0]
    assert two_gpus.done == []


def test_tables_go_to_stdout_and_progress_to_stderr(two_gpus: FakeMachine, capsys: Capture) -> None:
    assert main([*FAST, "--no-kernel"]) == 0
    said = capsys.readouterr()
    assert "Copies between GPUs" in said.out
    assert "GPU 0 ↔ GPU 1" in said.out
    steps = len(two_gpus.done)
    assert said.err.splitlines()[-1].startswith(f"[{steps}/{steps}] copy ")
    assert len(said.err.splitlines()) <= 11


def test_json_is_one_document(two_gpus: FakeMachine, capsys: Capture) -> None:
    assert main([*FAST, "--json", "--sms", "3,1000", "--access", "16"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["fabric"] == "h200-2"
    assert {row["programs"] for row in data["kernel"]} <= {3, 132}
    assert [gpu["index"] for gpu in data["gpus"]] == [0, 1]


def test_wrong_data_is_exit_code_1(two_gpus: FakeMachine, capsys: Capture) -> None:
    two_gpus.wrong[CopyStep(Way(0, 1), 4 << 20)] = Wrong(1, 9, 3, 4)
    assert main([*FAST, "--no-kernel"]) == 1
    assert "P2P_COPY_WRONG" in capsys.readouterr().out
