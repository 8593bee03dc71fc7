"""What a diagnosis means for the one who asked: the exit code, and a conflict that kept ranks apart."""

from __future__ import annotations

from collections.abc import Sequence

from clusterlab.core.errors import ExitCode, UsageError
from clusterlab.core.findings import Finding, Severity
from clusterlab.launch.identity import IdentityError

_FATAL_IDENTITY = ("LAUNCHER_NESTED", "RANK_SINGLETON")


def exit_code(findings: Sequence[Finding], missing: Sequence[int]) -> ExitCode:
    """4 with ranks missing, 1 with a finding of severity error or above, else 0."""
    if missing:
        return ExitCode.DEADLINE
    bad = any(f.severity in (Severity.ERROR, Severity.FATAL) for f in findings)
    return ExitCode.FINDING if bad else ExitCode.OK


def identity_finding(error: UsageError, host: str, ranks: Sequence[int] = ()) -> Finding:
    """What ``error``, raised on ``host`` while a process asked who it is, is as a finding."""
    code = error.code if isinstance(error, IdentityError) else "IDENTITY_CONFLICT"
    severity = Severity.FATAL if code in _FATAL_IDENTITY else Severity.ERROR
    told = f"{error.where}: {error.message}" if error.where else error.message
    evidence = f"on {host}: {told} (expected {error.expected})"
    fix = f"# {error.fix or 'unset the variable: the launcher tells each process who it is'}"
    return Finding(code, severity, (evidence,), fix, ranks=tuple(ranks))
