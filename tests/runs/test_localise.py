"""From runs to what is at fault: pairs and groups together, on the command line, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clusterlab.cli.app import run as command
from clusterlab.cli.main import main
from clusterlab.core.dtypes import DTYPES
from clusterlab.core.errors import NoVerdictError, UsageError
from clusterlab.core.pairs import pair_steps, round_robin
from clusterlab.core.placement import Placement, RankPlacement
from clusterlab.core.rows import Row, make_point
from clusterlab.records.documents import write_placement
from clusterlab.records.run_dir import RunDir
from clusterlab.runs.hunting.localise import localise_runs
from clusterlab.topology.opening import open_fabric
from tests.cli.test_unfit_rows import damaged
from tests.records.fake_runs import fake_rows, make_run, points, renamed

FABRIC = "lab-8x1"


def placed(run: RunDir, hosts: int = 8, first: int = 0) -> RunDir:
    ranks = tuple(RankPlacement(r, f"n{r + first}", 0) for r in range(hosts))
    write_placement(run.path, Placement(ranks))
    return run


def pairs(root: Path, slow: set[int], *, first: int = 0, planned: bool = False) -> RunDir:
    steps = pair_steps(round_robin(8), [65536], ["float32"])
    rows = [
        renamed(r, algbw_GBps=0.0245 / (2 if slow & set(r.ranks or ()) else 1))
        for r in fake_rows([p for step in steps for p in step])
    ]
    return placed(
        make_run(root, rows, world_size=8, planned_points=len(rows) if planned else None),
        first=first,
    )


def groups(root: Path, slow: set[int]) -> RunDir:
    """Halves, quarters in two ways: a row each."""
    of = [(0, 1, 2, 3), (4, 5, 6, 7), (0, 2, 4, 6), (1, 3, 5, 7), (0, 1, 4, 5), (2, 3, 6, 7)]
    found: list[Row] = []
    for ranks in of:
        point = make_point("all_reduce", 1 << 20, DTYPES["float32"], 4, ranks=ranks)
        (row,) = fake_rows([point])
        found.append(renamed(row, busbw_GBps=0.02 / (2 if slow & set(ranks) else 1)))
    return placed(make_run(root, found, world_size=8))


def test_a_slow_rank_of_pairs_is_its_nic(tmp_path: Path) -> None:
    found = localise_runs([pairs(tmp_path, {5})], open_fabric(FABRIC))
    assert found is not None
    (fault,) = found.answer.faults
    assert fault.name == "n5/nic0 ↔ leaf2"
    assert found.ranks == (tuple(range(8)),)


def test_groups_alone_name_what_the_slow_ones_share(tmp_path: Path) -> None:
    found = localise_runs([groups(tmp_path, {6})], open_fabric(FABRIC))
    assert found is not None
    (fault,) = found.answer.faults
    assert "n6/nic0 ↔ leaf3" in fault.components


def test_runs_of_the_same_ranks_count_together(tmp_path: Path) -> None:
    runs = [pairs(tmp_path / "a", {1}), groups(tmp_path / "b", {1})]
    found = localise_runs(runs, open_fabric(FABRIC))
    assert found is not None
    assert [f.name for f in found.answer.faults] == ["n1/nic0 ↔ leaf0"]
    assert found.measured == 56 + 6


DAMAGES = {
    "rows missing": lambda rows: rows[::2],
    "no rate": lambda rows: [{**rows[0], "algbw_GBps": 0.0}, *rows[1:]],
    "no end of a rate": lambda rows: [{**rows[0], "algbw_GBps": "Infinity"}, *rows[1:]],
    "wrong data": lambda rows: [{**rows[0], "wrong": 3}, *rows[1:]],
    "twice, with other figures": lambda rows: [{**rows[0], "time_us_loop": 1e3}, *rows],
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("slow", [set(), {5}], ids=["whole", "slow"])
def test_nothing_named_among_unfit_rows_is_no_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], slow: set[int], damage: str
) -> None:
    run = pairs(tmp_path, slow, planned=True)
    words = ["localise", str(run.path), "--fabric", FABRIC]
    assert main(words) == (1 if slow else 0)
    damaged(run.path, DAMAGES[damage])
    capsys.readouterr()
    assert main([*words, "--json"]) == (1 if slow else 3)
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == ("named" if slow else "no_verdict") and found["problems"]
    assert main(words) == (1 if slow else 3)
    assert found["problems"][0] in capsys.readouterr().out


@pytest.mark.parametrize("ranks", [[0, 99], [-1, 0], [3, 3]])
def test_rows_of_ranks_that_the_run_had_not_are_refused(tmp_path: Path, ranks: list[int]) -> None:
    run = pairs(tmp_path, set())
    damaged(run.path, lambda rows: [{**rows[0], "ranks": ranks}, *rows[1:]])
    with pytest.raises(UsageError, match=r"different ranks below the 8|expected a list of ranks"):
        localise_runs([run])


def test_a_run_counts_once(tmp_path: Path) -> None:
    run = pairs(tmp_path, {5})
    with pytest.raises(NoVerdictError, match="given twice"):
        localise_runs([run, run], open_fabric(FABRIC))


def test_runs_of_other_ranks_are_refused(tmp_path: Path) -> None:
    runs = [pairs(tmp_path / "a", {1}), pairs(tmp_path / "b", {1}, first=1)]
    with pytest.raises(UsageError, match="not where those of the others are"):
        localise_runs(runs, open_fabric(FABRIC))


@pytest.mark.parametrize("slow", [set(), {3}], ids=["whole", "slow"])
def test_on_the_command_line(
    tmp_path: Path, slow: set[int], capsys: pytest.CaptureFixture[str]
) -> None:
    run = pairs(tmp_path, slow)
    code = command(["localise", str(run.path), "--fabric", FABRIC, "--json"])
    said = json.loads(capsys.readouterr().out)
    assert code == (1 if slow else 0)
    assert [f["name"] for f in said["faults"]] == (["n3/nic0 ↔ leaf1"] if slow else [])
    assert said["fabric"] == FABRIC
    command(["localise", str(run.path), "--fabric", FABRIC])
    text = capsys.readouterr().out
    assert ("SLOW_LINK: n3/nic0 ↔ leaf1" in text) == bool(slow)
    assert ("nothing named on lab-8x1: 56 messages" in text) == (not slow)


def test_nothing_to_compare_is_no_verdict(tmp_path: Path) -> None:
    run = placed(make_run(tmp_path, fake_rows(points()), world_size=8))
    with pytest.raises(NoVerdictError, match="nothing here can be compared"):
        command(["localise", str(run.path), "--fabric", FABRIC])
