"""From runs to what is at fault: their pairs and groups put on the fabric that they ran on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from clusterlab.core.errors import ClusterlabError, UsageError
from clusterlab.core.findings import Finding, Severity
from clusterlab.core.patterns import ONE_BY_ONE
from clusterlab.core.placement import Placement
from clusterlab.core.rows import Row
from clusterlab.cost.routing import routing_of
from clusterlab.records.documents import read_placement
from clusterlab.records.run_dir import RunDir
from clusterlab.records.store import latest_rows
from clusterlab.runs.comparing.fit import check_ranks, check_runs, problems_of
from clusterlab.runs.run_fabric import fabric_of_run
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.match import place_like
from clusterlab.topology.parts import Link
from clusterlab.topology.routing.network import has_network
from clusterlab.verdict.localise.cabling import Field, field_of
from clusterlab.verdict.localise.evidence import Evidence
from clusterlab.verdict.localise.hunt import LEAST_BITS
from clusterlab.verdict.localise.infer import Inferred
from clusterlab.verdict.localise.informative import Unknown, gain_of, next_round, pool_of
from clusterlab.verdict.localise.messages import Message, Step, of_messages
from clusterlab.verdict.localise.types import Answer, Probe, Seen, Suspect

MOST_RANKS = 4096
"""Of more, pairs alone are eight million."""

CODES: Mapping[str, str] = {
    "nic": "SLOW_LINK",
    "cable": "SLOW_LINK",
    "direction": "SLOW_LINK",
    "bundle": "SLOW_LINK",
    "link": "SLOW_LINK",
    "ports": "SLOW_SWITCH",
    "switch": "SLOW_SWITCH",
    "host": "SLOW_HOST",
    "rank": "SLOW_RANK",
    "rail": "SLOW_RAIL",
}

FIXES: Mapping[str, str] = {
    "SLOW_LINK": "look at its cable, its ports' rates and error counters (`ibstat`, `ethtool -S`, "
    "`perfquery`), and measure its pairs alone: `clusterlab bench pairs --one-by-one`; `clusterlab hunt` "
    "measures until one part is left",
    "SLOW_SWITCH": "look at the switch's port rates and counters (`perfquery -a`, `ibdiagnet`), its "
    "temperature and firmware",
    "SLOW_HOST": "see what else runs there (`top`, `clusterlab doctor`), its clocks, PCIe link widths and "
    "IOMMU; drain it until it is understood",
    "SLOW_RANK": "look at this rank's GPU (`nvidia-smi -q`), its PCIe link width and the cores it is on "
    "(`clusterlab doctor`)",
    "SLOW_RAIL": "look at the rail's leaf switches and at the port state of its NICs (`ibstat`)",
}


@dataclass(frozen=True, slots=True)
class Localised:
    """What runs say. ``ranks``: by fault, the ranks of its slow measurements. ``on``: the fabric, if any.

    ``measured``: how many messages and groups. ``next_probes``: those that would tell most beside them, where
    anything is left to tell. ``problems``: why that nothing is named would prove nothing.
    """

    answer: Answer
    ranks: tuple[tuple[int, ...], ...]
    on: Fabric | None
    measured: int
    next_probes: tuple[Probe, ...] = ()
    problems: tuple[str, ...] = ()


def localise_runs(runs: Sequence[RunDir], fabric: Fabric | None = None) -> Localised | None:
    """What makes messages of ``runs`` slow, on ``fabric`` or the one that they were predicted on; None where
    there is nothing to compare.

    Raises UsageError for runs of different ranks, NoVerdictError for one that is given twice.
    """
    check_runs(runs)
    placement = _placement(runs)
    rows: dict[Path, Sequence[Row]] = {}
    problems: list[str] = []
    for run in runs:
        every = run.records().rows
        rows[run.path] = latest_rows(every).rows
        check_ranks(run, rows[run.path], placement)
        problems += problems_of(run, every, rows[run.path])
    found = _localise(runs, rows, placement, fabric)
    return None if found is None else replace(found, problems=tuple(problems))


def _localise(
    runs: Sequence[RunDir],
    rows: Mapping[Path, Sequence[Row]],
    placement: Placement | None,
    fabric: Fabric | None,
) -> Localised | None:
    rounds = [
        (step, not _one_by_one(run)) for run in runs for step in _rounds(_telling(rows[run.path]))
    ]
    if not rounds or placement is None or placement.world_size > MOST_RANKS:
        return None
    backend = rounds[0][0][0].backend
    if len(placement.hosts) == 1 and backend == "gloo":
        return None  # cores, not links: what is slow there changes from call to call
    fabric = fabric or next(filter(None, (fabric_of_run(run) for run in runs)), None)
    field = _field(fabric, placement, backend, rounds) if fabric is not None else None
    if field is None:
        return _by_host([row for step, _ in rounds for row in step], placement)
    evidence = Evidence(field)
    for step, at_once in rounds:
        for part in [step] if at_once else [[row] for row in step]:
            evidence.add(
                tuple(_probe(row) for row in part), [_seen(row) for row in part], chosen=False
            )
    found = evidence.infer()
    answer = found.answer
    probes = evidence.probes
    ranks = tuple(_ranks(fault, [p.ranks for p in probes]) for fault in answer.faults)
    return Localised(answer, ranks, fabric, len(probes), _next(field, found))


def _next(field: Field, found: Inferred) -> tuple[Probe, ...]:
    """The messages that tell most, the best first."""
    pool = pool_of(field)
    if not pool.probes:
        return ()
    noise = found.answer.noise
    known = tuple((fault.numbers[0], fault.left) for fault in found.answer.faults)
    unknown = [
        *(Unknown(one, (*known[:i], *known[i + 1 :])) for i, one in enumerate(found.of_faults)),
        Unknown(found.more, known),
    ]
    probes, _ = next_round(field, pool, unknown, noise, seed=0)
    told = gain_of(pool.crossed, unknown, noise)
    gain = dict(zip(pool.probes, told.tolist(), strict=True))
    return tuple(sorted((p for p in probes if gain[p] > LEAST_BITS), key=lambda p: -gain[p]))


def _placement(runs: Sequence[RunDir]) -> Placement | None:
    found: Placement | None = None
    for run in runs:
        placement = read_placement(run.path)
        if found is not None and placement is not None and _where(found) != _where(placement):
            raise UsageError(
                "its ranks are not where those of the others are",
                where=str(run.path),
                expected="runs of the same ranks on the same hosts",
            )
        found = found or placement
    return found


def _where(placement: Placement) -> list[tuple[str, int]]:
    return [(r.host, r.local_rank) for r in placement.ranks]


def _one_by_one(run: RunDir) -> bool:
    return str(run.info.configuration.get("pattern", "")).endswith(ONE_BY_ONE)


def _telling(rows: Sequence[Row]) -> list[Row]:
    """Of messages and of groups those of the largest size: small ones tell of latency. One-way messages where
    there are any, since those both ways at once tell of either; a point once.
    """
    pairs = [
        r for r in rows if r.ranks is not None and len(r.ranks) == 2 and 0 < r.algbw_GBps < math.inf
    ]
    sent = [r for r in pairs if r.collective == "send"]
    sent = sent or [r for r in pairs if r.collective == "send_recv"]
    groups = [
        r
        for r in rows
        if r.ranks is not None
        and len(r.ranks) > 2
        and r.beside is None
        and 0 < r.busbw_GBps < math.inf
    ]
    kept: list[Row] = []
    for some in (sent, groups):
        largest: dict[str, int] = {}
        for r in some:
            largest[r.collective] = max(largest.get(r.collective, 0), r.requested_bytes)
        kept += [r for r in some if r.requested_bytes == largest[r.collective]]
    return kept


def _rounds(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Rows that were measured at the same time: of one kind, after one another, on different ranks."""
    step: list[Row] = []
    taken: set[int] = set()
    for row in rows:
        mine = set(row.ranks or ())
        if step and (row.collective != step[-1].collective or taken & mine):
            yield step
            step, taken = [], set()
        step.append(row)
        taken |= mine
    if step:
        yield step


