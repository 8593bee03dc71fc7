"""What is wrong with a network's cabling, as a picture marks it: crossed cables, missing leaves and uplinks.

Nothing here is down: it is not there, or elsewhere than the pattern has it. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from clusterlab.topology.checks.cabling import cabling
from clusterlab.topology.checks.rail_names import leaf_would_be
from clusterlab.topology.checks.uplinks import Shortage, shortages
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.failures.faults import as_wired
from clusterlab.topology.rails.infer import infer_rails


@dataclass(frozen=True, slots=True)
class MissingLeaf:
    """A leaf that its group lacks: the group's leaves, its rail, and what it would be called."""

    siblings: tuple[str, ...]
    rail: int
    name: str | None

    @property
    def text(self) -> str:
        """``no leaf of rail 2: leaf-03-01``."""
        return f"no leaf of rail {self.rail}" + (f": {self.name}" if self.name else "")

    def beside(self, leaves: Iterable[str]) -> bool:
        """Whether it should stand with these leaves."""
        return not set(self.siblings).isdisjoint(leaves)


@dataclass(frozen=True)
class WiringFaults:
    """``crossed`` are (host, leaf) of cables on another rail's leaf; ``lines`` say all that was found."""

    crossed: frozenset[tuple[str, str]]
    missing: tuple[MissingLeaf, ...]
    shortages: Mapping[str, Shortage]
    lines: tuple[str, ...]

    def errors(self, leaves: Iterable[str]) -> int:
        """How many cables on these leaves are crossed, and leaves missing beside them."""
        own = set(leaves)
        return sum(leaf in own for _, leaf in self.crossed) + sum(
            m.beside(own) for m in self.missing
        )

    def lost(self, lower: str, upper: str) -> tuple[int, int] | None:
        """How many cables there are, and how many there should be; None where none is missing."""
        shortage = self.shortages.get(lower)
        short = shortage.short if shortage else ()
        return next(((s.found, s.expected) for s in short if s.upper == upper), None)


def wiring_faults(fabric: Fabric) -> WiringFaults:
    """What the checks of cabling find; kept in the fabric's memo."""
    known: WiringFaults | None = fabric.memo.get("wiring_faults")
    if known is None:
        known = fabric.memo["wiring_faults"] = _find(as_wired(fabric))
    return known


def _find(fabric: Fabric) -> WiringFaults:
    rails = infer_rails(fabric)
    return WiringFaults(
        crossed=frozenset((s.cable.host, s.cable.leaf) for s in rails.strays),
        missing=tuple(
            MissingLeaf(rails.groups[group], rail, leaf_would_be(rails, group, rail))
            for group, rail in rails.missing_leaves()
        ),
        shortages=shortages(fabric),
        lines=tuple(
            f"{finding.code.replace('_', ' ')}: {line}"
            for finding in cabling(fabric)
            for line in finding.evidence
        ),
    )
