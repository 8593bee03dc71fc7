"""What ``predict`` is asked for a row that was measured."""

from __future__ import annotations

from clusterlab.core.placement import Placement
from clusterlab.core.rows import Row
from clusterlab.cost.issue import issue_of
from clusterlab.cost.types import PredictRequest, one_group
from clusterlab.topology.fabric import Fabric


def row_request(
    row: Row, fabric: Fabric, placed: Placement, version: str, *, in_place: bool
) -> PredictRequest:
    """``row`` of NCCL ``version`` (``2.28.9+cuda12``; empty: not known) on ``placed`` ranks of ``fabric``."""
    return PredictRequest(
        fabric=fabric,
        groups=one_group(placed),
        collective=row.collective,
        size_bytes=row.size_bytes,
        dtype=row.dtype,
        op=row.op,
        root=row.root,
        in_place=in_place,
        backend="nccl",
        issue=issue_of(row.timing),
        library_version=version.partition("+")[0] or None,
    )
