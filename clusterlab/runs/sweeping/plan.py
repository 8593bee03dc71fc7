"""What a sweep will measure: from the options people type to the list of points, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from clusterlab.core.collectives import SWEPT, collective, collectives, reduce_ops
from clusterlab.core.dtypes import DTYPES, dtypes
from clusterlab.core.errors import UsageError
from clusterlab.core.pairs import one_by_one, pair_steps, round_robin
from clusterlab.core.patterns import ALL_RANKS, PAIRS, PAIRS_ONE_BY_ONE, is_of_groups
from clusterlab.core.placement import Placement, local_placement
from clusterlab.core.rows import Point, make_point
from clusterlab.core.sizes import format_size, parse_size, size_series
from clusterlab.core.uneven import check_uneven
from clusterlab.runs.sweeping.group_plan import group_steps, plan_groups

DEFAULT_SIZES = {"gloo": ("1K", "16M"), "nccl": ("8", "8G")}
"""Where a sweep begins and ends when -b and -e are not given: what the transport is good for."""

MAX_ITERATIONS = 1_000_000

Unsupported = Callable[[str, str, str | None], str | None]
"""(collective, dtype, op) to the reason why the backend cannot do it, or None."""


@dataclass(frozen=True, slots=True)
class SweepConfig:
    """One sweep, fully resolved: what run.json keeps and what is needed to run it again.

    ``sizes_bytes`` are the sizes asked for, before padding. ``in_place`` lists the places measured, in
    order. ``chosen`` names what was typed rather than meant by ``all``: asking for what the backend
    lacks is then an error, not a point left out. ``pattern`` says which ranks run together
    (``core.patterns``); the collectives of pairs are those of ``core.pairs.pair_steps``. ``uneven`` names how
    the parts of an all_to_all_v differ (``core.uneven``). ``iterations`` None: as many as the median
    needs to be known ``median_within`` (a share), at most ``budget_s`` of each point; ``warmup`` None: by
    size. ``calibration`` is a system calibration's file. The others are as in BenchOptions.
    """

    collectives: tuple[str, ...]
    sizes_bytes: tuple[int, ...]
    dtypes: tuple[str, ...]
    ops: tuple[str, ...]
    root: int
    in_place: tuple[bool, ...]
    iterations: int | None
    warmup: int | None
    check: bool
    backend: str
    deadline_s: float
    fabric: str | None
    chosen: tuple[str, ...]
    pattern: str = ALL_RANKS
    timings: tuple[str, ...] = ("eager",)
    graph_launches: int | None = None
    aggregated: int = 1
    blocking: bool = False
    median_within: float = 0.02
    budget_s: float = 1.0
    keep_going: bool = False
    uneven: str | None = None
    calibration: str | None = None
    memory: str = "nccl"

    @property
    def of_pairs(self) -> bool:
        """Whether pairs of ranks are measured, not all ranks together."""
        return self.pattern in (PAIRS, PAIRS_ONE_BY_ONE)

    @property
    def of_groups(self) -> bool:
        """Whether several groups of ranks are measured, each by itself."""
        return is_of_groups(self.pattern)

    def to_json(self) -> dict[str, Any]:
        """Plain data for run.json."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A combination that ``all`` asked for and the backend does not have."""

    collective: str
    dtype: str
    op: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """The points of a sweep in the order they are measured, and what was left out.

    The points of one step are measured at the same time, on different ranks.
    """

    steps: tuple[tuple[Point, ...], ...]
    skipped: tuple[Skipped, ...]

    @property
    def points(self) -> tuple[Point, ...]:
        """All points, in order."""
        return tuple(point for step in self.steps for point in step)


def resolve_config(
    *,
    collective_text: str,
    begin: str | None,
    end: str | None,
    factor: float | None,
    step: str | None,
    dtype_text: str,
    op_text: str,
    root: int,
    place: str,
    iterations: int | None,
    warmup: int | None,
    check: bool,
    backend: str,
    deadline_s: float,
    fabric: str | None,
) -> SweepConfig:
    """A SweepConfig from what was typed (nccl-tests' grammar). Raises UsageError naming the option."""
    for option, value, least in (("-n", iterations, 1), ("-w", warmup, 0), ("-r", root, 0)):
        if value is not None and value < least:
            raise UsageError(f"{value}", where=option, expected=f"at least {least}")
    for option, value in (("-n", iterations), ("-w", warmup)):
        if value is not None and value > MAX_ITERATIONS:
            raise UsageError(f"{value}", where=option, expected=f"at most {MAX_ITERATIONS}")
    if not 0 < deadline_s < 1e9:
        raise UsageError(f"{deadline_s:g}", where="--deadline", expected="seconds above 0")
    places = {"out": (False,), "in": (True,), "both": (False, True)}
    if place not in places:
        raise UsageError(f"{place!r}", where="--place", expected="out, in or both")
    chosen = {
        "collective": collective_text,
        "dtype": dtype_text,
        "op": op_text,
    }
    return SweepConfig(
        collectives=tuple(c.name for c in collectives(collective_text)),
        sizes_bytes=_sizes(begin, end, factor, step, backend),
        dtypes=tuple(d.name for d in dtypes(dtype_text)),
        ops=tuple(reduce_ops(op_text)),
        root=root,
        in_place=places[place],
        iterations=iterations,
        warmup=warmup,
        check=check,
        backend=backend,
        deadline_s=deadline_s,
        fabric=fabric,
        chosen=tuple(k for k, text in chosen.items() if text.lower() != "all"),
    )


