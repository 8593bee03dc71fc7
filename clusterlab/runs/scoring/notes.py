"""What a score must say beside its figures: what was left out, assumed, and taken from which cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from clusterlab.core.errors import UsageError
from clusterlab.cost.scoring.asked import Asked, version_said
from clusterlab.cost.scoring.choices import ACCEPTED, choice_of
from clusterlab.cost.scoring.machine import description_of, machine_of
from clusterlab.cost.scoring.measured import Measured, MeasuredPoint
from clusterlab.cost.scoring.scored import LATENCY_ROWS, ScoredPoint
from clusterlab.cost.scoring.systems import PredictedOn
from clusterlab.formats.measured.plausible import LIMITS, named

MOST_SYSTEMS = 6
"""More machines and releases than these are counted, not named (JSON has them)."""

_SHOWN = 6
_ISSUED = {
    "library": "calls as nccl-tests issues them",
    "graph": "calls captured in a graph",
    "eager": "calls of torch, one by one",
}


def nothing_counts(measured: Measured) -> UsageError:
    """The error for a file without a point, with what is wrong with its rows."""
    if measured.rows and measured.unhealthy == measured.rows:
        words = " or ".join(repr(word) for word in measured.health_words)
        return UsageError(
            f"none of {measured.rows} rows is of a healthy table: health is {words} in all",
            where=measured.file,
            expected='tables whose column health says "healthy" (or no such column)',
            fix="`clusterlab import` writes unhealthy for a table with wrong elements: such times are of "
            "something else than the collective",
        )
    return UsageError(
        f"no measurement that counts in {measured.rows} rows",
        where=measured.file,
        expected=f'rows with {LIMITS} (with a column health: "healthy")',
        fix=named(measured.unusable) or None,
    )


def asked_notes(asked: Asked) -> Iterator[str]:
    """What holds for all rows."""
    yield f"timing {asked.issue}: {_ISSUED[asked.issue]}"
    if asked.routing is not None:
        yield f"routing {asked.routing}"
    if asked.variables:
        yield "of all rows: " + " ".join(f"{k}={v}" for k, v in sorted(asked.variables.items()))


def other_machine_notes(others: Counter[str], asked: Asked) -> Iterator[str]:
    """Whose constants these are, and which rows they are not for."""
    if asked.calibration is not None:
        yield asked.calibration.source
    if others:
        each = ", ".join(f"{system} ({rows})" for system, rows in others.most_common(_SHOWN))
        more = ", …" if len(others) > _SHOWN else ""
        yield f"{others.total()} points of other machines than the calibration's left out: {each}{more}"


def version_notes(
    points: Sequence[MeasuredPoint], asked: Asked, systems: Sequence[PredictedOn]
) -> Iterator[str]:
    """Which release is taken for rows that name none, where there are too many to name each; that
    --nccl-version counts for few.
    """
    unsaid = sum(one.rows for one in systems if one.version_from == "newest known")
    if unsaid and len(systems) > MOST_SYSTEMS:
        taken = {f"{s.library} {s.version}" for s in systems if s.version_from == "newest known"}
        yield f"{unsaid} rows name no release: {', '.join(sorted(taken))} is taken (--nccl-version)"
    own = sum(version_said(point) is not None for point in points)
    if own and asked.library_version is not None:
        yield f"{own} rows name a release of their own: --nccl-version does not count for them"


def choice_notes(points: Sequence[MeasuredPoint], asked: Asked) -> Iterator[str]:
    """What the columns algo and proto made of rows, and the cells nobody reads."""
    said = Counter(v for p in points if (v := choice_of(p.algo, p.proto).variables))
    if said:
        each = ", ".join(
            f"{' '.join(f'{name}={value}' for name, value in variables)} ({rows})"
            for variables, rows in said.most_common(_SHOWN)
        )
        yield (
            f"{said.total()} rows say in algo or proto what ran, and are predicted so: {each}"
            + (", …" if len(said) > _SHOWN else "")
        )
    others = sum(
        rows
        for variables, rows in said.items()
        if any(asked.variables.get(name, value) != value for name, value in variables)
    )
    if others:
        yield f"{others} rows keep what their own algo or proto says, whatever -x says"
    unread = Counter(cell for p in points for cell in choice_of(p.algo, p.proto).unread)
    if unread:
        each = ", ".join(
            f"{column} {cell[:40]!r} ({rows} rows)"
            for (column, cell), rows in unread.most_common(_SHOWN)
        )
        more = ", …" if len(unread) > _SHOWN else ""
        yield f"not read: {each}{more}; accepted: {ACCEPTED}"


def remark_notes(scored: Sequence[ScoredPoint]) -> Iterator[str]:
    """What must be known of the NCCL variables that were set, each once."""
    remarks = Counter(remark for one in scored for remark in one.remarks)
    for remark, rows in remarks.most_common(_SHOWN):
        yield f"{rows} rows: {remark}"


def left_out_notes(measured: Measured) -> Iterator[str]:
    """What was left out of the file."""
    if measured.unhealthy:
        yield f'{measured.unhealthy} rows of tables that are not "healthy" left out'
    if measured.no_time:
        yield f"{measured.no_time} rows without a time (or of size 0) left out"
    if measured.unusable:
        yield (
            f"{len(measured.unusable)} rows with figures that nothing measures left out: "
            + named(measured.unusable)
        )
    if measured.disagree:
        yield (
            f"{len(measured.disagree)} rows have a busbw that is not their size over their time (the first "
            f"in line {measured.disagree[0]}): their time is scored"
        )
    repeated = sum(p.samples - 1 for p in measured.points)
    if repeated:
        yield f"{repeated} rows repeat a point: the median of each point is scored"


def one_rank_notes(rows: int) -> Iterator[str]:
    """What was left out as it sends nothing."""
    if rows:
        yield f"{rows} rows of one rank left out: nothing is sent, and a copy in memory is not predicted"


def one_latency_notes(
    everything: Sequence[ScoredPoint], scored: Sequence[ScoredPoint]
) -> Iterator[str]:
    """Which rows --one-latency spent."""
    before, after = ({s.point.table for s in some} for some in (everything, scored))
    yield (
        f"one latency: {len(everything) - len(scored)} rows (a published table's {LATENCY_ROWS} "
        f"smallest, else the smallest size) set their table's floor and are not scored"
    )
    if before - after:
        names = sorted(before - after)
        yield (
            f"{len(names)} tables have no other rows and are not scored: "
            + ", ".join(names[:_SHOWN])
            + (", …" if len(names) > _SHOWN else "")
        )


def assumed(measured: Measured) -> tuple[str, ...]:
    """What was filled in for each system, and the words nobody knows."""
    lines: dict[str, None] = {}
    for description in dict.fromkeys(map(description_of, measured.points)):
        try:
            machine = machine_of(description)
        except UsageError:
            continue  # its rows say so
        if machine.assumed:
            lines[f"{description.system}: {', '.join(machine.assumed)}"] = None
        if machine.unknown:
            lines[f"{description.system}: words not understood: {', '.join(machine.unknown)}"] = (
                None
            )
    return tuple(lines)
