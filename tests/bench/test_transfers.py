"""The two ways to make a ring shift move the same elements."""

from __future__ import annotations

import pytest

from clusterlab.bench import ops
from clusterlab.bench.transfers import ring_shift
from clusterlab.core.dtypes import DTYPES
from clusterlab.core.rows import make_point
from tests.bench.ranks import sweep

pytestmark = pytest.mark.ranks


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_a_shift_by_one_part_of_an_all_to_all_is_a_send_recv(world_size, tmp_path, monkeypatch):
    monkeypatch.setitem(ops._BINDERS, "send_recv", ring_shift)
    points = [
        make_point("send_recv", size, DTYPES[dtype], world_size)
        for dtype in ("float32", "bfloat16", "int8")
        for size in (8, 1000, 1 << 20)
    ]
    done = sweep(world_size, points, tmp_path)
    assert done.outcome.message is None
    assert [(p, m.wrong) for p, m, _ in done.measured] == [(p, 0) for p in points]


def test_the_same_in_a_group(tmp_path, monkeypatch):
    monkeypatch.setitem(ops._BINDERS, "send_recv", ring_shift)
    points = tuple(
        make_point("send_recv", 100_000, DTYPES["float32"], len(ranks), ranks=ranks)
        for ranks in ((0, 2, 4), (1, 3, 5))
    )
    done = sweep(6, [], tmp_path, steps=[points])
    assert done.outcome.message is None
    assert [(p, m.wrong) for p, m, _ in done.measured] == [(p, 0) for p in points]
