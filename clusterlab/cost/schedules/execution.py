"""Running rounds: does the data arrive, reduced exactly once, and what was moved over which links?

Partial sums are bit masks of the ranks whose contributions they hold; combining two that share a rank
is refused, so nothing can be counted twice.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from clusterlab.core.errors import WrongDataError
from clusterlab.core.suggest import unknown
from clusterlab.cost.schedules.counts import Counts
from clusterlab.cost.schedules.family import Family
from clusterlab.cost.schedules.rounds import Round, Transfer
from clusterlab.cost.schedules.shape import GroupShape

COLLECTIVES = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "broadcast",
    "reduce",
    "all_to_all",
    "send_recv",
)

Holding = dict[tuple[int, int], int]
"""(end point, block) to the mask of ranks summed there."""

_Way = tuple[int, int]
"""Hops between hosts, hops inside."""


def execute(
    family: Family, shape: GroupShape, chunks: int = 1, *, size_bytes: float = 1.0
) -> Counts:
    """Run every round of ``family`` on ``shape``, transfer by transfer, and count what was moved.

    Counts are those of a buffer of ``size_bytes`` (nccl-tests' size). Raises WrongDataError where a
    rank sends what it does not hold, reduces a contribution twice, or ends with a block that is wrong
    or missing; UsageError where the family cannot run on the shape.
    """
    parts = family.parts(shape, chunks)
    done = check(family.run(shape, chunks=chunks), family.collective, shape, parts)
    return count(done, shape, size_bytes / parts)


def check(rounds: Iterable[Round], collective: str, shape: GroupShape, parts: int) -> list[Round]:
    """Run the rounds of ``collective`` from its start and compare with what is wanted.

    Returns the rounds. Raises WrongDataError naming the first block that is not right.
    """
    holding = start(collective, shape.ranks, parts)
    done = []
    for transfers in rounds:
        _run_round(transfers, holding, shape.ranks)
        done.append(transfers)
    for (rank, block), mask in wanted(collective, shape.ranks, parts).items():
        if holding.get((rank, block)) != mask:
            there = "wrong" if (rank, block) in holding else "missing"
            raise WrongDataError(f"{collective}: block {block} is {there} on rank {rank}")
    return done


def start(collective: str, n: int, parts: int) -> Holding:
    """What the ranks hold before ``collective`` (root 0); blocks as ``Family`` numbers them."""
    _known(collective)
    if collective in ("all_reduce", "reduce", "reduce_scatter"):
        return {(r, b): 1 << r for r in range(n) for b in range(parts)}
    if collective == "broadcast":
        return {(0, b): 1 for b in range(parts)}
    if collective == "all_to_all":
        return {(b // parts, b): 1 << (b // parts) for b in range(n * parts)}
    if collective == "send_recv":
        return {(r, r): 1 << r for r in range(n)}
    return {(b * n // parts, b): 1 << (b * n // parts) for b in range(parts)}


def wanted(collective: str, n: int, parts: int) -> Holding:
    """What must be there after ``collective``."""
    _known(collective)
    if collective in ("all_reduce", "reduce", "reduce_scatter"):
        return dict.fromkeys(_summed_at(collective, n, parts), (1 << n) - 1)
    if collective == "broadcast":
        return {(r, b): 1 for r in range(n) for b in range(parts)}
    if collective == "all_to_all":
        each = parts // n
        return {(b // each % n, b): 1 << (b // parts) for b in range(n * parts)}
    if collective == "send_recv":
        return {((r + 1) % n, r): 1 << r for r in range(n)}
    return {(r, b): 1 << (b * n // parts) for r in range(n) for b in range(parts)}


def _summed_at(collective: str, n: int, parts: int) -> list[tuple[int, int]]:
    """Where sums of everyone's contributions must end."""
    if collective == "all_reduce":
        return [(r, b) for r in range(n) for b in range(parts)]
    if collective == "reduce":
        return [(0, b) for b in range(parts)]
    return [(b * n // parts, b) for b in range(parts)]


def _known(collective: str) -> None:
    if collective not in COLLECTIVES:
        raise unknown("collective", collective, COLLECTIVES)


def _run_round(transfers: Round, holding: Holding, ranks: int) -> None:
    """Run one round on ``holding`` in place; what it sends is what was there before it began."""
    switches: Holding = {}
    arriving = [(t, _held(holding, t)) for t in transfers if t.src < ranks and t.dst < ranks]
    for t in transfers:
        if t.dst >= ranks:
            _put(switches, t, _held(holding, t))
    arriving += [(t, _held(switches, t)) for t in transfers if t.src >= ranks]
    for t, data in arriving:
        _put(holding, t, data)


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


def count(done: Iterable[Round], shape: GroupShape, block_bytes: float) -> Counts:
    """Counts of rounds that ran, transfer by transfer, blocks being ``block_bytes`` each."""
    pairs: Counter[tuple[int, int]] = Counter()
    ways: dict[tuple[int, int], _Way] = {}
    steps = 0
    for transfers in done:
        steps += 1
        pairs.update((t.src, t.dst) for t in transfers)
        _advance(ways, transfers, shape)
    most: defaultdict[str, int] = defaultdict(int)
    for (what, _, _), blocks in _loads(pairs, shape).items():
        most[what] = max(most[what], blocks)
    between, inside = max(ways.values(), default=(0, 0))
    names = ("sent", "gpu_out", "gpu_in", "node_out", "node_in", "nic_out", "nic_in")
    return Counts(steps, inside, between, *(most[name] * block_bytes for name in names))


def _crosses(src: int, dst: int, shape: GroupShape) -> bool:
    """Whether a transfer leaves its host: to another's rank, or by the network's switch."""
    if max(src, dst) >= shape.ranks:
        return max(src, dst) == shape.network
    return shape.node_of(src) != shape.node_of(dst)


def _loads(pairs: Counter[tuple[int, int]], shape: GroupShape) -> Counter[tuple[str, int, int]]:
    """Blocks by what carried them: a rank, its NVLink, its node, its NIC."""
    loads: Counter[tuple[str, int, int]] = Counter()
    for (src, dst), blocks in pairs.items():
        for carrier in _carriers(src, dst, shape):
            loads[carrier] += blocks
    return loads


def _carriers(src: int, dst: int, shape: GroupShape) -> Iterator[tuple[str, int, int]]:
    crosses = _crosses(src, dst, shape)
    for end, way in ((src, "out"), (dst, "in")):
        if end >= shape.ranks:
            continue
        if way == "out":
            yield "sent", end, 0
        if crosses:
            node = shape.node_of(end)
            yield f"node_{way}", node, 0
            yield f"nic_{way}", node, shape.nic_of(shape.local_of(end))
        else:
            yield f"gpu_{way}", end, 0


def _advance(ways: dict[tuple[int, int], _Way], transfers: Round, shape: GroupShape) -> None:
    """Lengthen the longest dependent chain behind each block that arrives.

    Through a switch is one hop: what goes in brings its chain, what comes out adds the hop.
    """
    n = shape.ranks
    through: dict[tuple[int, int], _Way] = {}
    for t in transfers:
        if t.dst >= n:
            key = (t.dst, t.block)
            through[key] = max(through.get(key, (0, 0)), ways.get((t.src, t.block), (0, 0)))
    arriving = []
    for t in transfers:
        if t.dst < n:
            between, inside = (through if t.src >= n else ways).get((t.src, t.block), (0, 0))
            crosses = _crosses(t.src, t.dst, shape)
            arriving.append((t, (between + crosses, inside + (not crosses))))
    for t, way in arriving:
        key = (t.dst, t.block)
        ways[key] = max(ways.get(key, (0, 0)), way) if t.reduces else way
