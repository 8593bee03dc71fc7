"""What was typed after ``clusterlab bench``, before anything is resolved."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BenchRequest:
    """What was typed, not yet resolved. ``ranks`` None: the GPUs here, or a default.

    ``iterations`` and ``warmup`` are numbers or ``auto``; ``timing`` one or several modes with commas, or
    ``all``.
    """

    collective_text: str
    begin: str | None
    end: str | None
    factor: float | None
    step: str | None
    iterations: str
    warmup: str
    check: bool
    op_text: str
    dtype_text: str
    root: int
    ranks: int | None
    place: str
    backend: str
    fabric: str | None
    deadline_s: float
    name: str | None
    as_json: bool
    strict_table: bool
    corrupt: str | None
    one_by_one: bool = False
    timing: str | None = None
    graph_launches: int = 0
    aggregated: int = 1
    blocking: int = 0
    median_within: float = 0.02
    budget_s: float = 1.0
    keep_going: bool = False
    per_iteration: bool = False
    output_file: str | None = None
    pattern: str | None = None
    uneven: str | None = None
    calibration: str | None = None
    memory: str = "nccl"
