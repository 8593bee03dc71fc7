"""What a diagnosis means for the one who asked: the exit code, and a conflict that kept ranks apart."""

from __future__ import annotations

from collections.abc import Sequence

from clusterlab.core.errors import ExitCode
from clusterlab.core.findings import Finding, Severity
from clusterlab.launch.identity import IdentityError

_FATAL_IDENTITY = ("LAUNCHER_NESTED", "RANK_SINGLETON")


def exit_code(findings: Sequence[Finding], missing: Sequence[int]) -> ExitCode:
    """4 with ranks missing, 1 with a finding of severity error or above, else 0."""
    if missing:
        return ExitCode.DEADLINE
    bad = any(f.severity in (Severity.ERROR, Severity.FATAL) for f in findings)
    return ExitCode.FINDING if bad else ExitCode.OK


def identity_finding(error: IdentityError, host: str, ranks: Sequence[int] = ()) -> Finding:
    """What ``error``, raised on ``host``, is as a finding."""
    severity = Severity.FATAL if error.code in _FATAL_IDENTITY else Severity.ERROR
    evidence = f"on {host}: {error.message} (expected {error.expected})"
    return Finding(error.code, severity, (evidence,), error.fix or "", ranks=tuple(ranks))
