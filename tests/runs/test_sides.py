"""What the two sides of a comparison are read from."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.runs.comparing.sides import read_side
from clusterlab.runs.words import percentage, words_of
from tests.formats.measured.examples import SIZES, devices, inspector, table
from tests.records.fake_runs import make_run
from tests.support import shared_dir
from tests.verdict.test_steady import steady_rows


def test_a_run_says_what_it_is(tmp_path: Path) -> None:
    rows = [
        replace(row, library_algorithm="ring" if row.size_bytes < 1 << 20 else "tree",
                library_protocol="ll", library_version="2.28.9")
        for row in steady_rows(32)
    ]  # fmt: skip
    run = make_run(tmp_path, rows, planned_points=40)
    side = read_side(str(run.path))
    assert (side.run_id, side.missing, side.layout, side.backend) == (
        run.info.run_id,
        8,
        "1 × 4",
        "gloo",
    )
    assert side.machine == ("node-a/cpu",) * 4 and side.gpus is None
    measured = side.facts["measured"]
    assert measured["library_version"] == "2.28.9"
    assert measured["choice.all_reduce eager float32"] == "ring/ll to 256 KiB, tree/ll to 16 MiB"
    assert side.facts["placement"]["cores"] == ["0-1"] * 4
    assert side.facts["fabric"]["sha256"] == "3f" * 32
    assert read_side(str(run.records_path)).run_id == run.info.run_id


def test_attempts_are_passes_over_the_same_points(tmp_path: Path) -> None:
    rows = steady_rows(32)
    again = [replace(row, time_us_p50=row.time_us_p50 * 1.01, attempt=2) for row in rows[:10]]
    side = read_side(str(make_run(tmp_path, [*rows, *again], planned_points=32).path))
    assert len(side.points) == 32 and len(side.passes) == 10 and not side.problems
    assert sum(point.attempt == 2 for point in side.points) == 10


def test_tables_of_one_file_are_passes_too(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(devices(1, 8) + table("all_reduce", 8) + devices(1, 8) + table("all_reduce", 8))
    side = read_side(str(log))
    assert len(side.points) == 2 * len(SIZES) and side.foreign and not side.problems
    assert {point.timing for point in side.points} == {"direct"}
    assert side.missing is None


def test_single_ranks_times_are_no_collective_s(tmp_path: Path) -> None:
    (tmp_path / "i.log").write_text(json.dumps(inspector()) + "\n")
    with pytest.raises(UsageError, match="single ranks"):
        read_side(str(tmp_path / "i.log"))


def test_measured_files_of_two_h200() -> None:
    folder = shared_dir() / "measured" / "h200x2"
    graph = read_side(str(folder / "nccl_tests_all_reduce_cudagraph.txt"))
    assert {p.timing for p in graph.points} == {"graph"} and graph.gpus == ("NVIDIA H200",)
    loop = read_side(str(folder / "nccl_tests_other_collectives.txt"))
    assert {p.timing for p in loop.points} == {"direct"}
    assert len({p.collective for p in loop.points}) >= 4


@pytest.mark.parametrize(("text", "share"), [("5%", 0.05), ("0.05", 0.05), (" 12.5% ", 0.125)])
def test_shares(text: str, share: float) -> None:
    assert percentage(text, where="x") == pytest.approx(share)


@pytest.mark.parametrize("text", ["", "%", "0", "0%", "-1%", "100%", "1", "5 per cent", "nan"])
def test_what_is_no_share(text: str) -> None:
    with pytest.raises(UsageError, match="--noise"):
        percentage(text, where="--noise")


def test_words() -> None:
    assert words_of("fabric, versions", ("fabric", "versions"), where="x") == {"fabric", "versions"}
    assert words_of("", ("fabric",), where="x") == frozenset()
    with pytest.raises(UsageError, match="did you mean 'fabric'"):
        words_of("fabrik", ("fabric",), where="x")
