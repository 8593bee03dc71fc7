"""Real ranks over gloo exchange parts that differ: every element arrives, and no other is touched."""

from __future__ import annotations

import pytest

from clusterlab.bench.support import unsupported_reason
from clusterlab.core.dtypes import DTYPES
from clusterlab.core.rows import make_point
from tests.bench.ranks import sweep

pytestmark = pytest.mark.ranks

SHAPES = ("linear", "hot:0.7", "hot:1", "random:3", "matrix:0 0 5 1/2 0 0 9/0 0 0 0/4 1 1 0", None)
"""The matrix has a rank that sends nothing, pairs that do not talk, and one that receives little."""


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_every_shape_dtype_and_place_is_right(world_size, tmp_path):
    shapes = SHAPES if world_size > 1 else SHAPES[:4]  # the matrix's first rank alone sends nothing
    points = [
        make_point(
            "all_to_all_v", size, DTYPES[dtype], world_size, in_place=in_place, uneven=uneven
        )
        for uneven in shapes
        for dtype in DTYPES
        if unsupported_reason("gloo", world_size, "all_to_all_v", dtype, None) is None
        for size in (1, 1001)
        for in_place in (False, True)
    ]
    done = sweep(world_size, points, tmp_path)
    assert done.outcome.message is None
    assert [p for p, _, _ in done.measured] == points
    assert [(p, m.first_wrong) for p, m, _ in done.measured if m.wrong] == []
    assert all(p.in_place for p, m, _ in done.measured if m.wrong is None)


def test_groups_exchange_and_gather_at_once(tmp_path):
    """Ranks of a group count among themselves: roots, parts and data are the group's."""
    groups = ((0, 2, 3), (1, 4))
    names = (
        ("gather", None),
        ("scatter", None),
        ("all_to_all_v", "linear"),
        ("all_to_all_v", None),
    )
    steps = [
        tuple(
            make_point(
                name, 100_003, DTYPES["float32"], len(ranks), ranks=ranks, root=1, uneven=uneven,
                in_place=in_place,
            )
            for ranks in groups
        )
        for name, uneven in names
        for in_place in (False, True)
    ]  # fmt: skip
    done = sweep(5, [], tmp_path, steps=steps)
    assert done.outcome.message is None
    assert [p for p, _, _ in done.measured] == [p for step in steps for p in step]
    assert [(p, m.first_wrong) for p, m, _ in done.measured if m.wrong] == []
