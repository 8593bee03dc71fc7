from __future__ import annotations

import json

import pytest

from clusterlab.core.errors import ClusterlabError, UsageError
from clusterlab.core.placement import (
    Placement,
    RankPlacement,
    local_placement,
    placement_from_json,
)


def test_a_placement_survives_json() -> None:
    placement = Placement(
        (
            RankPlacement(0, "n0", 0, gpu="0000:18:00.0", numa=0, cores=(0, 1), nics=("mlx5_0",)),
            RankPlacement(1, "n1", 0),
        )
    )
    assert placement_from_json(json.loads(json.dumps(placement.to_json()))) == placement
    assert placement.hosts == ("n0", "n1")


def test_local_ranks_share_one_host() -> None:
    placement = local_placement(3, "box", cores=(0, 1))
    assert placement.world_size == 3
    assert {r.host for r in placement.ranks} == {"box"}


@pytest.mark.parametrize(
    "data",
    [None, {}, {"ranks": 3}, {"ranks": [3]}, {"ranks": [{"rank": 0}]},
     {"ranks": [{"rank": 1, "host": "n0", "local_rank": 0}]},
     {"ranks": [{"rank": 0, "host": "n0", "local_rank": 0, "gpus": "x"}]}],
)  # fmt: skip
def test_what_is_no_placement_is_refused(data: object) -> None:
    with pytest.raises(UsageError):
        placement_from_json(data)


def test_an_error_says_where_what_was_expected_and_how_to_mend_it() -> None:
    error = ClusterlabError("broken", where="a.yaml:3", expected="a number", fix="write 3")
    assert str(error) == "a.yaml:3: broken; expected a number; write 3"
