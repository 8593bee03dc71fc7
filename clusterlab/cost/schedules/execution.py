"""Running rounds: does the data arrive, reduced exactly once, and what was moved over which links?

Partial sums are bit masks of the ranks whose contributions they hold; combining two that share a rank
is refused, so nothing can be counted twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from clusterlab.core.errors import WrongDataError
from clusterlab.cost.schedules.counts import Counts
from clusterlab.cost.schedules.rounds import Round, Transfer
from clusterlab.cost.schedules.shape import GroupShape

Holding = dict[tuple[int, int], int]
"""(rank, block) to the mask of ranks summed there."""


def start(collective: str, n: int, parts: int) -> Holding:
    """What the ranks hold before ``collective`` (root 0); blocks as ``Family`` numbers them."""
    if collective in ("all_reduce", "reduce", "reduce_scatter"):
        return {(r, b): 1 << r for r in range(n) for b in range(parts)}
    if collective == "broadcast":
        return {(0, b): 1 for b in range(parts)}
    if collective == "all_to_all":
        per_source = parts  # parts are those of one rank's buffer
        return {(b // per_source, b): 1 << (b // per_source) for b in range(n * per_source)}
    if collective == "send_recv":
        return {(r, r): 1 << r for r in range(n)}
    return {(b * n // parts, b): 1 << (b * n // parts) for b in range(parts)}


def wanted(collective: str, n: int, parts: int) -> Holding:
    """What must be there after ``collective``."""
    everyone = (1 << n) - 1
    if collective == "all_reduce":
        return {(r, b): everyone for r in range(n) for b in range(parts)}
    if collective == "reduce":
        return {(0, b): everyone for b in range(parts)}
    if collective == "reduce_scatter":
        return {(b * n // parts, b): everyone for b in range(parts)}
    if collective == "broadcast":
        return {(r, b): 1 for r in range(n) for b in range(parts)}
    if collective == "all_to_all":
        each = parts // n
        return {(b // each % n, b): 1 << (b // parts) for b in range(n * parts)}
    if collective == "send_recv":
        return {((r + 1) % n, r): 1 << r for r in range(n)}
    return {(r, b): 1 << (b * n // parts) for r in range(n) for b in range(parts)}


def execute(rounds: Iterable[Round], holding: Holding, ranks: int) -> list[Round]:
    """Run the rounds on ``holding`` in place; what a round sends is what was there before it began.

    Raises WrongDataError on sending what is not there, and on reducing a contribution twice.
    """
    done = []
    for transfers in rounds:
        switches: Holding = {}
        arriving = [
            (t, _held(holding, t)) for t in transfers if t.src < ranks and t.dst < ranks
        ]
        for t in transfers:
            if t.dst >= ranks:
                _put(switches, t, _held(holding, t))
        arriving += [(t, _held(switches, t)) for t in transfers if t.src >= ranks]
        for t, data in arriving:
            _put(holding, t, data)
        done.append(transfers)
    return done


def _held(holding: Holding, t: Transfer) -> int:
    if (t.src, t.block) not in holding:
        raise WrongDataError(f"end point {t.src} sends block {t.block}, which it does not hold")
    return holding[t.src, t.block]


def _put(holding: Holding, t: Transfer, data: int) -> None:
    key = (t.dst, t.block)
    there = holding.get(key, 0)
    if t.reduces and there & data:
        raise WrongDataError(f"end point {t.dst} reduces a contribution to block {t.block} twice")
    holding[key] = there | data if t.reduces else data


def check(rounds: Iterable[Round], collective: str, shape: GroupShape, parts: int) -> list[Round]:
    """Run the rounds of ``collective`` from its start and compare with what is wanted.

    Returns the rounds. Raises WrongDataError naming the first block that is not right.
    """
    holding = start(collective, shape.ranks, parts)
    done = execute(rounds, holding, shape.ranks)
    for (rank, block), mask in wanted(collective, shape.ranks, parts).items():
        if holding.get((rank, block)) != mask:
            raise WrongDataError(f"rank {rank} does not end with block {block} of {collective}")
    return done


def count(done: Iterable[Round], shape: GroupShape, block_bytes: float) -> Counts:
    """Counts of rounds that ran, transfer by transfer."""
    blocks: defaultdict[tuple[str, int, int], int] = defaultdict(int)
    ways: dict[tuple[int, int], tuple[int, int]] = {}
    steps = 0
    for transfers in done:
        steps += 1
        for t in transfers:
            _tally(blocks, t, shape)
        _advance(ways, transfers, shape)
    most: defaultdict[str, int] = defaultdict(int)
    for (what, _, _), number in blocks.items():
        most[what] = max(most[what], number)
    between, inside = max(ways.values(), default=(0, 0))
    names = ("sent", "gpu_out", "gpu_in", "node_out", "node_in", "nic_out", "nic_in")
    return Counts(steps, inside, between, *(most[name] * block_bytes for name in names))


def _crosses(t: Transfer, shape: GroupShape) -> bool:
    if max(t.src, t.dst) >= shape.ranks:
        return max(t.src, t.dst) == shape.network
    return shape.node_of(t.src) != shape.node_of(t.dst)


def _tally(
    blocks: defaultdict[tuple[str, int, int], int], t: Transfer, shape: GroupShape
) -> None:
    """Add one block to what the end points' links carried."""
    crosses = _crosses(t, shape)
    for end, way in ((t.src, "out"), (t.dst, "in")):
        if end >= shape.ranks:
            continue
        if way == "out":
            blocks["sent", end, 0] += 1
        if crosses:
            node, local = shape.node_of(end), shape.local_of(end)
            blocks[f"node_{way}", node, 0] += 1
            blocks[f"nic_{way}", node, shape.nic_of(local)] += 1
        else:
            blocks[f"gpu_{way}", end, 0] += 1


def _advance(
    ways: dict[tuple[int, int], tuple[int, int]], transfers: Round, shape: GroupShape
) -> None:
    """Lengthen the longest dependent chain (between, inside) behind each block that arrives.

    Through a switch is one hop: what goes in brings its chain, what comes out adds the hop.
    """
    n = shape.ranks
    through: dict[tuple[int, int], tuple[int, int]] = {}
    for t in transfers:
        if t.dst >= n:
            key = (t.dst, t.block)
            through[key] = max(through.get(key, (0, 0)), ways.get((t.src, t.block), (0, 0)))
    arriving = []
    for t in transfers:
        if t.dst < n:
            between, inside = (through if t.src >= n else ways).get((t.src, t.block), (0, 0))
            crosses = _crosses(t, shape)
            arriving.append((t, (between + crosses, inside + (not crosses))))
    for t, way in arriving:
        key = (t.dst, t.block)
        ways[key] = max(ways.get(key, (0, 0)), way) if t.reduces else way
