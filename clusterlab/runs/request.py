"""What was typed after ``clusterlab bench``, before anything is resolved."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BenchRequest:
    """What was typed, not yet resolved. ``ranks`` None: the GPUs here, or a default."""

    collective_text: str
    begin: str | None
    end: str | None
    factor: float | None
    step: str | None
    iterations: int
    warmup: int
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
