"""A measurement that another tool made, as plain data: what the file says, and None where it says nothing.

Sizes, algbw and busbw follow nccl-tests' conventions (core.collectives), as our own rows do. A field is
never filled from a guess: ``collective_from`` and ``world_size_from`` say what a derived one rests on.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

FORCED = "forced by the environment"
OBSERVED = "NCCL's TUNING lines"
"""Where a row's algorithm and protocol are from."""


@dataclass(frozen=True, slots=True)
class MeasuredRow:
    """One measured time of one collective at one size.

    ``table`` counts the tables of a file from 1. ``gpu`` is the device's name as the tool prints it.
    ``wrong`` counts wrong elements (None: not checked); ``max_error`` is what tools before 2022 print
    instead. ``rank`` is the one rank whose time it is (NCCL Inspector); None: the tool's figure for all.
    ``tool_version`` is the tool's, ``library_version`` NCCL's or RCCL's. ``algorithm_from`` and
    ``protocol_from``: forced by the environment, or what the library's own lines say it chose.
    """

    source: str
    line: int
    table: int
    tool: str
    tool_version: str | None = None
    system: str | None = None
    gpu: str | None = None
    n_nodes: int | None = None
    gpus_per_node: int | None = None
    world_size: int | None = None
    world_size_from: str | None = None
    collective: str | None = None
    collective_from: str | None = None
    dtype: str | None = None
    op: str | None = None
    root: int | None = None
    in_place: bool | None = None
    size_bytes: int = 0
    count: int | None = None
    time_us: float | None = None
    algbw_GBps: float | None = None
    busbw_GBps: float | None = None
    wrong: int | None = None
    max_error: float | None = None
    rank: int | None = None
    algorithm: str | None = None
    algorithm_from: str | None = None
    protocol: str | None = None
    protocol_from: str | None = None
    channels: int | None = None
    library: str | None = None
    library_version: str | None = None
    iterations: int | None = None
    warmup: int | None = None
    cuda_graph: bool | None = None
    intra_fabric: str | None = None
    inter_fabric: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data, field by field."""
        return asdict(self)
