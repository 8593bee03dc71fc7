import json
from pathlib import Path

import pytest

from clusterlab.cli.main import main


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["topo", "route", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_the_path_is_printed_hop_by_hop(capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = run(capsys, "dgx-h100-2node", "n0/gpu0", "n1/gpu5", "--policy", "pinned")
    assert code == 0
    assert text.splitlines()[0] == (
        "n0/gpu0 -> n1/gpu5: NET (PIX + NET + PIX, pinned routing), 48 GB/s"
    )
    assert len(text.splitlines()) == 7


def test_json_holds_the_same_hops(capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = run(capsys, "dgx-h100-2node", "n0/gpu0", "n0/nic3", "--json")
    data = json.loads(text)
    assert (code, data["type"]) == (0, "PXN")
    assert data["hops"][-1]["dst"] == "n0/nic3"


def test_no_way_is_no_verdict(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    design = tmp_path / "apart.yaml"
    design.write_text("hosts: {count: 2, devices: [{name: gpu0, kind: gpu}]}\n")
    code, text, _ = run(capsys, str(design), "n0/gpu0", "n1/gpu0")
    assert (code, text) == (3, "n0/gpu0 -> n1/gpu0: DIS\n  no way: n0 has no NIC\n")


def test_an_unknown_policy_or_device_is_refused_with_the_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, _, error = run(capsys, "hgx-h100", "n0/gpu0", "n0/gpu1", "--policy", "adaptiv")
    assert code == 2
    assert "unknown routing policy 'adaptiv'; expected one of hash, adaptive, pinned" in error
    code, _, error = run(capsys, "hgx-h100", "n0/gpu0", "n0/gpu9")
    assert code == 2
    assert "no device 'n0/gpu9'" in error
