"""No measurement beats the bound of the machine it was made on."""

from __future__ import annotations

import pytest

from clusterlab.core.collectives import collective
from clusterlab.cost.bound import lower_bound
from tests.cost.fabrics import load_fabric
from tests.support import shared_dir

CLOCK = 1.01  # what rounding of printed times may take away


@pytest.mark.parametrize(
    "file", ["published_nccl_tests.csv", "single_node/nccl_tests_single_node.csv"]
)
def test_no_measured_point_beats_the_bound(file: str) -> None:
    from clusterlab.cost.scoring.measured import load_measured
    from clusterlab.cost.scoring.scored import request_for

    points = load_measured(shared_dir() / "measured" / file)
    bounded = 0
    for point in points:
        request = request_for(point)
        devices = tuple(str(rank.device) for rank in request.groups[0])
        name = collective(request.collective).name
        bound = lower_bound(request.fabric, devices, name, request.size_bytes)
        assert bound.time_us <= point.time_us * CLOCK, (point, bound)
        bounded += bound.time_us > 0
    assert bounded > 0.9 * len(points) > 500


def test_two_h200_stay_above_the_bound() -> None:
    text = (shared_dir() / "measured" / "h200x2" / "nccl_tests_other_collectives.txt").read_text()
    fabric = load_fabric("h200-2")
    ends = [d.name for d in fabric.of_kind("gpu")]
    name, seen = "", 0
    for line in text.splitlines():
        words = line.split()
        if "Collective test starting:" in line:
            name = collective(words[-1]).name
        elif words and words[0].isdigit() and int(words[0]) > 0:
            bound = lower_bound(fabric, ends, name, int(words[0]))
            times = [float(words[5]), float(words[9])]
            assert all(bound.time_us <= t * CLOCK for t in times)
            seen += 1
    assert seen > 20
