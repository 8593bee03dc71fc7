"""NCCL's tuning table of a communicator: `ncclTopoTuneModel`, and its print-out in the TUNING log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType

from clusterlab.cost.nccl.bandwidth import algbw_GBps
from clusterlab.cost.nccl.channels import max_threads
from clusterlab.cost.nccl.communicator import Communicator
from clusterlab.cost.nccl.constants import Constants
from clusterlab.cost.nccl.enable import enabled, exists
from clusterlab.cost.nccl.entry import NOTHING, Cell, Entry, Setting, setting_of
from clusterlab.cost.nccl.latency import latency_us
from clusterlab.cost.nccl.overrides import NO_OVERRIDES, Overrides
from clusterlab.cost.nccl.rccl import rccl_entry
from clusterlab.cost.nccl.words import (
    ALGORITHMS,
    COLLECTIVES,
    NCCL_ALGORITHMS,
    NCCL_COLLECTIVES,
    NCCL_PROTOCOLS,
    PROTOCOLS,
    modelled,
)

Table = Mapping[tuple[str, str], Entry]
"""(algorithm, protocol) to entry, in NCCL's order."""

_TABLES_KEPT = 4096


def tuning_table(collective: str, comm: Communicator, overrides: Overrides = NO_OVERRIDES) -> Table:
    """All algorithms × protocols as NCCL's TUNING log has them for ``collective`` on ``comm``.

    What NCCL does not compute is 0 µs and 0 GB/s, what is switched off keeps its latency with 0 GB/s.
    Kept for each communicator: ``comm.graphs`` must not be changed afterwards. Raises UsageError for a
    collective that NCCL does not model.
    """
    return _table(modelled(collective), comm, overrides)


@lru_cache(maxsize=_TABLES_KEPT)
def _table(collective: str, comm: Communicator, overrides: Overrides) -> Table:
    setting = setting_of(comm, overrides)
    cells = [Cell(collective, a, p) for a in ALGORITHMS for p in PROTOCOLS]
    table = {cell[1:]: _entry(cell, setting) for cell in cells}
    nothing_left = not any(entry.algbw_GBps for entry in table.values())
    if nothing_left and overrides.algorithms and _takes_ring(setting.constants):
        freed = setting._replace(overrides=replace(overrides, algorithms=()))
        table |= {cell[1:]: _entry(cell, freed) for cell in cells if cell.algorithm == "ring"}
    return MappingProxyType(table)


def _takes_ring(constants: Constants) -> bool:
    """Releases up to 2.23, and RCCL, take ring where NCCL_ALGO leaves nothing."""
    return constants.library == "rccl" or constants.rules["nothing_left"] == "ring"


def _entry(cell: Cell, setting: Setting) -> Entry:
    if setting.comm.ranks <= 1:
        return NOTHING
    if setting.comm.library == "rccl":
        return rccl_entry(cell, setting) or NOTHING
    if not exists(cell, setting):
        return NOTHING
    algbw = algbw_GBps(cell, setting) if enabled(cell, setting) else 0.0
    return Entry(latency_us(cell, setting), algbw)


def format_tuning_table(comm: Communicator, overrides: Overrides = NO_OVERRIDES) -> str:
    """The tables of all five collectives as NCCL prints them with NCCL_DEBUG_SUBSYS=TUNING.

    Latency in µs, then algorithm bandwidth in GB/s; three algorithms beside each other.
    """
    blocks = [ALGORITHMS[i : i + 3] for i in range(0, len(ALGORITHMS), 3)]
    return "\n".join(line for block in blocks for line in _block(block, comm, overrides))


def _block(algorithms: tuple[str, ...], comm: Communicator, overrides: Overrides) -> Iterator[str]:
    setting = setting_of(comm, overrides)
    cells = [(algorithm, protocol) for algorithm in algorithms for protocol in PROTOCOLS]
    yield "  Algorithm   |" + "".join(
        f" {'':>14}   {NCCL_ALGORITHMS[algorithm]:>14}   {'':>14} |" for algorithm in algorithms
    )
    yield "  Protocol    |" + "".join(f" {NCCL_PROTOCOLS[p]:>14} |" for p in PROTOCOLS) * 3
    threads = [max_threads(a, p, setting) for a, p in cells]
    yield " Max NThreads |" + "".join(f" {count:14d} |" for count in threads)
    for collective in COLLECTIVES:
        table = tuning_table(collective, comm, overrides)
        yield f"{NCCL_COLLECTIVES[collective]:>13} |" + "".join(
            f"{table[cell].latency_us:8.1f}/{table[cell].algbw_GBps:6.1f} |" for cell in cells
        )
