"""Data parallelism beside the other kinds: what it sends, and that all together equal one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.trainers.config import DATA_PARALLEL
from clusterlab.trainers.plans import dp
from tests.trainers.ranks import assert_equal_to_reference, assert_ledger_is_plan, small, train

SIZES = {"ffn": 24, "vocab": 13, "bucket_bytes": 12000, "steps": 2}

MESHES: dict[str, dict[str, Any]] = {
    "tp": {"dp": 2, "tp": 2, "layers": 2},
    "tp and sp": {"dp": 2, "tp": 2, "split": "tp", "layers": 2, "micro_batches": 2},
    "ulysses": {"dp": 2, "tp": 2, "split": "ulysses", "layers": 2, "micro_batches": 2},
    "ep": {"dp": 4, "ep": 2, "experts": 4, "layers": 2, "micro_batches": 2},
    "ep of all": {"dp": 2, "ep": 2, "experts": 4, "layers": 2, "micro_batches": 2},
    "pp": {"dp": 2, "pp": 2, "micro_batches": 3},
    "tp and pp": {"dp": 2, "tp": 2, "pp": 2, "micro_batches": 2},
}
PIPELINES = [
    (kind, schedule, library)
    for kind in DATA_PARALLEL
    for schedule in ("gpipe", "1f1b", "interleaved", "zero_bubble")
    for library in (False, True)
    if (kind, schedule) not in (("zero2", "interleaved"), ("zero2", "zero_bubble"))
    and (kind, schedule) != ("fsdp", "zero_bubble")
    and not (library and kind == "fsdp")
]


@pytest.mark.ranks
@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("kind", DATA_PARALLEL)
def test_beside(tmp_path: Path, kind: str, mesh: str) -> None:
    setup = small(data_parallel=kind, **SIZES, **MESHES[mesh])
    done = train(setup, tmp_path)
    assert_equal_to_reference(done)
    assert_ledger_is_plan(done, dp.calls, axes=("dp", "edp"))


@pytest.mark.ranks
@pytest.mark.parametrize(("kind", "schedule", "library"), PIPELINES)
def test_in_a_pipeline_what_is_priced_as_hidden_goes_before_the_last_backward_ends(
    tmp_path: Path, kind: str, schedule: str, library: bool
) -> None:
    chunks = 2 if schedule == "interleaved" else 1
    setup = small(
        dp=2, pp=2, micro_batches=4, schedule=schedule, chunks=chunks, data_parallel=kind,
        library=library, **SIZES,
    )  # fmt: skip
    done = train(setup, tmp_path)
    assert_equal_to_reference(done)
    assert_ledger_is_plan(done, dp.calls, axes=("dp", "edp"))
    for rank, (spans, entries) in enumerate(zip(done.spans, done.entries, strict=True)):
        ended = max(s.end_us for s in spans if s.step == 1 and s.name.startswith("backward"))
        sent = [e for e in entries if e.step == 1 and e.axis == "dp" and e.phase == "backward"]
        planned = [c for c in dp.calls(setup, rank) if c.phase == "backward"]
        assert sent
        for call in planned:
            early = [
                e.start_us < ended
                for e in sent
                if (e.op, e.size_bytes) == (call.op, call.size_bytes)
            ]
            assert any(early) == call.hidden, f"{call.op} of {call.size_bytes} B on rank {rank}"


@pytest.mark.parametrize(
    ("kind", "schedule", "chunks"),
    [("zero2", "zero_bubble", 1), ("fsdp", "zero_bubble", 1), ("zero2", "interleaved", 2)],
)
def test_shares_that_a_schedule_does_not_let_go(kind: str, schedule: str, chunks: int) -> None:
    with pytest.raises(UsageError, match=rf"{kind} in a pipeline.*zero1"):
        small(dp=2, pp=2, micro_batches=4, data_parallel=kind, schedule=schedule, chunks=chunks)


@pytest.mark.ranks
@pytest.mark.parametrize("routing", ["hot_rank"])
@pytest.mark.parametrize("kind", DATA_PARALLEL)
def test_experts_without_tokens(tmp_path: Path, kind: str, routing: str) -> None:
    setup = small(
        dp=4, ep=2, experts=4, layers=2, micro_batches=2, routing=routing, data_parallel=kind,
        **SIZES,
    )  # fmt: skip
    done = train(setup, tmp_path)
    assert_equal_to_reference(done)
    assert_ledger_is_plan(done, dp.calls, axes=("dp", "edp"))
