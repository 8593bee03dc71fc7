"""``clusterlab bench pairs``: what it plans, predicts, prints and writes, and how it goes on."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.core.patterns import PAIRS, PAIRS_ONE_BY_ONE
from clusterlab.core.placement import Placement, RankPlacement, local_placement
from clusterlab.core.rows import Point, Predicted
from clusterlab.records.run_dir import open_run
from clusterlab.records.samples import read_samples, samples_path
from clusterlab.runs.sweeping.bench import name_of, resolve
from clusterlab.runs.sweeping.plan import SweepConfig, SweepPlan, make_plan
from clusterlab.runs.sweeping.predicting import choose_model, pairs_note, predict_points
from clusterlab.runs.sweeping.request import BenchRequest
from tests.conftest import CLI, Bench

TYPED = BenchRequest(
    collective_text="pairs", begin=None, end=None, factor=None, step=None, iterations="5", warmup="1",
    check=True, op_text="sum", dtype_text="float", root=0, ranks=None, place="both", backend="gloo",
    fabric=None, deadline_s=60.0, name=None, as_json=False, strict_table=False, corrupt=None,
)  # fmt: skip


def plan(config: SweepConfig, world_size: int) -> SweepPlan:
    return make_plan(config, world_size, lambda *_: None)


def test_sizes_suit_the_backend_and_are_nccl_tests_when_typed() -> None:
    assert resolve(TYPED).sizes_bytes == (65536, 524288, 4194304)
    assert resolve(replace(TYPED, backend="nccl")).sizes_bytes == (64 << 20, 256 << 20)
    assert resolve(replace(TYPED, begin="1M")).sizes_bytes == (1 << 20,)
    assert resolve(replace(TYPED, begin="1K", end="4K")).sizes_bytes == (1024, 2048, 4096)
    assert resolve(replace(TYPED, end="256K", factor=2.0)).sizes_bytes == (65536, 131072, 262144)


def test_concurrent_or_one_by_one_are_the_same_points() -> None:
    at_once, alone = resolve(TYPED), resolve(replace(TYPED, one_by_one=True))
    assert (at_once.pattern, alone.pattern) == (PAIRS, PAIRS_ONE_BY_ONE)
    assert name_of(at_once) == name_of(alone) == "pairs"
    assert set(plan(at_once, 5).points) == set(plan(alone, 5).points)
    assert {len(step) for step in plan(at_once, 4).steps} == {2}
    assert {len(step) for step in plan(alone, 4).steps} == {1}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"place": "in"}, "--place"),
        ({"strict_table": True}, "--nccl-tests"),
        ({"per_iteration": True}, "-I"),
        ({"output_file": "p.json"}, "-J"),
        ({"collective_text": "all_reduce", "pattern": "halves", "output_file": "p.json"}, "-J"),
        ({"aggregated": 0}, "-m"),
        ({"aggregated": 2}, "-m: 2: gloo has no groups"),
        ({"median_within": 5.0}, "--within: 5; expected a share"),
        ({"budget_s": 0.0}, "--budget: 0; expected seconds above 0"),
        ({"corrupt": "1:17", "check": False}, "--corrupt: nothing would see it with -c 0"),
        ({"iterations": "0"}, "-n"),
        ({"collective_text": "all_reduce", "one_by_one": True}, "--one-by-one"),
        ({"collective_text": "all_reduce,pairs"}, "unknown collective 'pairs'"),
    ],
)
def test_what_is_not_there_is_refused_by_its_option(
    changes: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        resolve(replace(TYPED, **changes))  # type: ignore[arg-type]


def test_one_rank_has_no_pair() -> None:
    with pytest.raises(UsageError, match="at least 2"):
        plan(resolve(TYPED), 1)


def predictions(fabric: str, placement: Placement, backend: str) -> dict[Point, Predicted]:
    points = plan(resolve(replace(TYPED, backend=backend)), placement.world_size).points
    return predict_points(points, choose_model(placement, backend, fabric, None))


def test_a_pair_across_nodes_is_predicted_slower_than_one_within() -> None:
    ranks = [
        RankPlacement(rank=r, host=f"n{r // 8}", local_rank=r % 8, gpu=f"g{r}") for r in range(16)
    ]
    found = predictions("dgx-h100-2node", Placement(tuple(ranks)), "nccl")
    assert len(found) == 120 * (1 + 3 * 2)
    for name in ("ping_pong", "send", "send_recv"):
        of_size = {p.ranks: v.time_us for p, v in found.items()
                   if p.collective == name and p.size_bytes in (8, 256 << 20)}  # fmt: skip
        assert of_size[0, 9] >= of_size[0, 1]
        assert name == "ping_pong" or of_size[0, 9] > 2 * of_size[0, 1]
    assert all(v.time_us >= v.bound_time_us for v in found.values())


def test_pairs_without_a_figure_are_not_predicted_and_said() -> None:
    here = local_placement(4, "here")
    assert predictions("host", here, "gloo") == {}
    model, points = choose_model(here, "gloo", "host", None), plan(resolve(TYPED), 4).points
    assert "12 pairs of ranks (each way counted) not predicted" in str(
        pairs_note(points, {}, model)
    )
    # The simulated nodes are links with figures, what is inside one is memory without.
    nodes = Placement(tuple(RankPlacement(r, f"n{r // 2}", r % 2) for r in range(4)))
    found = predictions("lab-2x4", nodes, "gloo")
    assert {p.ranks for p in found} == {
        (a, b) for a, b in permutations(range(4), 2) if (a < 2) != (b < 2)
    }
    lab = choose_model(nodes, "gloo", "lab-2x4", None)
    assert "lab-2x4 has no bandwidth between them" in str(pairs_note(points, found, lab))


@pytest.mark.ranks
def test_all_pairs_of_four_ranks_are_shown_kept_and_resumed(bench: Bench) -> None:
    done = bench("pairs", "-g", "4", "-b", "4K", "-e", "64K", "-f", "16", "-n", "3", "-w", "1")
    assert done.returncode == 0, done.stderr
    assert "slowest pair" in done.stdout
    assert "* the slowest pair" in done.stdout
    run = open_run(bench.run_dir())
    rows = run.records().rows
    assert len(rows) == run.info.planned_points == 6 * (1 + 2 * 3)
    assert len({r.point for r in rows}) == len(rows)
    assert all(r.wrong == 0 and r.predicted_time_us is None for r in rows)
    assert "Heat map" in run.report_path.read_text()
    samples = read_samples(samples_path(run.samples_path, 1)).points
    assert {s.point for s in samples} == {r.point for r in rows if 1 in (r.ranks or ())}
    assert run.info.configuration["pattern"] == PAIRS
    kept = run.records_path.read_bytes().splitlines(keepends=True)
    run.records_path.write_bytes(b"".join(kept[:-7]))
    again = subprocess.run(
        [*CLI, "resume", str(run.path), "--json"], env=bench.environment, capture_output=True,
        text=True, check=False, timeout=120,
    )  # fmt: skip
    assert again.returncode == 0, again.stderr
    new = [json.loads(line) for line in again.stdout.splitlines()]
    assert len(new) == 8, "the step that was cut through is measured whole"
    assert {r.point for r in run.records().rows} == {r.point for r in rows}


@pytest.mark.ranks
def test_the_first_corrupted_pair_is_the_last(bench: Bench) -> None:
    done = bench("pairs", "-g", "2", "-b", "4K", "-n", "2", "-w", "0", "--one-by-one",
                 "--corrupt", "0:1", "--json")  # fmt: skip
    assert done.returncode == 1
    assert "wrong data: ping_pong float32 8 B rank 0 ↔ 1: 1 wrong elements" in done.stderr
    assert "the first on rank 0 at index 1: expected " in done.stderr
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.ranks
def test_a_corrupted_pair_is_exit_code_1_and_named(bench: Bench) -> None:
    done = bench("pairs", "-g", "2", "-b", "4K", "-n", "2", "-w", "0", "--one-by-one",
                 "--corrupt", "1:1", "--keep-going", "--json")  # fmt: skip
    assert done.returncode == 1
    assert "wrong data: send float32 4096 B rank 0 → 1: 1 wrong elements" in done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(r["collective"], r["ranks"], r["wrong"]) for r in rows] == [
        ("ping_pong", [0, 1], 1),
        ("send", [0, 1], 1),
        ("send", [1, 0], 0),
        ("send_recv", [0, 1], 1),
    ]


@pytest.mark.ranks
def test_pairs_run_under_torchrun(bench: Bench, tmp_path: Path) -> None:
    torchrun = [CLI[0], "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*torchrun, "-m", "clusterlab", "bench", "pairs", "-b", "4K", "-n", "2", "-w", "0"],
        env=bench.environment | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
        check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(open_run(bench.run_dir()).records().rows) == 4
