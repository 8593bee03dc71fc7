"""How far healthy systems are from their predictions, by class: what is ordinary. Pure.

``spread.yaml`` holds, for each band and class of GPU and network, how many healthy systems were measured and
the sum of their squared log ratios; tests/benchmarks/fit_why.py writes it. A further system of the class
lies within Student's t of that, with a prior of ``PRIOR_SYSTEMS`` systems as far off as systems of all
classes are: a class that was never measured has a wide interval, one with many that agree a narrow one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from clusterlab.cost.effects.constants import chip_class, network_class
from clusterlab.cost.nccl.communicator import Communicator

SIGNIFICANCE = 0.01
"""Chance of calling one band of a healthy system slow."""

PRIOR_SYSTEMS = 4.0


@dataclass(frozen=True, slots=True)
class Seen:
    """Healthy systems of a class: how many, and the sum of their squared log ratios."""

    systems: float
    squares: float


@dataclass(frozen=True, slots=True)
class Ordinary:
    """``widths``: standard deviation over all classes, by band; ``seen`` by band and class."""

    widths: Mapping[str, float]
    seen: Mapping[str, Mapping[str, Seen]]
    source: str

    def limit(self, band: str, kind: str) -> float:
        """The log ratio that a healthy system of class ``kind`` stays below."""
        found = self.seen[band].get(kind, Seen(0.0, 0.0))
        freedom = PRIOR_SYSTEMS + found.systems
        width = math.sqrt((PRIOR_SYSTEMS * self.widths[band] ** 2 + found.squares) / freedom)
        return width * student_t(freedom)


def kind_of(comm: Communicator) -> str:
    """The class of GPU and network: ``hopper ib``, ``ampere`` on one node."""
    chip = chip_class(comm)
    return chip if comm.nodes == 1 else f"{chip} {network_class(comm)}"


@cache
def ordinary() -> Ordinary:
    """What ships."""
    text = Path(__file__).with_name("spread.yaml").read_text(encoding="utf-8")
    data = yaml.safe_load(text)
    seen = {
        band: {kind: Seen(*pair) for kind, pair in kinds.items()}
        for band, kinds in data["seen"].items()
    }
    return Ordinary(data["widths"], seen, data["source"])


@cache
def student_t(freedom: float) -> float:
    """The value that Student's t of ``freedom`` exceeds with a chance of ``SIGNIFICANCE``."""
    from scipy.stats import t

    return float(t.isf(SIGNIFICANCE, freedom))
