"""Which algorithm and protocol NCCL takes for a size: `ncclTopoGetAlgoTime` over the table, least first."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from clusterlab.core.errors import UsageError
from clusterlab.cost.nccl import rccl
from clusterlab.cost.nccl.channels import allowed_channels, communicator_channels, used_channels
from clusterlab.cost.nccl.communicator import Communicator
from clusterlab.cost.nccl.enable import considered
from clusterlab.cost.nccl.entry import Cell, Entry, Setting, setting_of
from clusterlab.cost.nccl.overrides import NO_OVERRIDES, Overrides
from clusterlab.cost.nccl.tuning import tuning_table
from clusterlab.cost.nccl.words import modelled

_CHOICES_KEPT = 16384
_MODELS_KEPT = 1024
_TREE_SIZES = 23

Time = Callable[[int], float]
Kind = tuple[str, str]
"""Element type and operator of a call."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One entry at one size. ``latency_us`` and ``algbw_GBps`` are the table's, ``time_us`` what NCCL makes
    of them with its corrections by size. ``channels`` is what the call gets alone.
    """

    algorithm: str
    protocol: str
    latency_us: float
    algbw_GBps: float
    time_us: float
    channels: int


def ranked(
    collective: str,
    size_bytes: int,
    comm: Communicator,
    overrides: Overrides = NO_OVERRIDES,
    *,
    dtype: str = "float32",
    op: str = "sum",
) -> tuple[Choice, ...]:
    """Every enabled entry for ``size_bytes`` (nccl-tests' size) of ``dtype`` (torch's name) under ``op``
    (sum, prod, min, max, avg), fastest first; equals in NCCL's order. The first is what NCCL runs.

    Raises UsageError for a collective without a model, a size below 1 byte, or when ``overrides`` leave
    nothing. ``comm.graphs`` must not be changed afterwards: results are kept.
    """
    return _ranked(collective, int(size_bytes), comm, overrides, (dtype, op))


@lru_cache(maxsize=_CHOICES_KEPT)
def _ranked(
    collective: str, size_bytes: int, comm: Communicator, overrides: Overrides, kind: Kind
) -> tuple[Choice, ...]:
    if size_bytes < 1:
        raise UsageError(f"{size_bytes} bytes", where="size", expected="at least 1")
    name = modelled(collective)
    if comm.ranks <= 1:
        return (Choice("ring", "simple", 0.0, math.inf, 0.0, 1),)
    setting = setting_of(comm, overrides)
    choices = [
        _choice(cell, entry, time(size_bytes), size_bytes, setting)
        for cell, entry, time in _candidates(name, comm, overrides, kind)
    ]
    return tuple(sorted(choices, key=lambda choice: choice.time_us))


def _choice(cell: Cell, entry: Entry, time_us: float, size_bytes: int, setting: Setting) -> Choice:
    allowed = allowed_channels(cell, size_bytes, setting)
    used = used_channels(cell, size_bytes, allowed, setting)
    return Choice(cell.algorithm, cell.protocol, entry.latency_us, entry.algbw_GBps, time_us, used)


@lru_cache(maxsize=_MODELS_KEPT)
def _candidates(
    collective: str, comm: Communicator, overrides: Overrides, kind: Kind
) -> tuple[tuple[Cell, Entry, Time], ...]:
    """What a call weighs, in NCCL's order, each with its time by size."""
    setting = setting_of(comm, overrides)
    cells = (
        (Cell(collective, *which), entry)
        for which, entry in tuning_table(collective, comm, overrides).items()
        if entry.algbw_GBps > 0
    )
    found = tuple(
        (cell, entry, _time(cell, entry, setting, kind[0]))
        for cell, entry in cells
        if comm.library == "rccl" or considered(cell, setting, *kind)
    )
    if not found:
        raise UsageError(
            f"nothing is left for {collective} with {kind[0]}"
            + (f" and {kind[1]}" if kind[1] != "sum" else ""),
            where="NCCL_ALGO" if overrides.algorithms else "NCCL_PROTO",
            expected="an algorithm and a protocol that this communicator has",
            fix="NCCL stops with an error here; unset it or add ring and simple",
        )
    return found


def _time(cell: Cell, entry: Entry, setting: Setting, dtype: str) -> Time:
    """µs by size of one entry, with the corrections that apply to it."""
    latency, rate = entry.latency_us, entry.algbw_GBps * 1e3
    _, algorithm, protocol = cell
    comm, constants, _ = setting
    if comm.library == "rccl":
        return lambda size: (
            latency
            + _over(size, rate * rccl.correction(algorithm, protocol, size, comm, constants))
        )
    factors = _corrections(cell, setting)
    if factors:
        tiny = factors[0] if constants.rules["tiny_corrected"] else 1.0
        return lambda size: latency + size / (rate * _factor(factors, size, tiny))
    penalty = 1.0
    if algorithm == "ring" and dtype.startswith("float8") and comm.ranks > 8:
        penalty = float(constants.rules["fp8_ring_factor"])
    if cell == ("all_reduce", "ring", "simple") and comm.nodes > 1:
        plateau, least = _plateau(setting)
        return lambda size: penalty * (latency * (plateau if size >= least else 1.0) + size / rate)
    return lambda size: penalty * (latency + size / rate)


def _over(size: int, rate: float) -> float:
    return size / rate if rate else math.inf


def _corrections(cell: Cell, setting: Setting) -> tuple[float, ...]:
    """Bandwidth factors by log2(size / 64 B); empty where none apply."""
    constants = setting.constants
    if cell.collective != "all_reduce":
        return ()
    if cell.algorithm == "tree":
        return constants.tree_correction[cell.protocol][:_TREE_SIZES]
    least = constants.rules["nvls_tree_corrected_from_sm"]
    newer = least is not None and setting.sm >= least
    if cell.algorithm == "nvls_tree" and newer and setting.comm.cpu_arch == "x86_64":
        return constants.tree_correction[cell.protocol]
    return ()


def _factor(factors: tuple[float, ...], size: int, tiny: float) -> float:
    log2 = (size >> 6).bit_length() - 1
    if log2 < 0:
        return tiny
    return factors[log2] if log2 < len(factors) else 1.0


def _plateau(setting: Setting) -> tuple[float, int]:
    """Latency factor of a ring all_reduce between nodes, and the size from which it holds."""
    rule = setting.constants.rules["plateau"]
    factor = float(rule["below" if setting.sm < rule["boundary_sm"] else "above"])
    if rule["from"] == "bytes_per_rank":
        return factor, setting.comm.ranks * 65536 // 16
    return factor, 64 * communicator_channels(setting) * setting.comm.ranks
