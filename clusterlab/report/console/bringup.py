"""The bring-up of a job for a terminal, and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from clusterlab.core.bringup import Bringup, InitSplit, RankBringup, rank_to_json
from clusterlab.core.findings import Finding
from clusterlab.report.numbers import three_digits
from clusterlab.report.text import plain
from clusterlab.verdict.bringup import (
    TOLERANCE,
    WORDS,
    amount,
    growths,
    job_s,
    judged,
    last_to_arrive,
    spreads,
    warm_up,
)

_WAYS = {
    "single": "none needed",
    "pmix": "PMIx",
    "node_list": "the first node of Slurm's node list",
    "meeting_point": "a meeting point on this host",
    "torchrun": "torchrun's store",
    "master_addr": "MASTER_ADDR",
    "file": "a shared file",
    "local": "the socket of the process that forked them",
}
_MEANING = {
    "start": "interpreter, import clusterlab",
    "identity": "who am I",
    "torch": "import torch",
    "rendezvous": "reach the store, all ranks there",
    "device": "agree on GPUs, CUDA context",
    "communicator": "the default process group",
    "first_call": "all_reduce of 4 bytes",
    "total": "process start to the first result",
    "second_call": "the same again, connected",
}
_P95 = 0.95


def bringup_lines(bringup: Bringup, findings: Sequence[Finding]) -> list[str]:
    """The table: phases, NCCL's split, communicators, growth, findings."""
    ranks = bringup.ranks
    hosts = len({rank.host for rank in ranks})
    way = _WAYS.get(bringup.rendezvous, bringup.rendezvous)
    lines = [
        f"# clusterlab bringup: {_count(len(ranks), 'rank')} on {_count(hosts, 'host')}, "
        f"{bringup.versions}",
        f"# identity from {bringup.identity_source}, rendezvous: {way} ({bringup.rendezvous})",
        f"{'seconds':<14}{'min':>9}{'median':>9}{'slowest':>9}  {'who':<18} what",
    ]
    for s in spreads(ranks):
        times = "".join(f"{seconds:>9.3f}" for seconds in (s.min_s, s.median_s, s.max_s))
        lines.append(f"{s.phase:<14}{times}  {_who(s.slowest):<18} {_MEANING[s.phase]}")
    last, after_s = last_to_arrive(ranks)
    if len(ranks) > 1:
        lines.append(
            f"# {_who(last)} reached the rendezvous last, {after_s:.3f} s after its start: the others' "
            "rendezvous holds the wait for it"
        )
        lines.append(
            f"# {job_s(ranks):.3f} s from the first start to the last result, by the hosts' clocks"
        )
    lines += _init_lines(ranks)
    lines += _repeated_lines(bringup)
    for finding in findings:
        lines.append(
            f"# {finding.severity.value} {finding.code} (ranks {', '.join(map(str, finding.ranks))})"
        )
        lines += [f"#   {plain(line)}" for line in finding.evidence]
        lines.append(f"#   fix: {finding.fix}")
    return lines


def bringup_json(bringup: Bringup, findings: Sequence[Finding]) -> dict[str, Any]:
    """All of it: ranks as measured, phases over ranks, growth, verdict, findings."""
    verdict = judged(bringup)
    last, after_s = last_to_arrive(bringup.ranks)
    return {
        "backend": bringup.backend,
        "rendezvous": bringup.rendezvous,
        "identity_source": bringup.identity_source,
        "versions": bringup.versions,
        "world_size": len(bringup.ranks),
        "phases": {
            s.phase: {
                "min_s": s.min_s,
                "median_s": s.median_s,
                "max_s": s.max_s,
                "slowest_rank": s.slowest.rank,
            }
            for s in spreads(bringup.ranks)
        },
        "last_to_arrive": {"rank": last.rank, "after_s": after_s},
        "job_s": job_s(bringup.ranks),
        "growth": [
            {
                "resource": g.resource,
                "rank": g.rank,
                "per_communicator": g.per_communicator,
                "steady": g.steady,
                "whole": g.whole,
                "tolerance": TOLERANCE[g.resource],
                "grows": g.grows,
            }
            for g in growths(bringup)
        ],
        "verdict": verdict[0] if verdict else None,
        "reason": verdict[1] if verdict else None,
        "findings": [finding.to_json() for finding in findings],
        "ranks": [rank_to_json(rank) for rank in bringup.ranks],
    }


def _init_lines(ranks: Sequence[RankBringup]) -> list[str]:
    """NCCL's own split: median over ranks of each part, and the slowest rank of the whole."""
    splits = [(rank, rank.init) for rank in ranks if rank.init is not None]
    if not splits:
        return []
    slowest, worst = max(splits, key=lambda pair: pair[1].total_s)
    names = list(dict.fromkeys(name for _, split in splits for name in split.parts))
    parts = ", ".join(f"{n} {_part(splits, n):.2f}" for n in names)
    function = splits[0][1].function or "init"
    return [
        f"# NCCL's own split of {function}, s, median: total "
        f"{median(split.total_s for _, split in splits):.2f} ({parts})",
        f"#   slowest {worst.total_s:.2f} on {_who(slowest)}",
    ]


def _part(splits: Sequence[tuple[RankBringup, InitSplit]], name: str) -> float:
    return median(split.parts.get(name, 0.0) for _, split in splits)


def _repeated_lines(bringup: Bringup) -> list[str]:
    made = [(rank, rank.repeated) for rank in bringup.ranks if rank.repeated is not None]
    verdict = judged(bringup)
    if not made or verdict is None:
        return []
    times = len(made[0][1].create_s)
    function = made[0][1].function
    lines = [
        f"# {times} communicators of all ranks, made, used once and destroyed"
        + (f"; NCCL made them by {function}" if function else ""),
        f"{'ms':<14}{'first':>9}{'median':>9}{'p95':>9}{'max':>9}",
    ]
    for title, column in (
        ("create", [repeated.create_s for _, repeated in made]),
        ("first call", [repeated.first_call_s for _, repeated in made]),
        ("destroy", [repeated.destroy_s for _, repeated in made]),
        ("NCCL's init", [repeated.init_s for _, repeated in made if repeated.init_s]),
    ):
        if column:
            # the slowest rank's time of each: all wait for it
            slowest_ms = [max(each) * 1e3 for each in zip(*column, strict=False)]
            shown = (slowest_ms[0], median(slowest_ms), _quantile(slowest_ms), max(slowest_ms))
            lines.append(f"{title:<14}" + "".join(f"{three_digits(ms):>9}" for ms in shown))
    rows = growths(bringup)
    if rows:
        lines.append(
            f"{'growth':<18}{'each':>10}{'allowed':>10}{'in all':>10}  "
            f"worst rank, after {warm_up(times)} to warm up"
        )
    for g in rows:
        cells = (g.per_communicator, TOLERANCE[g.resource], g.whole)
        shown_text = "".join(f"{amount(g.resource, cell):>10}" for cell in cells)
        lines.append(f"{WORDS[g.resource]:<18}{shown_text}  rank {g.rank} on {plain(g.host)}")
    return [*lines, f"# {verdict[0]}: {verdict[1]}"]


def _quantile(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(_P95 * len(ordered)))]


def _who(rank: RankBringup) -> str:
    return f"rank {rank.rank} on {plain(rank.host)}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}" + ("" if number == 1 else "s")
