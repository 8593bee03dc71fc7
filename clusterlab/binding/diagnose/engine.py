"""All rules over a record: findings, each once, consequences under their cause."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from clusterlab.binding.diagnose import (
    container,
    cpu,
    identity,
    index_spaces,
    leftovers,
    mapping,
    masks,
    nic,
    places,
    pmi,
    ports,
    rendezvous,
    slurm_binding,
    slurm_identity,
    vendors,
    visibility,
    worlds,
)
from clusterlab.binding.diagnose.saying import alike
from clusterlab.binding.diagnose.scene import Scene
from clusterlab.binding.folding import fold
from clusterlab.binding.log_errors import classify_lines
from clusterlab.binding.log_patterns import PATTERNS
from clusterlab.binding.records import JoinedRecord, RankRecord
from clusterlab.core.findings import Finding, Severity

Rule = Callable[[Scene], Iterable[Finding]]

RULES: tuple[Rule, ...] = (
    *masks.RULES,
    *index_spaces.RULES,
    *visibility.RULES,
    *vendors.RULES,
    *mapping.RULES,
    *slurm_binding.RULES,
    *identity.RULES,
    *worlds.RULES,
    *slurm_identity.RULES,
    *places.RULES,
    *leftovers.RULES,
    *pmi.RULES,
    *rendezvous.RULES,
    *ports.RULES,
    *cpu.RULES,
    *nic.RULES,
    *container.RULES,
)

_BY_VARIABLE = frozenset({"IFACE_WRONG"})
_ORDER = (Severity.INFO, Severity.WARNING, Severity.ERROR, Severity.FATAL)


def diagnose(record: JoinedRecord) -> list[Finding]:
    """Everything found in ``record``, causes first, each followed by its consequences."""
    scene = Scene(record)
    found = [f for rule in RULES for f in rule(scene)] if record.ranks else []
    found += _missing(record) + _contradictory(record)
    found += _said_only(record, found)
    return fold(_merged(found))


def _missing(record: JoinedRecord) -> list[Finding]:
    if not record.missing_ranks:
        return []
    evidence = (
        f"{len(record.missing_ranks)} of {len(record.missing_ranks) + len(record.ranks)} ranks"
    )
    fix = "# see what they printed (srun --label) and whether their processes live (ps on the node)"
    return [
        Finding(
            "RANK_MISSING",
            Severity.FATAL,
            (f"{evidence} did not arrive: {', '.join(map(str, record.missing_ranks[:32]))}",),
            fix,
            ranks=tuple(record.missing_ranks),
        )
    ]


def _contradictory(record: JoinedRecord) -> list[Finding]:
    if not record.contradictions:
        return []
    fix = "clusterlab doctor --bundle DIR\n# record it anew, under the same launcher"
    shown = record.contradictions
    return [Finding("RECORD_CONTRADICTION", Severity.WARNING, tuple(shown), fix)]


def _said_only(record: JoinedRecord, found: Sequence[Finding]) -> list[Finding]:
    """What error texts tell beyond the rules: vague ones only of ranks for which no rule found a cause."""
    explained = {rank for f in found if _ORDER.index(f.severity) >= 1 for rank in f.ranks}
    clear = [p for p in PATTERNS if not p.vague]
    said = [
        *classify_lines(_texts(r for r in record.ranks if r.rank in explained), clear),
        *classify_lines(_texts(r for r in record.ranks if r.rank not in explained)),
    ]
    known = {f.code for f in found} | _disproved(record)
    return [f for f in said if f.code not in known]


def _texts(ranks: Iterable[RankRecord]) -> list[str]:
    return [
        f"[rank{r.rank}]: {line}"
        for r in ranks
        for line in f"{r.error}\n{r.stderr}".splitlines()
        if line.strip()
    ]


def _disproved(record: JoinedRecord) -> set[str]:
    """Codes whose texts the record contradicts: Slurm prints a bind error also where it bound rightly."""
    views = [(r.host, r.visible) for r in record.ranks]
    apart = all(visible for _, visible in views) and len(set(views)) == len(views) > 1
    return {"GPU_BIND_OUT_OF_ALLOC"} if apart else set()


def _merged(findings: Iterable[Finding]) -> list[Finding]:
    """One finding per code: what several rules or hosts found is joined, the worst severity stays."""
    by_code: dict[str, list[Finding]] = {}
    for found in findings:
        by_code.setdefault(found.code, []).append(found)
    return [_join(same) for same in by_code.values()]


def _join(same: Sequence[Finding]) -> Finding:
    worst = max(same, key=lambda f: _ORDER.index(f.severity))
    evidence = alike(line for f in (worst, *same) for line in f.evidence)
    ranks = sorted({rank for f in same for rank in f.ranks})
    fix = _fixes_together(same) if worst.code in _BY_VARIABLE else worst.fix
    return Finding(worst.code, worst.severity, tuple(evidence), fix, ranks=tuple(ranks))


def _fixes_together(same: Sequence[Finding]) -> str:
    """All commands, then all comments: each finding is about another variable."""
    lines = dict.fromkeys(line for f in same for line in f.fix.split("\n"))
    return "\n".join(sorted(lines, key=lambda line: line.startswith("# ")))
