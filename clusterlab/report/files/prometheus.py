"""Samples as Prometheus's text format, and as OpenMetrics. Escaping and numbers are prometheus_client's."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from clusterlab.report.files.prom_names import METRICS
from clusterlab.report.text import plain

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

_LONGEST = 100
"""Characters of a label's value: names that people chose may be of any length."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One series: a name of ``prom_names``, labels, value."""

    name: str
    labels: Mapping[str, str]
    value: float


def label_value(text: object) -> str:
    """``text`` as a label's value: one line, nothing invisible, not endless."""
    return _short(str(text))


@lru_cache(maxsize=4096)  # labels have few values, and every series has a dozen of them
def _short(text: str) -> str:
    kept = plain(text).strip()
    return kept if len(kept) <= _LONGEST else kept[: _LONGEST - 1] + "…"


def prom_text(samples: Iterable[Sample]) -> bytes:
    """What node exporter's textfile collector reads. Values that are not finite are left out."""
    from prometheus_client.exposition import generate_latest

    return generate_latest(_collector(samples))


def openmetrics_text(samples: Iterable[Sample]) -> bytes:
    """The same as OpenMetrics 1.0: with units, an info metric, ``# EOF``."""
    from prometheus_client.openmetrics.exposition import generate_latest

    return bytes(generate_latest(_collector(samples)))  # type: ignore[no-untyped-call]


def _collector(samples: Iterable[Sample]) -> Collector:
    from prometheus_client.metrics_core import Metric as Family
    from prometheus_client.registry import Collector

    by_name: dict[str, list[Sample]] = {}
    for sample in samples:
        if math.isfinite(sample.value):
            by_name.setdefault(sample.name, []).append(sample)

    class Found(Collector):
        def collect(self) -> Iterator[Family]:
            for name, metric in METRICS.items():
                if not (found := by_name.get(name)):
                    continue
                info = name.endswith("_info")
                family = Family(
                    name.removesuffix("_info"),
                    metric.help,
                    "info" if info else "gauge",
                    metric.unit,
                )
                for sample in found:
                    # An empty label is no label to Prometheus: a series may not have both.
                    labels = {k: label_value(v) for k, v in sample.labels.items()}
                    family.add_sample(name, {k: v for k, v in labels.items() if v}, sample.value)
                yield family

    return Found()
