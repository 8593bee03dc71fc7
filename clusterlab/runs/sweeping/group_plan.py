"""A sweep over groups of ranks: which groups, and the points that they run at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from clusterlab.core.dtypes import DTYPES
from clusterlab.core.errors import UsageError
from clusterlab.core.patterns import ONE_BY_ONE, RankGroup, groups_of
from clusterlab.core.placement import Placement
from clusterlab.core.rows import Point, make_point

if TYPE_CHECKING:
    from clusterlab.runs.sweeping.plan import SweepConfig

Steps = list[tuple[Point, ...]]


def plan_groups(pattern: str, placement: Placement) -> tuple[RankGroup, ...]:
    """The groups of ``pattern`` that have anything to do: two ranks or more. Raises UsageError where none
    has.
    """
    groups = groups_of(pattern, placement)
    found = tuple(group for group in groups if len(group.ranks) > 1)
    if not found:
        hosts = len(placement.hosts)
        where = "1 host" if hosts == 1 else f"{hosts} hosts"
        raise UsageError(
            f"each of the {len(groups)} groups of {placement.world_size} ranks on {where} has one rank",
            where=f"--pattern {pattern}",
            expected="groups of two ranks or more",
            fix="a rail needs several hosts, a node several ranks on a host",
        )
    return found


def group_steps(
    config: SweepConfig,
    groups: Sequence[RankGroup],
    name: str,
    element: str,
    op: str | None,
) -> Steps:
    """Of one collective, dtype and operator: timing modes, sizes, places; all groups at the same time, or
    each alone. Raises UsageError for a root that some group has not.
    """
    smallest = min(len(group.ranks) for group in groups)
    if config.root >= smallest:
        raise UsageError(
            f"root {config.root} of groups of {smallest} ranks",
            where="-r",
            expected=f"0 to {smallest - 1}: it counts within each group",
        )
    steps: Steps = []
    for timing in config.timings:
        for size in config.sizes_bytes:
            for in_place in config.in_place:
                points = tuple(
                    make_point(
                        name,
                        size,
                        DTYPES[element],
                        len(group.ranks),
                        op=op,
                        root=config.root,
                        in_place=in_place,
                        ranks=group.ranks,
                        timing=timing,
                        uneven=config.uneven if name == "all_to_all_v" else None,
                    )
                    for group in groups
                )
                alone = config.pattern.endswith(ONE_BY_ONE)
                steps += [(point,) for point in points] if alone else [points]
    return steps
