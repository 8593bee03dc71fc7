"""What ``corrupt`` may hit: an element that some check looks at, of every collective, rank and index."""

from __future__ import annotations

import pytest
import torch

from clusterlab.bench import opening
from clusterlab.bench.buffers import shape_of
from clusterlab.bench.check import checkable, expected_segments
from clusterlab.bench.options import BenchOptions
from clusterlab.core.dtypes import DTYPES
from clusterlab.core.errors import UsageError
from clusterlab.core.rows import make_point

N, SIZE = 3, 72
NAMES = (
    *("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "all_to_all_v", "gather", "scatter"),
    *("broadcast", "reduce", "send_recv"),
)  # fmt: skip


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("uneven", [None, "linear", "hot:1"])
@pytest.mark.parametrize("name", NAMES)
def test_what_no_check_looks_at_is_refused_and_nothing_else(name, uneven, in_place, monkeypatch):
    if uneven and name != "all_to_all_v":
        pytest.skip("equal parts")
    monkeypatch.setattr(opening, "current_device", lambda: torch.device("cpu"))
    point = make_point(name, SIZE, DTYPES["float32"], N, root=1, in_place=in_place, uneven=uneven)
    for rank in range(N):
        looked_at = {
            index
            for s in (expected_segments(point, rank) if checkable(point) else [])
            for index in range(s.offset, s.offset + s.length)
        }
        for index in range(shape_of(point).recv_elements + 2):
            options = BenchOptions(corrupt=(rank, index))
            if index in looked_at:
                opening.check_sweep([(point,)], options, N)
                continue
            with pytest.raises(UsageError, match="corrupt"):
                opening.check_sweep([(point,)], options, N)