def _probe(row: Row) -> Probe:
    assert row.ranks is not None, "rows of some ranks only"
    if row.collective == "send":
        return Probe("send", row.ranks)
    pair = row.collective == "send_recv" and len(row.ranks) == 2
    return Probe("send_recv" if pair else "ring", row.ranks)


def _seen(row: Row) -> Seen:
    return Seen(row.algbw_GBps if len(row.ranks or ()) == 2 else row.busbw_GBps)


def _field(
    fabric: Fabric,
    placement: Placement,
    backend: str,
    rounds: Sequence[tuple[Sequence[Row], bool]],
) -> Field | None:
    with suppress(ClusterlabError):  # fewer hosts, or no network
        if has_network(fabric):
            one_way = any(step[0].collective == "send" for step, _ in rounds)
            placed = place_like(fabric, placement)
            whole = whole_rates(fabric)
            return field_of(whole, placed, routing_of(fabric, backend), one_way=one_way)
    return None


def whole_rates(fabric: Fabric) -> Fabric:
    """``fabric`` with whole links in place of degraded ones: one that its file calls broken is slow all the
    same. What is down stays down, as no way leads there.
    """
    changes: dict[tuple[str, str], list[Link]] = {}
    for link in fabric.network_links:
        if link.health < 1:
            ends = (link.src, link.dst)
            changes[ends] = [
                replace(k, health=1.0 if k.health > 0 else 0.0)
                for k in fabric.links_from(link.src)
                if k.dst == link.dst
            ]
    return fabric.with_links(changes) if changes else fabric


