"""What a diagnosis says: findings about ranks and links, verdicts about numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """How bad a finding is. ``error`` and ``fatal`` make a command exit with 1."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    FATAL = "fatal"


@dataclass(frozen=True, slots=True)
class Finding:
    """One diagnosed problem. ``code`` is stable; ``caused_by`` is the code of the finding behind it."""

    code: str
    severity: Severity
    evidence: tuple[str, ...]
    fix: str
    ranks: tuple[int, ...] = ()
    links: tuple[str, ...] = ()
    caused_by: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data, in the order people read it."""
        return asdict(self)


_ORDER = (Severity.FATAL, Severity.ERROR, Severity.WARNING, Severity.INFO)


def most_severe_first(findings: Iterable[Finding]) -> list[Finding]:
    """The findings by severity; among equals in the order given."""
    return sorted(findings, key=lambda finding: _ORDER.index(finding.severity))


class Verdict(StrEnum):
    """What can be said of one measured point or of a run."""

    PASS = "pass"
    SLOW = "slow"
    FAST_UNEXPECTED = "fast_unexpected"
    NO_VERDICT = "no_verdict"
    INVALID = "invalid"  # the data check failed
