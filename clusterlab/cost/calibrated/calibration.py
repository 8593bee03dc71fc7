"""What is known of one system after its measurements were fitted. The file form of it: ``file.py``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from clusterlab.cost.calibrated.correction import NONE, Correction
from clusterlab.cost.calibrated.machine import Machine
from clusterlab.cost.effects.constants import (
    CHIP_CONSTANTS,
    NETWORK_CONSTANTS,
    EffectTable,
    shipped_effects,
)
from clusterlab.cost.host_overhead import Launch
from clusterlab.cost.nccl.constants import parse_version
from clusterlab.cost.types import Issue

LeftOut = Literal["sizes", "ranks"]
"""What a fit had not seen when it was scored: every fourth size, or a number of ranks."""


@dataclass(frozen=True, slots=True)
class FittedConstant:
    """One constant of ``cost/effects`` on this system, and what its class has."""

    name: str
    value: float
    unit: str
    class_value: float


@dataclass(frozen=True, slots=True)
class Factors:
    """The correction of one collective."""

    collective: str
    sizes_bytes: tuple[int, ...]
    factors: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Spread:
    """Measured over predicted of points of one collective and size band that the fit had not seen.

    ``low`` to ``high`` is meant to hold NOMINAL of them; ``coverage`` (0 to 1) is the share of each fold's
    points that the other folds' range holds. ``error_p50_pct`` and ``error_p90_pct``: quantiles of
    |predicted / measured - 1|.
    """

    collective: str
    size_band: str
    left_out: str
    points: int
    error_p50_pct: float
    error_p90_pct: float
    low: float
    high: float
    coverage: float


@dataclass(frozen=True, slots=True)
class Score:
    """All left-out points of one kind together. ``alpha_beta_mape_pct``: a + b S of each collective, fitted
    to the same rows; ``library_mape_pct``: NCCL's own model. None where that has nothing to say.
    """

    left_out: str
    points: int
    mape_pct: float
    median_pct: float
    p90_pct: float
    coverage: float
    alpha_beta_mape_pct: float | None
    library_mape_pct: float | None


@dataclass(frozen=True, slots=True)
class SeenCollective:
    """What was measured of one collective; ``sizes_bytes`` least and largest."""

    collective: str
    ranks: tuple[int, ...]
    nodes: tuple[int, ...]
    sizes_bytes: tuple[int, int]
    rows: int


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that rows came from."""

    file: str
    sha256: str
    rows: int


@dataclass(frozen=True, slots=True)
class SystemCalibration:
    """NCCL's constants on one system. ``system`` is its name in the files, ``machine`` what it is.

    ``chip`` and ``network`` are the classes whose constants these take the place of (``network`` None:
    nothing was measured between nodes). ``through_host``: the ranks had no peer access. ``issue`` is how
    the fitted calls were issued, ``launches`` the least times of others. ``path`` is the file it was read
    from.
    """

    system: str
    machine: Machine
    chip: str
    network: str | None
    versions: tuple[str, ...]
    through_host: bool
    issue: Issue
    launches: tuple[Launch, ...]
    seen: tuple[SeenCollective, ...]
    constants: tuple[FittedConstant, ...]
    factors: tuple[Factors, ...]
    residuals: tuple[Spread, ...]
    scores: tuple[Score, ...]
    sources: tuple[SourceFile, ...]
    date_utc: str
    made_by: str
    path: str = ""

    def __hash__(self) -> int:
        """Of a few fields: every prediction looks its case up by it."""
        return hash((self.system, self.date_utc, self.path, len(self.constants)))

    @property
    def backend(self) -> str:
        """The library that was measured."""
        return "nccl"

    @property
    def source(self) -> str:
        """Where its constants come from, in a line."""
        rows = sum(s.rows for s in self.sources)
        file = f" ({self.path})" if self.path else ""
        return f"calibrated on {self.system}, {rows} rows, {self.date_utc[:10]}{file}"

    @property
    def newest_version(self) -> str | None:
        """The newest NCCL among the measured; None where no row says its."""
        return max(self.versions, key=lambda v: parse_version(v) or (), default=None)

    def seen_of(self, collective: str) -> SeenCollective | None:
        """What was measured of ``collective``."""
        return next((s for s in self.seen if s.collective == collective), None)

    def correction(self, collective: str) -> Correction:
        """The factor by size of ``collective``; none for one that was not measured."""
        for one in self.factors:
            if one.collective == collective:
                return Correction(one.sizes_bytes, one.factors)
        return NONE


@lru_cache(maxsize=64)
def calibrated_table(calibration: SystemCalibration) -> EffectTable:
    """The shipped constants with this system's in place of its classes'."""
    shipped = shipped_effects()
    chips, networks = dict(shipped.chips), dict(shipped.networks)
    shared = dict(shipped.shared)
    for one in calibration.constants:
        if one.name in CHIP_CONSTANTS:
            chips[calibration.chip] = {**chips[calibration.chip], one.name: one.value}
        elif one.name not in NETWORK_CONSTANTS:
            shared[one.name] = one.value
        elif calibration.network is not None:
            of = calibration.network
            networks[of] = {**networks[of], one.name: one.value}
    return EffectTable(chips, networks, shared, calibration.source)
