"""What every family of schedules must pass: run on many shapes, its data proved and its counts compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import astuple, replace
from itertools import islice

import pytest

from clusterlab.core.errors import UsageError, WrongDataError
from clusterlab.cost.schedules.counts import Counts
from clusterlab.cost.schedules.execution import execute
from clusterlab.cost.schedules.family import Family
from clusterlab.cost.schedules.rounds import Round
from clusterlab.cost.schedules.shape import GroupShape

# Past 24: powers of 2 and 3, their neighbours, a prime, a rack. 48 and 64 are as 24, 72 and 32, and dear.
RANKS = (*range(1, 25), 27, 31, 32, 33, 71, 72)
PER_NODE = (1, 2, 3, 4, 8)
SIZE = 5040.0  # divides by many


def shapes(largest: int = 72) -> Iterator[GroupShape]:
    """One node of every size; several with 1, 2, 3, 4, 8 ranks each, and from one NIC to one per rank."""
    for n in RANKS:
        if n > largest:
            continue
        yield GroupShape(n)
        for g in PER_NODE:
            if n % g == 0 and n > g:
                yield from (GroupShape(n, n // g, heads) for heads in _heads(g, n))


def _heads(g: int, n: int) -> list[int]:
    # every number of NICs on smaller groups; one, some, and all on larger
    return list(range(1, g + 1)) if n <= 24 else sorted({1, (g + 1) // 2, g})


def runnable(family: Family, largest: int = 72) -> list[GroupShape]:
    return [s for s in shapes(largest) if family.requires(s) is None]


def assert_family(family: Family, largest: int = 72) -> None:
    """Data arrives on every shape, and what was moved is what the closed form says."""
    tried = runnable(family, largest)
    assert any(s.nodes == 1 and s.ranks > 2 for s in tried) or any(s.nodes > 2 for s in tried)
    for shape in tried:
        for chunks in (1, 3) if family.pipelined and shape.ranks <= 24 else (1,):
            assert_counts(family, shape, chunks)


def assert_counts(family: Family, shape: GroupShape, chunks: int) -> None:
    executed = execute(family, shape, chunks, size_bytes=SIZE)
    said = family.counts(shape, SIZE, chunks=chunks)
    where = f"{family.collective} {family.algorithm} {shape} chunks={chunks}"
    if not family.exact_hops(shape):
        assert executed.hops_between <= said.hops_between, where
        assert _hops(executed) <= _hops(said), where
        said = replace(said, hops_inside=executed.hops_inside, hops_between=executed.hops_between)
    assert astuple(executed) == pytest.approx(astuple(said)), where


def _hops(counts: Counts) -> int:
    return counts.hops_inside + counts.hops_between


Change = Callable[[list[Round]], list[Round]]


def changed(family: Family, change: Change) -> Family:
    """The family with its rounds changed, its closed form as it was."""
    return replace(family, rounds=lambda s, c: iter(change(list(family.rounds(s, c)))))


def without_a_transfer(rounds: list[Round]) -> list[Round]:
    """The last transfer of the last round never happens."""
    return [*rounds[:-1], rounds[-1][:-1]]


def with_a_transfer_twice(rounds: list[Round]) -> list[Round]:
    """The first transfer of the first round happens again at once."""
    return [[rounds[0][0], *rounds[0]], *rounds[1:]]


def with_all_transfers_twice(rounds: list[Round]) -> list[Round]:
    return [transfers + transfers for transfers in rounds]


def assert_faults_are_noticed(family: Family, shape: GroupShape) -> None:
    """The negative twins: what is dropped is missing, what is doubled is refused or counted."""
    with pytest.raises(WrongDataError):
        execute(changed(family, without_a_transfer), shape)
    for change in (with_a_transfer_twice, with_all_transfers_twice):
        with pytest.raises((WrongDataError, AssertionError)):
            assert_counts(changed(family, change), shape, 1)


def refuses(family: Family, shape: GroupShape) -> bool:
    try:
        family.counts(shape, SIZE)
    except UsageError:
        return True
    return False


def first(family: Family, *, ranks: int) -> GroupShape:
    """A shape of so many ranks or more that the family runs on, several nodes where it can."""
    fitting = [s for s in runnable(family) if s.ranks >= ranks]
    several = (s for s in fitting if s.nodes > 1)
    return next(islice(several, 1), fitting[0])
