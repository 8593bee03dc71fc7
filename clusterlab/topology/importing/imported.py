"""What reading a foreign file gives: a fabric with findings, or a refusal that says what the file is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from clusterlab.core.errors import UsageError
from clusterlab.core.findings import Finding
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.summary import summary

Refused = Literal["not_a_fabric", "measurements"]


@dataclass(frozen=True)
class Imported:
    """One file as a fabric. ``kind`` is the format's name (``topo_m``, ``ibnetdiscover``).

    ``facts`` is what the file says that is neither device nor link (Slurm's blocks, a peer-to-peer
    matrix, a driver's version): plain data, as JSON takes it.
    """

    kind: str
    fabric: Fabric
    findings: tuple[Finding, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain data: kind, the fabric's counts (``summary``), findings and facts."""
        counts = summary(self.fabric)
        return {
            "kind": self.kind,
            **counts,
            "findings": [f.to_json() for f in self.findings],
            "facts": dict(self.facts),
        }


class NotAFabricError(UsageError):
    """The file is well formed, but no fabric. ``kind`` is its format, ``refused`` what it holds instead.

    ``facts`` are what was counted in it (``{"table_rows": 16}``).
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str,
        refused: Refused = "not_a_fabric",
        where: str | None = None,
        expected: str | None = None,
        fix: str | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message, where=where, expected=expected, fix=fix)
        self.kind = kind
        self.refused = refused
        self.facts = dict(facts or {})

    def to_json(self) -> dict[str, Any]:
        """Plain data: the format, what it holds instead of a fabric, and the message."""
        return {
            "kind": self.kind,
            "refused": self.refused,
            "message": str(self),
            "facts": self.facts,
        }
