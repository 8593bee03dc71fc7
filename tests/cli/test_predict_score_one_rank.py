"""``predict score`` of rows of one rank: they send nothing, so they are left out, and a note says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clusterlab.cli.main import main

Capture = pytest.CaptureFixture[str]

HEADER = (
    "system,gpu,n_nodes,gpus_per_node,intra_fabric,nccl_version,collective,dtype,in_place,n_ranks,"
    "size_bytes,time_us\n"
)


def rows(ranks: int, *, collective: str = "all_reduce") -> list[str]:
    return [
        f"a,H100-SXM,1,8,nvswitch3-900,2.27.3,{collective},float,0,{ranks},{1 << p},{10 + 2**p / 2e5}\n"
        for p in (10, 20, 30)
    ]


def score(capsys: Capture, path: Path, lines: list[str], *words: str) -> dict[str, Any]:
    path.write_text(HEADER + "".join(lines))
    assert main(["predict", "score", str(path), "--json", "--rows", *words]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("collective", ["all_reduce", "broadcast", "all_to_all", "send_recv"])
@pytest.mark.parametrize(
    "words", [(), ("--timing", "eager"), ("--fabric", "hgx-h100"), ("--one-latency",)]
)
def test_rows_of_one_rank_change_no_figure_of_the_others(
    capsys: Capture, tmp_path: Path, collective: str, words: tuple[str, ...]
) -> None:
    others = rows(8, collective=collective)
    alone = rows(1, collective=collective)
    without = score(capsys, tmp_path / "m.csv", others, *words)
    found = score(capsys, tmp_path / "m.csv", [*others, *alone, *alone], *words)
    assert all(row["n_ranks"] == 8 for row in found["rows"])
    for key in ("overall", "tables", "rows", "worst", "misses", "plateau"):
        assert found[key] == without[key], key
    said = "6 rows of one rank left out: nothing is sent, and a copy in memory is not predicted"
    assert [*found["notes"]].count(said) == 1
    assert not any("one rank" in note for note in without["notes"])


def test_rows_of_one_rank_alone_are_nothing_to_score(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text(HEADER + "".join(rows(1)))
    assert main(["predict", "score", str(path)]) == 2
    said = capsys.readouterr()
    assert not said.out
    why = "all rows are of one rank, which sends nothing; expected rows of at least 2 ranks"
    assert said.err == f"clusterlab: {path}: {why}\n"
