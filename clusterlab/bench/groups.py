"""Who takes part in a step: each point's ranks, this rank's seat among them, and torch's group of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clusterlab.core.errors import UsageError
from clusterlab.core.rows import Point

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

BETWEEN_TWO = ("send", "ping_pong")


@dataclass(frozen=True, slots=True)
class Seat:
    """This rank's place in a step: ``rank`` counts within ``point``'s ranks, ``slot`` the step's points."""

    point: Point
    rank: int
    slot: int


def ranks_of(point: Point) -> tuple[int, ...]:
    """The ranks of the run that take part in ``point``, in the order that it counts them."""
    return point.ranks if point.ranks is not None else tuple(range(point.world_size))


def seat_of(step: Sequence[Point], rank: int) -> Seat | None:
    """Where ``rank`` of the run sits in ``step``; None: it waits."""
    for slot, point in enumerate(step):
        ranks = ranks_of(point)
        if rank in ranks:
            return Seat(point, ranks.index(rank), slot)
    return None


def whole_run(point: Point, world_size: int) -> bool:
    """Whether ``point`` is over all ranks in their own order."""
    return ranks_of(point) == tuple(range(world_size))


def is_transfer(point: Point) -> bool:
    """Whether ``point`` moves data between two ranks by send and receive alone.

    Those need no group of their own: gloo connects all ranks when the default group is made, and NCCL
    connects two ranks of its communicator at their first message. A group of two would cost a
    communicator per pair.
    """
    return point.collective in BETWEEN_TWO or (
        point.collective == "send_recv" and point.world_size == 2
    )


def check_steps(steps: Iterable[Sequence[Point]], world_size: int) -> None:
    """Raise UsageError unless each step's points can run at the same time on ``world_size`` ranks."""
    for step in steps:
        taken = [rank for point in step for rank in ranks_of(point)]
        if len(taken) != len(set(taken)):
            raise UsageError(f"{sorted(taken)}", where="step", expected="no rank in two points")
        if taken and not 0 <= min(taken) <= max(taken) < world_size:
            raise UsageError(
                f"{sorted(taken)}", where="ranks", expected=f"ranks below {world_size}"
            )
        if len({point.timing for point in step}) > 1:
            raise UsageError(
                "several timing modes", where="step", expected="one for all its points"
            )
        for point in step:
            ordered = list(ranks_of(point)) == sorted(ranks_of(point))
            if not (ordered or is_transfer(point)):
                # torch counts a group's ranks upwards, whatever order it is given
                raise UsageError(
                    f"{ranks_of(point)}", where="ranks", expected="a group's ranks in rising order"
                )


class Groups:
    """torch's process group of every rank set in a sweep, made once, in the order of the steps.

    Every rank must make the same one: torch numbers groups by how many were made, so that also ranks
    outside of a group take part in making it. (``use_local_synchronization`` would spare them that, but
    names a group by how many *this* rank knows: ranks of groups that overlap would wait for each other
    for ever.)
    """

    def __init__(self, steps: Iterable[Sequence[Point]], world_size: int) -> None:
        import torch.distributed as dist

        self._world_size = world_size
        self._groups: dict[tuple[int, ...], Any] = {}
        for step in steps:
            for point in step:
                if self._needs_group(point) and ranks_of(point) not in self._groups:
                    ranks = ranks_of(point)
                    self._groups[ranks] = dist.new_group(list(ranks))

    def of(self, point: Point) -> ProcessGroup | None:
        """The group that ``point`` runs in; None: the default one."""
        return self._groups[ranks_of(point)] if self._needs_group(point) else None

    def close(self) -> None:
        """End all groups. Not after a failure: destroying a group whose peers are gone can block."""
        import torch.distributed as dist

        for group in self._groups.values():
            if group is not dist.GroupMember.NON_GROUP_MEMBER:
                dist.destroy_process_group(group)
        self._groups.clear()

    def _needs_group(self, point: Point) -> bool:
        return not (is_transfer(point) or whole_run(point, self._world_size))
