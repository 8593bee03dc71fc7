"""What ``clusterlab localise`` prints."""

from __future__ import annotations

from typing import Any

from clusterlab.runs.hunting.localise import Localised, finding_of, suspect_json


def localised_json(found: Localised) -> dict[str, Any]:
    """Plain data."""
    answer = found.answer
    return {
        "verdict": "named" if answer.faults else _nothing(found),
        "problems": list(found.problems),
        "fabric": found.on.name if found.on is not None else None,
        "measured": found.measured,
        "looked_at": answer.looked_at,
        "components": answer.components,
        "healthy": answer.healthy,
        "noise": answer.noise,
        "pace": answer.pace,
        "faults": [
            suspect_json(fault, ranks)
            for fault, ranks in zip(answer.faults, found.ranks, strict=True)
        ],
        "ranking": [suspect_json(s) for s in answer.ranking[:5]],
        "next": [{"way": p.way, "ranks": list(p.ranks)} for p in found.next_probes],
    }


def _nothing(found: Localised) -> str:
    """What it means that nothing is named: no verdict where rows are missing or wrong."""
    return "no_verdict" if found.problems else "nothing named"


def localised_lines(found: Localised) -> list[str]:
    """For people."""
    answer = found.answer
    lines = []
    for fault, ranks in zip(answer.faults, found.ranks, strict=True):
        finding = finding_of(fault, ranks, found.on)
        lines.append(f"{finding.code}: {finding.evidence[0]} (probability {fault.confidence:.1%})")
        lines += [f"  {text}" for text in finding.evidence[1:]]
        lines.append(f"  fix: {finding.fix}")
    if not answer.faults:
        where = f" on {found.on.name}" if found.on is not None else ""
        said = _nothing(found).replace("_", " ")
        lines.append(
            f"{said}{where}: {found.measured} messages and groups touch {answer.looked_at} of "
            f"{answer.components} parts; none is slower than {answer.sought:.0%} of its peers with "
            f"probability {answer.healthy:.1%}"
        )
        lines += [
            f"  suspected: {s.name}, {s.left:.0%} left, probability {s.confidence:.1%}"
            for s in answer.ranking[:3]
            if s.confidence > 0.05
        ]
    lines += [f"note: {problem}" for problem in found.problems]
    if found.next_probes:
        pairs = ", ".join(f"{a} ↔ {b}" for a, b in (p.ranks for p in found.next_probes[:8]))
        more = len(found.next_probes) - 8
        lines.append(
            f"next, the pairs of ranks that tell most: {pairs}"
            + (f" and {more} more" if more > 0 else "")
            + " (`clusterlab hunt` measures such)"
        )
    return lines