def _by_host(rows: Sequence[Row], placement: Placement) -> Localised | None:
    """Without a fabric: out of the rank, out of its host, and in again."""
    messages = [_message(row, placement) for row in rows if len(row.ranks or ()) == 2]
    if not messages:
        return None
    answer = of_messages(messages)
    ranks = tuple(_ranks(fault, [m.ranks for m in messages]) for fault in answer.faults)
    return Localised(answer, ranks, None, len(messages))


def _message(row: Row, placement: Placement) -> Message:
    assert row.ranks is not None, "pairs only"
    a, b = (placement.ranks[rank] for rank in row.ranks)
    across: tuple[Step, ...] = ((a.host, "network"), ("network", b.host))
    kind = "between hosts"
    if a.host == b.host:
        across, kind = (), "one host"
    # Where a rank has its host to itself, the two are one.
    alone = len(set(placement.hosts)) == placement.world_size
    ends: tuple[Step, ...] = ((f"rank {a.rank}", a.host),)
    way = across if alone else (*ends, *across, (b.host, f"rank {b.rank}"))
    return Message((a.rank, b.rank), row.algbw_GBps, None, kind, way)


def _ranks(fault: Suspect, probes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(sorted({rank for i in fault.slow for rank in probes[i]}))


def finding_of(
    fault: Suspect,
    ranks: tuple[int, ...],
    fabric: Fabric | None,
    *,
    severity: Severity = Severity.WARNING,
) -> Finding:
    """What is known of one fault."""
    code = CODES[fault.kinds[0]]
    evidence = [sentence(fault), *_said_by(fabric, fault.links)]
    if fault.others:
        evidence.append(f"nothing that was measured tells it from {', '.join(fault.others)}")
    if fabric is None:
        evidence.append(
            "no fabric was named, or its file has changed: hosts are as near as pairs can tell"
        )
    return Finding(code, severity, tuple(evidence), FIXES[code], ranks=ranks, links=fault.links)


def sentence(fault: Suspect) -> str:
    """``n3/nic0 ↔ leaf1: 14 of the 14 messages that cross it are slow: …``."""
    return (
        f"{fault.name}: {len(fault.slow)} of the {fault.crossing} messages that cross it are slow: "
        f"{fault.rate:.3g} GB/s where others get {fault.usual:.3g}"
    )


def _said_by(fabric: Fabric | None, links: Sequence[str]) -> list[str]:
    """Where the fabric's file calls such a link broken itself."""
    if fabric is None:
        return []
    return [
        f"{fabric.name} says {link.health:.0%} of it is left"
        for link in fabric.network_links
        if link.name in links and link.health < 1
    ]


def suspect_json(fault: Suspect, ranks: Sequence[int] = ()) -> dict[str, Any]:
    """Plain data."""
    data = asdict(fault)
    kept = ("components", "kinds", "confidence", "left", "crossing", "links")
    return {
        "name": fault.name,
        **{k: data[k] for k in kept},
        "slow": len(fault.slow),
        "rate": _number(fault.rate),
        "usual": _number(fault.usual),
        "ranks": list(ranks),
    }


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
