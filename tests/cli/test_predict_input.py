"""``clusterlab predict``: what was typed and cannot be meant is one line that says what could be."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterlab.cli.main import main
from clusterlab.core.shipped import shipped

Capture = pytest.CaptureFixture[str]


def refused(capsys: Capture, *words: str) -> str:
    assert main(list(words)) == 2
    said = capsys.readouterr()
    assert not said.out
    assert said.err.count("\n") == 1 and said.err.startswith("clusterlab: ")
    return said.err


HGX = ("predict", "--fabric", "hgx-h100", "-b", "1M")


@pytest.mark.parametrize("ranks", [(), ("--ranks", "8"), ("--ranks", "9"), ("--ranks", "1")])
@pytest.mark.parametrize("each", ["9", "99"])
def test_more_ranks_on_a_host_than_it_has_gpus(
    capsys: Capture, each: str, ranks: tuple[str, ...]
) -> None:
    assert "at most 8, the GPUs of n0" in refused(capsys, *HGX, "--ranks-per-node", each, *ranks)


@pytest.mark.parametrize(
    "text", ["2.30.3; ls", "2.30.3\n2.27.5", "NCCL version 2.30.3", "", "2.3x"]
)
def test_a_version_with_more_than_a_version_in_it(capsys: Capture, text: str) -> None:
    said = refused(capsys, *HGX, "--nccl-version", text)
    assert said == f"clusterlab: --nccl-version: {text!r}; expected a version, as 2.27.5\n"


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("NCCL_BUFFSIZE=abc", "NCCL_BUFFSIZE: 'abc'; expected a whole number; NCCL would take 0"),
        ("NCCL_BUFFSIZE=4M", "NCCL_BUFFSIZE: '4M'; expected a whole number; NCCL would take 4"),
        ("NCCL_IB_GID_INDEX=3,1", "NCCL_IB_GID_INDEX: '3,1'; expected a whole number"),
        ("NCCL_MAX_NCHANNELS=1_6", "NCCL_MAX_NCHANNELS: '1_6'; expected a whole number"),
        ("NCCL_DEBUG=INFOS", "NCCL_DEBUG: 'INFOS'; expected one of VERSION, WARN, INFO"),
        ("RCCL_MSCCL_ENABLE=on", "RCCL_MSCCL_ENABLE: 'on'; expected a whole number"),
    ],
)
def test_a_value_of_no_effect_is_checked_all_the_same(
    capsys: Capture, word: str, said: str
) -> None:
    assert said in refused(capsys, *HGX, "-x", word)


LABS = [path.stem for path in sorted(shipped("topologies").glob("lab-*.yaml"))]
NO_GPUS = """
name: no-gpus
description: two hosts of cores and a NIC
links:
  eth: {class: ethernet, GBps: 1, GBps_source: made up}
hosts:
  count: 2
  devices:
    - {name: "cpu{i}", kind: cpu, count: 1, numa: index}
    - {name: "nic{i}", kind: nic, count: 1, numa: index}
  links:
    - {from: cpu0, to: nic0, type: eth}
"""


@pytest.mark.parametrize("fabric", [*LABS, "no-gpus"])
@pytest.mark.parametrize("more", [(), ("-x", "NCCL_ALGO=ring"), ("--ranks", "2"), ("--tuning",)])
def test_nccl_where_no_gpus_are(
    capsys: Capture, tmp_path: Path, fabric: str, more: tuple[str, ...]
) -> None:
    path = tmp_path / "no-gpus.yaml"
    path.write_text(NO_GPUS)
    named = str(path) if fabric == "no-gpus" else fabric
    why = "the fabric has no GPUs" if fabric == "no-gpus" else "pretended GPUs, on which no NCCL"
    said = refused(capsys, "predict", "--fabric", named, "--backend", "nccl", "-b", "1M", *more)
    assert said.startswith(f"clusterlab: --backend nccl on {fabric}: ") and why in said
    assert said.endswith("expected auto or gloo\n")


@pytest.mark.parametrize("fabric", LABS)
def test_place_knows_too_that_no_nccl_runs_on_a_lab(capsys: Capture, fabric: str) -> None:
    words = ("place", fabric, "--nodes", "n[0-1]", "--pattern", "dp", "--backend", "nccl")
    assert "pretended GPUs" in refused(capsys, *words)
