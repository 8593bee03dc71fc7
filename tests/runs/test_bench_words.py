"""What is typed after ``bench`` for counts and timing modes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clusterlab.bench.spoiling import refuse_corrupt
from clusterlab.core.errors import UsageError
from clusterlab.runs.sweeping.bench import resolve, run_bench, timings
from clusterlab.runs.sweeping.plan import MAX_ITERATIONS, count_or_auto, make_plan
from clusterlab.runs.sweeping.request import BenchRequest


@pytest.mark.parametrize(
    ("text", "launches", "backend", "found"),
    [
        (None, 0, "gloo", ("eager",)),
        (None, 0, "nccl", ("eager",)),
        (None, 3, "nccl", ("graph",)),
        ("eager", 3, "nccl", ("eager",)),
        ("all", 0, "gloo", ("eager",)),
        ("all", 0, "nccl", ("eager", "graph", "direct")),
        ("Graph, direct,graph", 0, "nccl", ("graph", "direct")),
    ],
)
def test_modes_as_typed(
    text: str | None, launches: int, backend: str, found: tuple[str, ...]
) -> None:
    assert timings(text, launches, backend) == found


@pytest.mark.parametrize(
    ("text", "launches", "backend", "message"),
    [
        ("egar", 0, "nccl", "did you mean 'eager'"),
        ("graph", 0, "gloo", "--timing: graph: gloo has no CUDA graphs.*eager, or --backend nccl"),
        (None, 2, "gloo", "-G: graph: gloo has no"),
        (None, -1, "nccl", "-G: -1"),
        ("", 0, "nccl", "--timing"),
    ],
)
def test_modes_that_are_refused(
    text: str | None, launches: int, backend: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        timings(text, launches, backend)


def test_a_count_or_auto() -> None:
    assert (count_or_auto("20", "-n"), count_or_auto(" Auto", "-n")) == (20, None)
    with pytest.raises(UsageError, match="-n: 'many'; expected a whole number, or auto"):
        count_or_auto("many", "-n")


def typed(**changes: Any) -> BenchRequest:
    """``bench all_reduce -g 2 -b 8K`` over gloo with ``changes``."""
    defaults: dict[str, Any] = {
        "collective_text": "all_reduce", "begin": "8K", "end": None, "factor": None, "step": None,
        "iterations": "1", "warmup": "0", "check": True, "op_text": "sum", "dtype_text": "float",
        "root": 0, "ranks": 2, "place": "both", "backend": "gloo", "fabric": None,
        "deadline_s": 60.0, "name": None, "as_json": False, "strict_table": False, "corrupt": None,
    }  # fmt: skip
    return BenchRequest(**{**defaults, **changes})


@pytest.mark.parametrize("collective", ["all_reduce", "pairs"])
@pytest.mark.parametrize(("option", "field"), [("-n", "iterations"), ("-w", "warmup")])
@pytest.mark.parametrize("count", [MAX_ITERATIONS + 1, 10**12, 10**40, -1])
def test_counts_beyond_reason_are_refused_by_their_option(
    option: str, field: str, count: int, collective: str
) -> None:
    with pytest.raises(UsageError, match=f"{option}: {count}; expected at (most|least) "):
        resolve(typed(collective_text=collective, place="out", **{field: str(count)}))
    most = resolve(typed(collective_text=collective, place="out", **{field: str(MAX_ITERATIONS)}))
    assert getattr(most, field) == MAX_ITERATIONS


@pytest.mark.parametrize("collective", ["all_reduce", "pairs"])
@pytest.mark.parametrize("name", ["", " "])
def test_an_output_file_without_a_name_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, collective: str
) -> None:
    monkeypatch.setenv("CLUSTERLAB_RUNS", str(tmp_path / "runs"))
    with pytest.raises(UsageError, match=r"^-J: '.?'; expected the name of a file"):
        run_bench(typed(collective_text=collective, place="out", output_file=name))
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("blocking", [0, 1, 2])
def test_the_host_waits_in_both_ways_that_are_timed_alike(blocking: int) -> None:
    assert resolve(typed(blocking=blocking)).blocking is (blocking > 0)


@pytest.mark.parametrize(("blocking", "why"), [(3, "barrier after each call"), (4, ""), (-1, "")])
def test_other_ways_of_blocking_are_refused_with_a_reason(blocking: int, why: str) -> None:
    with pytest.raises(UsageError, match=f"-z: {blocking}.*{why}.*expected 0, 1 or 2"):
        resolve(typed(blocking=blocking))


@pytest.mark.parametrize(
    ("changes", "corrupt", "message"),
    [
        ({}, "7:1", "rank 7 of 2 ranks; expected RANK 0 to 1"),
        ({}, "2:0", "rank 2 of 2"),
        ({}, "1:100000", "element 100000.*INDEX 0 to 2047"),
        ({}, "1:2048", "INDEX 0 to 2047"),
        ({"end": "16K"}, "1:4096", "INDEX 0 to 4095"),
        ({"collective_text": "reduce_scatter"}, "0:1024", "INDEX 0 to 1023"),
        ({"collective_text": "broadcast", "ranks": 3}, "3:0", "rank 3 of 3"),
        ({"collective_text": "reduce"}, "1:0", "a rank that receives"),
        ({"collective_text": "pairs"}, "1:2048", "INDEX 0 to 2047"),
        ({"collective_text": "all_to_all", "place": "in"}, "0:0", "that is checked"),
    ],
)
def test_an_element_that_nobody_checks_is_refused_before_ranks_start(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    changes: dict[str, Any],
    corrupt: str,
    message: str,
) -> None:
    monkeypatch.setenv("CLUSTERLAB_RUNS", str(tmp_path / "runs"))
    with pytest.raises(UsageError, match=f"--corrupt: .*{message}"):
        run_bench(typed(corrupt=corrupt, **changes))
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("collective", "corrupt"),
    [
        ("all_reduce", (1, 2047)), ("all_gather", (0, 2047)), ("reduce", (0, 0)),
        ("reduce_scatter", (1, 1023)), ("all_to_all", (1, 2047)), ("scatter", (1, 1023)),
        ("broadcast", (1, 2047)),
    ],
)  # fmt: skip
def test_the_last_element_that_is_checked_may_be_spoilt(
    collective: str, corrupt: tuple[int, int]
) -> None:
    plan = make_plan(resolve(typed(collective_text=collective)), 2, lambda *_: None)
    refuse_corrupt(corrupt, plan.points, 2)
    with pytest.raises(UsageError):
        refuse_corrupt((corrupt[0], corrupt[1] + 2048), plan.points, 2)
