"""From a run over pairs to the findings about its slow links: on its fabric, as the file says, or by host."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from clusterlab.core.pairs import pair_steps, round_robin
from clusterlab.core.placement import Placement, RankPlacement
from clusterlab.core.rows import Row
from clusterlab.records.documents import FabricReference, write_fabric, write_placement
from clusterlab.records.run_dir import RunDir
from clusterlab.runs.sweeping.slow_links import slow_link_findings
from clusterlab.topology.opening import open_fabric
from tests.records.fake_runs import fake_rows, make_run, points, renamed

N = 8


def slowed_host(rows: list[Row], rank: int) -> list[Row]:
    """All figures alike, but those of ``rank``'s pairs at a half."""
    return [renamed(r, algbw_GBps=0.0245 / (2 if r.ranks and rank in r.ranks else 1)) for r in rows]


def run_of(root: Path, fabric: str | None, *, per_host: int = 1, stale: bool = False) -> RunDir:
    steps = pair_steps(round_robin(N), [4096, 65536], ["float32"])
    rows = slowed_host(fake_rows([p for step in steps for p in step]), 3)
    run = make_run(root, rows, world_size=N)
    ranks = tuple(RankPlacement(r, f"n{r // per_host}", r % per_host) for r in range(N))
    write_placement(run.path, Placement(ranks))
    if fabric is not None:
        found = open_fabric(fabric)
        digest = "0" * 64 if stale else str(found.digest)
        write_fabric(run.path, FabricReference(found.origin or fabric, digest))
        typed = {**run.info.configuration, "fabric": fabric}
        run = RunDir(run.path, replace(run.info, configuration=typed))
    return run


def test_on_the_fabric_of_the_run_the_cable_is_named(tmp_path: Path) -> None:
    (found,) = slow_link_findings(run_of(tmp_path, "lab-8x1"))
    assert found.code == "SLOW_LINK"
    assert found.links == ("n3/nic0->leaf1",)
    assert found.evidence == (
        "n3/nic0 ↔ leaf1: 14 of the 14 messages that cross it are slow: 0.0123 GB/s where others "
        "get 0.0245",
        "nothing that was measured tells it from host n3, rank 3 (n3/gpu0)",
    )
    assert set(found.ranks) == set(range(N))


def test_a_file_that_says_so_itself_is_quoted(tmp_path: Path) -> None:
    design = tmp_path / "mine.yaml"
    design.write_text("base: lab-8x1\nbroken: ['n3/nic0:half']\n")
    (found,) = slow_link_findings(run_of(tmp_path / "runs", str(design)))
    assert found.links == ("n3/nic0->leaf1",)
    assert "lab-8x1 says 50% of it is left" in found.evidence


@pytest.mark.parametrize("fabric", [None, "stale", "lab-flat-4x2"])
def test_without_its_fabric_the_host_is_named(tmp_path: Path, fabric: str | None) -> None:
    """None named, one whose file has changed since, one that is too small for the ranks."""
    name = "lab-8x1" if fabric == "stale" else fabric
    (found,) = slow_link_findings(run_of(tmp_path, name, stale=fabric == "stale"))
    assert found.evidence[0].startswith("n3 ↔ network: 14 of the 14 messages that cross it")


def test_a_rank_among_others_of_its_host_is_named_not_the_host(tmp_path: Path) -> None:
    (found,) = slow_link_findings(run_of(tmp_path, None, per_host=2))
    assert found.evidence[0].startswith("rank 3 ↔ n1: ")


def test_nothing_is_said_of_one_host_or_of_no_pairs(tmp_path: Path) -> None:
    assert slow_link_findings(run_of(tmp_path / "a", None, per_host=N)) == ()
    whole = make_run(tmp_path / "b", fake_rows(points()), world_size=4)
    assert slow_link_findings(whole) == ()
