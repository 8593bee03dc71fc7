"""Consequences under their cause: which finding is behind which, as data and one pure function."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from clusterlab.core.findings import Finding

_NOBODY_KNOWS = ("LOCAL_RANK_UNDETECTED", "IDENTITY_CONFLICT", "STALE_ENV", "RANK_DUPLICATE")
_WRONG_DEVICE = (
    "LAUNCHER_NESTED",
    "CVD_SET_AFTER_INIT",
    "GPU_BIND_OUT_OF_ALLOC",
    "GPU_BIND_CLOSEST_MULTI",
    "PMI_MISMATCH",
    *_NOBODY_KNOWS,
    "RANK_SINGLETON",
    "RANK_MODULO_MISMAP",
    "DEVICE_ORDER_MISMATCH",
    "CVD_UNSET",
)
_BAD_MASK = (
    "VENDOR_MASK_CONFLICT",
    "MIG_LIMIT",
    "CVD_STALE_INDEX_SPACE",
    "CVD_DUPLICATE_ENTRY",
    "CVD_SYNTAX",
    "CVD_TRUNCATED",
)

# consequence → what may be behind it, the likeliest first
CAUSES: dict[str, tuple[str, ...]] = {
    "CVD_LOCAL_RANK_MISMATCH": (
        *_BAD_MASK,
        "CVD_UUID_UNPARSED",
        "LAUNCHER_NESTED",
        "RANK_MODULO_MISMAP",
        "IDENTITY_CONFLICT",
    ),
    "CVD_EMPTY": _BAD_MASK,
    "CVD_TRUNCATED": ("CVD_STALE_INDEX_SPACE", "CVD_SYNTAX"),
    "CVD_DUPLICATE_ENTRY": ("CVD_SYNTAX",),
    "GPU_SHARED_BY_RANKS": (*_WRONG_DEVICE, "CVD_LOCAL_RANK_MISMATCH", "DEVICE_NOT_SET"),
    "DEVICE_NOT_SET": _WRONG_DEVICE,
    "GPU_IDLE": ("RANK_MISSING", "STALE_ENV", *_WRONG_DEVICE, "GPU_SHARED_BY_RANKS"),
    "IPC_ISOLATED": ("CVD_STALE_INDEX_SPACE", "CVD_LOCAL_RANK_MISMATCH"),
    "STEP_GPUS_UNRELIABLE": ("CVD_LOCAL_RANK_MISMATCH", "IPC_ISOLATED"),
    "RANK_SINGLETON": (
        "CONTAINER_ENV",
        "PMIX_COMPONENT",
        "PMI_MISMATCH",
        "LOCAL_RANK_UNDETECTED",
        "STALE_ENV",
        "WORLD_SIZE_MISMATCH",
    ),
    "IDENTITY_CONFLICT": ("LAUNCHER_NESTED", "STALE_ENV", "WORLD_SIZE_MISMATCH"),
    "RANK_DUPLICATE": (
        "LAUNCHER_NESTED",
        "STALE_ENV",
        "WORLD_SIZE_MISMATCH",
        "IDENTITY_CONFLICT",
    ),
    "WORLD_SIZE_MISMATCH": ("SCOPE_MIX", "STALE_ENV", "LAUNCHER_NESTED"),
    "MASTER_PORT_COLLISION": (
        "LAUNCHER_NESTED",
        "STALE_ENV",
        "WORLD_SIZE_MISMATCH",
        "IDENTITY_CONFLICT",
        "RANK_DUPLICATE",
    ),
    "MASTER_ADDR_WRONG": (
        "NODELIST_PARSE",
        "SCOPE_MIX",
        "RANK_PLACEMENT",
        "MASTER_PORT_COLLISION",
        "LAUNCHER_NESTED",
    ),
    "SLURM_VAR_FORMAT": ("UNEVEN_TASKS",),
    "CONTAINER_ENV": ("CVD_STALE_INDEX_SPACE", "PMIX_COMPONENT"),
    "STALE_ENV": ("CPU_MASK_INHERITED",),
    "CPU_SINGLE_CORE": ("CPU_MASK_INHERITED",),
    "OMP_THREADS": ("CPU_MASK_INHERITED", "CPU_SINGLE_CORE"),
    "CPU_NUMA_REMOTE": (
        "CPU_MASK_INHERITED",
        "NVML_INDEX_MISMATCH",
        "DEVICE_ORDER_MISMATCH",
        *_WRONG_DEVICE,
        "DEVICE_NOT_SET",
        "GPU_SHARED_BY_RANKS",
    ),
    "NIC_FAR": (
        "CONTAINER_ENV",
        "NIC_FILTER_PREFIX",
        "NIC_FILTER_DIVERGENT",
        *_WRONG_DEVICE,
        "DEVICE_NOT_SET",
        "GPU_SHARED_BY_RANKS",
    ),
    "NIC_RAIL_MISMATCH": (*_WRONG_DEVICE, "GPU_SHARED_BY_RANKS"),
    "COMMUNICATION_FAILED": (
        "RANK_MISSING",
        "LAUNCHER_NESTED",
        *_BAD_MASK,
        "CVD_UUID_UNPARSED",
        "CVD_LOCAL_RANK_MISMATCH",
        "CVD_EMPTY",
        "GPU_SHARED_BY_RANKS",
        "PMI_MISMATCH",
        "PMIX_COMPONENT",
        "LAUNCH_FAILED",
        "IFACE_WRONG",
        "MASTER_ADDR_WRONG",
        "MASTER_PORT_COLLISION",
        "HOSTNAME_COLLISION",
    ),
}

# What one rank does wrong, all others notice: these follow from a cause on any rank.
_NOTICED_BY_OTHERS = frozenset({"COMMUNICATION_FAILED"})


def fold(findings: Sequence[Finding]) -> list[Finding]:
    """The findings with ``caused_by`` set, causes before consequences, most severe first among causes.

    A finding is behind another where ``CAUSES`` says so, they concern a rank in common (or one of them
    names none), and the chain does not lead back.
    """
    order = ("fatal", "error", "warning", "info")
    ranked = sorted(findings, key=lambda f: order.index(f.severity))
    behind: dict[str, str] = {}
    for found in ranked:
        for code in CAUSES.get(found.code, ()):
            if (
                code != found.code
                and not _leads_to(code, found.code, behind)
                and _meets(found, code, ranked)
            ):
                behind.setdefault(found.code, code)
                break
    linked = _raised(
        [
            replace(f, caused_by=behind[f.code]) if _has_cause(f, behind, ranked) else f
            for f in ranked
        ]
    )
    roots = [f for f in linked if f.caused_by is None]
    placed: list[Finding] = []
    for root in roots:
        _place(root, linked, placed)
    return placed + [f for f in linked if not any(f is p for p in placed)]


def _raised(findings: Sequence[Finding]) -> list[Finding]:
    """A cause is as bad as the worst of what follows from it."""
    order = ("info", "warning", "error", "fatal")
    worst = {f.code: f.severity for f in findings}
    for _ in findings:
        for found in findings:
            cause = found.caused_by
            if cause in worst and order.index(worst[cause]) < order.index(worst[found.code]):
                worst[cause] = worst[found.code]
    raised = [replace(f, severity=worst[f.code]) for f in findings]
    return sorted(raised, key=lambda f: -order.index(f.severity))


def _has_cause(found: Finding, behind: dict[str, str], findings: Sequence[Finding]) -> bool:
    return found.code in behind and _meets(found, behind[found.code], findings)


def _meets(found: Finding, code: str, findings: Sequence[Finding]) -> bool:
    """Whether a finding of ``code`` concerns a rank that ``found`` concerns; a doubt causes no fault."""
    order = ("info", "warning", "error", "fatal")
    if found.code == "MASTER_ADDR_WRONG" and code == "LAUNCHER_NESTED" and not _ports_only(found):
        return False
    return any(
        other.code == code
        and (
            found.code in _NOTICED_BY_OTHERS
            or code == "RANK_MISSING"
            or not other.ranks
            or not found.ranks
            or set(other.ranks) & set(found.ranks)
        )
        and not (other.severity == "info" and order.index(found.severity) > 0)
        for other in findings
    )


def _ports_only(found: Finding) -> bool:
    """Whether the ranks agree on the master's address: each spawner chose a port of its own."""
    addresses = {a for text in found.evidence for a in re.findall(r"MASTER_ADDR=(\S+)", text)}
    return len(addresses) == 1


def _leads_to(code: str, target: str, behind: dict[str, str]) -> bool:
    seen = set()
    while code in behind and code not in seen:
        seen.add(code)
        code = behind[code]
    return code == target


def _place(finding: Finding, linked: Sequence[Finding], placed: list[Finding]) -> None:
    if any(finding is p for p in placed):
        return
    placed.append(finding)
    for other in linked:
        if other.caused_by == finding.code:
            _place(other, linked, placed)
