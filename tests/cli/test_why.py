"""``clusterlab why``: what it prints and exits with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clusterlab.cli.main import main
from tests.runs.test_why import FINE, SLOW, csv_of
from tests.runs.why_runs import why_run
from tests.verdict.why.systems import points_of


@pytest.fixture
def both(tmp_path: Path) -> Path:
    return csv_of(tmp_path / "m.csv", {"slow": SLOW, "fine": FINE}, lambda _: ("", "", ""))


def test_json_has_the_promised_keys(both: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", str(both), "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    slow, fine = data["tables"]
    assert slow["table_id"] == "slow" and slow["verdict"] == "slow"
    assert fine["table_id"] == "fine" and fine["verdict"] == "pass"
    for one in slow["hypotheses"]:
        assert {"code", "score", "evidence", "check"} <= set(one)
        assert isinstance(one["score"], float) and "GB/s" in one["evidence"]
    assert slow["hypotheses"][0]["code"] == "P2P_DISABLED"


def test_people_get_causes_and_what_to_type(both: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", str(both), "--table", "slow", "--causes", "2"]) == 1
    out = capsys.readouterr().out
    assert "slow: slow (31 points)" in out and "1. P2P_DISABLED" in out and "check: " in out
    assert "  2. " in out and "  3. " not in out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--table", "fine"], 0, "fine: pass"),
        (["--table", "fien"], 2, "did you mean 'fine'"),
        (["--fabric", "no-such-design"], 2, "no-such-design"),
    ],
)
def test_exit_codes(
    words: list[str], code: int, said: str, both: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["why", str(both), *words]) == code
    out, err = capsys.readouterr()
    assert said in out + err and "Traceback" not in err


def test_no_verdict_is_three(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = csv_of(tmp_path / "m.csv", {"one": points_of("h100-8")[:1]}, lambda _: ("", "", ""))
    assert main(["why", str(path)]) == 3
    assert "one: no_verdict" in capsys.readouterr().out


def test_a_log_of_nccl_tests_needs_the_machines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        f"{p.size_bytes:>12} {p.size_bytes // 4:>12} float sum -1 {p.time_us:.2f} "
        f"{p.size_bytes / p.time_us / 1e3:.2f} {p.busbw_GBps:.2f} 0"
        for p in SLOW
    ]
    head = [
        "# nThread 1 nGpus 8 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20",
        "# Using devices",
        *(
            f"#  Rank {r:2d} Group 0 Pid 1 on node device {r} [0x0{r}] NVIDIA H100 80GB HBM3"
            for r in range(8)
        ),
        "#       size         count      type   redop    root     time   algbw   busbw #wrong",
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)",
    ]
    path = tmp_path / "run.log"
    path.write_text(
        "# Collective test starting: all_reduce_perf\n" + "\n".join([*head, *rows]) + "\n"
    )
    assert main(["why", str(path), "--fabric", "hgx-h100", "--json"]) == 1
    table = json.loads(capsys.readouterr().out)["tables"][0]
    assert table["verdict"] == "slow" and table["hypotheses"][0]["code"] == "P2P_DISABLED"


def test_a_run_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = why_run(tmp_path, {1 << k: 12 + (1 << k) / 27.7e3 for k in range(3, 32)})
    assert main(["why", str(path)]) == 1
    assert "all_reduce: slow" in capsys.readouterr().out
