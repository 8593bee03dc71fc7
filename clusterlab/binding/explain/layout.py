"""Which task runs on which node of a step.

Follows src/common/slurm_step_layout.c (22.05): block, cyclic, plane and arbitrary, uneven nodes included.
"""

from __future__ import annotations

from collections.abc import Sequence

from clusterlab.binding.explain.distribution import Distribution


def lay_out(
    tasks: int, slots: Sequence[int], distribution: Distribution, *, pack: bool
) -> list[list[int]]:
    """Task ids of each node with room for ``slots`` tasks (at least 1); more tasks than room are spread.

    ``pack``: nodes are filled one after the other.
    """
    room = [max(count, 1) for count in slots]
    if distribution.nodes == "cyclic":
        return _cyclic(tasks, room)
    if distribution.nodes == "plane":
        return _plane(tasks, room, min(distribution.plane_size or 1, max(tasks, 1)))
    counts = _packed_counts(tasks, room) if pack else _even_counts(tasks, room)
    return _in_blocks(counts)


def lay_out_by_name(names: Sequence[str], nodes: Sequence[str]) -> list[list[int]]:
    """Arbitrary: task i runs on ``names[i]``."""
    return [[i for i, name in enumerate(names) if name == node] for node in nodes]


def _in_blocks(counts: Sequence[int]) -> list[list[int]]:
    starts = [sum(counts[:i]) for i in range(len(counts))]
    return [list(range(start, start + count)) for start, count in zip(starts, counts, strict=True)]


def _even_counts(tasks: int, room: Sequence[int]) -> list[int]:
    """One more on every node that has room, round after round."""
    counts, left, turn, over = [0] * len(room), tasks, 0, False
    while left:
        space = False
        for node, slots in enumerate(room):
            if left and (turn < slots or over):
                counts[node] += 1
                left -= 1
                space = space or turn + 1 < slots
        over = over or not space
        turn += 1
    return counts


def _packed_counts(tasks: int, room: Sequence[int]) -> list[int]:
    """One on each node, then nodes are filled in order, then the rest goes round."""
    counts, left = [0] * len(room), tasks
    for node in range(len(room)):
        if left:
            counts[node] = 1
            left -= 1
    for node, slots in enumerate(room):
        more = min(max(slots - counts[node], 0), left)
        counts[node] += more
        left -= more
    while left:
        for node in range(len(room)):
            if left:
                counts[node] += 1
                left -= 1
    return counts


def _cyclic(tasks: int, room: Sequence[int]) -> list[list[int]]:
    ids: list[list[int]] = [[] for _ in room]
    task, turn = 0, 0
    over = sum(room) < tasks
    most_over = -(-(tasks - sum(room)) // len(room)) if over else 0
    while task < tasks:
        space = False
        for node, slots in enumerate(room):
            if task < tasks and (turn < slots or (over and turn < slots + most_over)):
                ids[node].append(task)
                task += 1
                space = space or turn + 1 < slots
        over = over or not space
        turn += 1
    return ids


def _plane(tasks: int, room: Sequence[int], size: int) -> list[list[int]]:
    counts, left = [0] * len(room), tasks
    for node in range(len(room)):
        if left:
            counts[node] = 1
            left -= 1
    first, over = True, False
    while left:
        space = False
        for node, slots in enumerate(room):
            for _ in range(1 if first else 0, size):
                if left and (slots != counts[node] or over):
                    counts[node] += 1
                    left -= 1
                    space = space or slots - (counts[node] + 1) >= 0
        over = over or not space
        first = False
    return _deal_planes(tasks, counts, size)


def _deal_planes(tasks: int, counts: Sequence[int], size: int) -> list[list[int]]:
    ids: list[list[int]] = [[] for _ in counts]
    task = 0
    while task < tasks:
        for node, count in enumerate(counts):
            take = min(size, count - len(ids[node]), tasks - task)
            ids[node] += range(task, task + take)
            task += take
    return ids
