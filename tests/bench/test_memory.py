"""Sizes beyond memory are refused by arithmetic, before anything is allocated."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.bench.memory import (
    USABLE_SHARE,
    bytes_per_rank,
    cgroup_free_bytes,
    host_free_bytes,
    oversize_error,
)
from clusterlab.core.collectives import SWEPT
from clusterlab.core.dtypes import DTYPES
from clusterlab.core.rows import make_point

GiB = 1 << 30
F32 = DTYPES["float32"]


def test_all_local_ranks_buffers_count_together():
    points = [make_point("all_reduce", s, F32, 8) for s in (GiB, 2 * GiB)]
    assert oversize_error(points[:1], "nccl", 8, 20 * GiB, "memory") is None
    error = oversize_error(points, "nccl", 8, 20 * GiB, "memory")
    assert error is not None
    text = str(error)
    assert "all_reduce of 2 GiB needs 4 GiB on each of 8 ranks" in text
    assert "20 GiB of memory is free" in text
    assert "1 GiB is the largest that fits" in text


def test_in_place_needs_half_of_out_of_place():
    out, inside = (make_point("all_reduce", GiB, F32, 4, in_place=p) for p in (False, True))
    assert bytes_per_rank(out, "nccl") == 2 * GiB
    assert bytes_per_rank(inside, "nccl") == GiB


def test_gloo_needs_one_block_more_for_its_copy():
    point = make_point("reduce_scatter", GiB, F32, 4)
    assert bytes_per_rank(point, "gloo") - bytes_per_rank(point, "nccl") == GiB


@given(
    st.sampled_from(list(SWEPT)),
    st.integers(1 << 20, 1 << 40),
    st.integers(1, 16),
    st.integers(1 << 24, 1 << 40),
    st.booleans(),
)
def test_the_limit_that_the_error_names_does_fit(name, size, ranks, free, in_place):
    point = make_point(name, size, F32, ranks, in_place=in_place)
    error = oversize_error([point], "gloo", ranks, free, "memory")
    fits = bytes_per_rank(point, "gloo") * ranks <= free * USABLE_SHARE
    assert (error is None) == fits or abs(
        bytes_per_rank(point, "gloo") * ranks - free * 0.9
    ) < ranks
    if error is not None:
        limit = size * (int(free * USABLE_SHARE) // ranks) // bytes_per_rank(point, "gloo")
        if limit >= ranks * F32.bytes:
            whole = limit // (ranks * F32.bytes) * ranks * F32.bytes  # no padding up
            smaller = make_point(name, whole, F32, ranks, in_place=in_place)
            assert oversize_error([smaller], "gloo", ranks, free, "memory") is None


@pytest.fixture
def cgroup(tmp_path):
    """job/step inside a limit on job only, as Slurm sets it."""
    root = tmp_path / "cgroup"
    step = root / "job" / "step"
    step.mkdir(parents=True)
    (root / "job" / "memory.max").write_text("1000000\n")
    (root / "job" / "memory.current").write_text("700000\n")
    (root / "job" / "memory.stat").write_text("anon 500000\ninactive_file 150000\n")
    (step / "memory.max").write_text("max\n")
    (step / "memory.current").write_text("600000\n")
    membership = tmp_path / "self"
    membership.write_text("0::/job/step\n")
    return membership, root


def test_a_limit_on_an_enclosing_cgroup_counts_and_its_page_cache_does_not(cgroup):
    assert cgroup_free_bytes(*cgroup) == 1_000_000 - (700_000 - 150_000)


def test_without_a_cgroup_limit_nothing_is_known(tmp_path, cgroup):
    membership, root = cgroup
    (root / "job" / "memory.max").write_text("max\n")
    assert cgroup_free_bytes(membership, root) is None
    membership.write_text("12:memory:/job\n")  # cgroup v1
    assert cgroup_free_bytes(membership, root) is None
    assert cgroup_free_bytes(tmp_path / "absent", root) is None


def test_this_host_has_free_memory():
    assert host_free_bytes() > 1 << 20
