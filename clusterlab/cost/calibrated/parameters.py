"""What a calibration may change, how far, and how likely: each a factor, its logarithm normal around 0.

The class's constants are the middle. Their spreads are those that classes have around the value all share
(tests/benchmarks/fit_effects.py) times WIDTH, which leaving out ranks and versions of five systems chose: a
system that its class did not contain may be far from it (docs/decisions/015).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

from clusterlab.cost.calibrated.correction import KNOTS_BYTES
from clusterlab.cost.effects.constants import Effects

WIDTH = 3.0
_SPREADS = {
    "base_us": 0.3, "hop_ll_us": 0.25, "hop_ll128_us": 0.25, "hop_simple_us": 0.3,
    "start_simple_us": 0.25, "rate_simple": 0.05, "rate_ll": 0.12, "rate_ll128": 0.25,
    "ramp_simple_bytes": 0.3, "hop_larger_us": 0.3, "nvls_start_us": 0.2, "nvls_rate": 0.05,
    "nvls_ramp_bytes": 0.4, "p2p_simple_us": 0.2, "p2p_rate": 0.05, "network_step_us": 0.6,
    "network_rate": 0.07, "network_ramp_bytes": 0.6, "p2p_network_us": 0.5, "p2p_network_rate": 0.07,
    "hop_larger_bytes": 0.3, "kappa_ll": 0.2, "kappa_ll128": 0.2, "kappa_simple": 0.2,
    "ramp_ll_bytes": 0.3, "copy_gathered": 0.2, "copy_reduced": 0.2, "overlap_simple": 0.3,
    "overlap_ll": 0.3, "network_overlap_ll": 0.3, "network_overlap_simple": 0.3, "fill": 0.3,
    "fill_bytes": 0.4, "tree_rate": 0.1, "nvls_tree_start_us": 0.2, "nvls_tree_ramp_bytes": 0.3,
    "p2p_base": 0.1, "p2p_peer_us": 0.3, "p2p_half_bytes": 0.4, "p2p_ramp_bytes": 0.4,
    "host_memory_GBps": 0.8, "crowding": 0.6,
}  # fmt: skip
SIGMAS = {name: WIDTH * spread for name, spread in _SPREADS.items()}
CORRECTION_SIGMA = 0.08
SMOOTHNESS = 1.0
"""Neighbouring factors differ by about one CORRECTION_SIGMA / SMOOTHNESS."""

MOST_SIGMAS = 4.0
MOST_FACTOR = 8.0
"""No parameter leaves its middle by more than either of these."""

_LEAST_P, _MOST_P = 1.0, 4.0

NAMES = tuple(f.name for f in fields(Effects))
_UNITS = (("_us", "µs"), ("_bytes", "B"), ("_GBps", "GB/s"))


def unit_of(name: str) -> str:
    """A constant's unit, by its name; ``1`` for a share or an exponent."""
    return next((unit for ending, unit in _UNITS if name.endswith(ending)), "1")


def moved(name: str, middle: float, log_factor: float) -> float:
    """``middle`` times e^log_factor; of an overlap what is above 1, and no more than 4."""
    if "overlap" in name:
        p = _LEAST_P + (middle - _LEAST_P) * math.exp(log_factor)
        return min(p, _MOST_P)
    return middle * math.exp(log_factor)


def moved_effects(middle: Effects, log_factors: dict[str, float]) -> Effects:
    """``middle`` with the constants named in ``log_factors`` moved."""
    return replace(middle, **{n: moved(n, getattr(middle, n), x) for n, x in log_factors.items()})


@dataclass(frozen=True, slots=True)
class Layout:
    """Where each parameter stands in the vector: constants first, then each collective's factors."""

    constants: tuple[str, ...]
    collectives: tuple[str, ...]

    @property
    def sigmas(self) -> list[float]:
        """Of every parameter."""
        knots = len(self.collectives) * len(KNOTS_BYTES)
        return [SIGMAS[n] for n in self.constants] + [CORRECTION_SIGMA] * knots

    def knots(self, collective: str) -> slice:
        """Where the factors of ``collective`` stand."""
        first = len(self.constants) + self.collectives.index(collective) * len(KNOTS_BYTES)
        return slice(first, first + len(KNOTS_BYTES))
