"""Data parallelism of every kind equals one process; its ledger is its plan."""

from __future__ import annotations

from pathlib import Path

import pytest

# What torch's own parts import at their first use: here once, not in every forked rank.
import torch._dynamo  # noqa: F401

from clusterlab.trainers.config import DATA_PARALLEL
from clusterlab.trainers.plans import dp
from clusterlab.trainers.plans.buckets import buckets
from clusterlab.trainers.strategies.library import ddp, fsdp2  # noqa: F401
from clusterlab.trainers.weights import weights_of
from tests.trainers.ranks import assert_equal_to_reference, assert_ledger_is_plan, small, train
from tests.trainers.witness import assert_nothing_escaped, watching

pytestmark = pytest.mark.ranks

SIZES = {"layers": 2, "ffn": 31, "vocab": 13, "bucket_bytes": 12000}
"""Several buckets with borders within a block, and padding for 2, 4 and 8 ranks."""

EVERYTHING = [
    (kind, ranks, micro_batches, overlap)
    for kind in DATA_PARALLEL
    for ranks in (2, 4, 8)
    for micro_batches in (1, 3)
    for overlap in ((True, False) if ranks == 4 else (True,))
]


@pytest.mark.parametrize(("kind", "ranks", "micro_batches", "overlap"), EVERYTHING)
def test_every_kind_equals_one_process_and_makes_its_plan(
    tmp_path: Path, kind: str, ranks: int, micro_batches: int, overlap: bool
) -> None:
    setup = small(
        dp=ranks, micro_batches=micro_batches, data_parallel=kind, overlap=overlap, **SIZES
    )
    done = train(setup, tmp_path)
    assert_equal_to_reference(done)
    assert_ledger_is_plan(done, dp.calls)


@pytest.mark.parametrize("experts", [0, 4])
@pytest.mark.parametrize("micro_batches", [1, 3])
@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_torchs_own_equals_one_process_and_makes_its_plan(
    tmp_path: Path, kind: str, micro_batches: int, experts: int
) -> None:
    setup = small(
        dp=4,
        micro_batches=micro_batches,
        data_parallel=kind,
        experts=experts,
        library=True,
        **SIZES,
    )
    done = train(setup, tmp_path, spoil=watching(tmp_path, 1))
    assert_equal_to_reference(done)
    assert_ledger_is_plan(done, dp.calls, first_step=1)
    assert_nothing_escaped(done, tmp_path, 1)
    if kind == "ddp":
        (bucket,) = (key for key in done.calls(0, 0) if key[5] == "backward")
        assert bucket[3] == sum(
            call.size_bytes for call in dp.calls(setup, 0) if call.phase == "backward"
        )
    else:
        assert done.calls(0, 0) == done.calls(0, 1)


def test_sizes_have_several_buckets_and_padding() -> None:
    for ranks in (2, 4, 8):
        setup = small(dp=ranks, **SIZES)
        planned = buckets(setup, weights_of(setup.model, setup.mesh))
        assert len(planned) > 2
        assert any(bucket.padded(ranks) != bucket.total for bucket in planned)


@pytest.mark.parametrize("kind", ["ddp", "zero1"])
@pytest.mark.parametrize("overlap", [True, False])
def test_with_overlap_buckets_go_while_backward_is_under_way(
    tmp_path: Path, kind: str, overlap: bool
) -> None:
    done = train(small(dp=2, steps=1, data_parallel=kind, overlap=overlap, **SIZES), tmp_path)
    for spans, entries in zip(done.spans, done.entries, strict=True):
        (backward,) = (span for span in spans if span.name == "backward")
        sent = [entry for entry in entries if entry.phase in ("backward", "reduce")]
        within = [backward.start_us < entry.start_us < backward.end_us for entry in sent]
        assert len(sent) > 2
        assert within == [overlap] * len(sent)