def count_or_auto(text: str, option: str) -> int | None:
    """A count as typed; None for ``auto``. Raises UsageError naming ``option``."""
    if text.strip().lower() == "auto":
        return None
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{text!r}", where=option, expected="a whole number, or auto") from None


def _sizes(
    begin: str | None, end: str | None, factor: float | None, step: str | None, backend: str
) -> tuple[int, ...]:
    first, last = DEFAULT_SIZES[backend]
    low = parse_size(begin or first, where="-b")
    # As one would expect of `-b 32M` alone: that size.
    high = parse_size(end, where="-e") if end else max(low, parse_size(last))
    if begin and not end and factor is None and step is None:
        high = low
    stride = parse_size(step, where="-i") if step is not None else None
    if low < 1:
        raise UsageError(format_size(low), where="-b", expected="at least 1 byte")
    return tuple(size_series(low, high, factor=factor, step=stride))


def make_plan(
    config: SweepConfig,
    world_size: int,
    unsupported: Unsupported,
    placement: Placement | None = None,
) -> SweepPlan:
    """Every point of the sweep for ``world_size`` ranks: collectives, then dtypes, ops, sizes, places.

    ``placement`` says where they are, which groups of ranks need; None: not known yet, all on one host.
    Raises UsageError for a root that is no rank, for a combination that was asked for by name and that the
    backend does not have, and where the placement has no such groups.
    """
    if config.root >= world_size:
        raise UsageError(
            f"root {config.root} of {world_size} ranks",
            where="-r",
            expected=f"0 to {world_size - 1}",
        )
    if config.of_pairs:
        return _pairs_plan(config, world_size)
    groups = None
    if config.of_groups:
        groups = plan_groups(config.pattern, placement or local_placement(world_size, "here"))
    _check_uneven(config, [len(g.ranks) for g in groups] if groups else [world_size])
    steps: list[tuple[Point, ...]] = []
    skipped: list[Skipped] = []
    for name in config.collectives:
        for element in config.dtypes:
            for op in config.ops if collective(name).reduces else (None,):
                reason = unsupported(name, element, op)
                if reason is not None:
                    skipped.append(Skipped(name, element, op, reason))
                elif groups is not None:
                    steps += group_steps(config, groups, name, element, op)
                else:
                    steps += [(p,) for p in _points(config, name, element, op, world_size)]
    _refuse_what_was_named(config, bool(steps), skipped)
    return SweepPlan(tuple(steps), tuple(skipped))


def _check_uneven(config: SweepConfig, sizes: Sequence[int]) -> None:
    """Raises UsageError for parts that groups of ``sizes`` ranks cannot have."""
    if config.uneven is None:
        return
    if "all_to_all_v" not in config.collectives:
        raise UsageError(
            f"{config.uneven:.40} without an all_to_all_v", where="--uneven", expected="alltoallv"
        )
    for ranks in dict.fromkeys(sizes):
        check_uneven(config.uneven, ranks)


def _pairs_plan(config: SweepConfig, world_size: int) -> SweepPlan:
    """Both backends send any dtype between two ranks, so nothing is left out."""
    if world_size < 2:
        raise UsageError(f"{world_size} rank", where="--ranks", expected="at least 2 for a pair")
    rounds = round_robin if config.pattern == PAIRS else one_by_one
    return SweepPlan(pair_steps(rounds(world_size), config.sizes_bytes, config.dtypes), ())


def _points(
    config: SweepConfig, name: str, element: str, op: str | None, world_size: int
) -> list[Point]:
    return [
        make_point(
            name,
            size,
            DTYPES[element],
            world_size,
            op=op,
            root=config.root,
            in_place=in_place,
            timing=timing,
            uneven=config.uneven if name == "all_to_all_v" else None,
        )
        for timing in config.timings
        for size in config.sizes_bytes
        for in_place in config.in_place
    ]


def _refuse_what_was_named(config: SweepConfig, any_left: bool, skipped: list[Skipped]) -> None:
    """Naming dtype and op is a request; so is a plan with nothing left in it."""
    named = "dtype" in config.chosen and "op" in config.chosen
    if skipped and (not any_left or (named and len(config.dtypes) == 1 and len(config.ops) == 1)):
        first = skipped[0]
        what = " ".join(w for w in (first.collective, first.dtype, first.op) if w)
        raise UsageError(
            f"{config.backend} has no {what}: {first.reason}",
            where="-d/-o",
            fix="leave it out, or use `-d all` and `-o all` for everything the backend has",
        )
    if not any_left:
        raise UsageError("nothing to measure", expected=f"one of {', '.join(SWEPT)}")
