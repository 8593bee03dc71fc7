"""The columns behind the cells of ``topo -m``: CPU affinity, NUMA affinity, GPU NUMA ID."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

Label = Literal["cpus", "numa", "gpu_numa"]

ORDER: tuple[Label, ...] = ("cpus", "numa", "gpu_numa")
_CPU_LIST = re.compile(r"\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*")
_MOST_NUMA_NODES = 64


def by_tabs(fields: Sequence[str]) -> dict[Label, str | None]:
    """CPU affinity, NUMA affinity and, after one empty field, GPU NUMA ID, as nvidia-smi prints them."""
    values = [f or None for f in fields]
    rest = [v for v in values[2:] if v]
    return {
        "cpus": values[0] if values else None,
        "numa": values[1] if len(values) > 1 else None,
        "gpu_numa": rest[0] if rest else None,
    }


def by_shape(
    words: Sequence[str], labels: tuple[Label, ...]
) -> tuple[dict[Label, str | None], bool]:
    """Affinities by order where each column has a word; True with it when the words cannot be told apart.

    An empty CPU affinity (a job's cpuset) leaves one word too few, and "0-3" may be CPUs or NUMA nodes:
    then only numbers that no NUMA node has are taken, as CPUs.
    """
    if not words or len(words) == len(labels):
        return dict(zip(labels, words, strict=False)), False
    if not labels and len(words) in {2, 3}:
        return dict(zip(ORDER, words, strict=False)), False
    rest = list(words)
    if "gpu_numa" in labels and rest[-1] == "N/A":
        rest.pop()
    numbers = re.findall(r"\d+", rest[0]) if rest and _CPU_LIST.fullmatch(rest[0]) else []
    if len(rest) == 1 and numbers and max(map(int, numbers)) >= _MOST_NUMA_NODES:
        return {"cpus": rest[0]}, False
    return {}, bool(rest)
