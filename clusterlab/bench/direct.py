"""NCCL's own calls, without torch: through nccl4py, on the libnccl that torch has loaded.

nccl4py looks every function up among the process's global symbols, then in the libnccl that the loader has
already (cuda-pathfinder asks with RTLD_NOLOAD), and only then among installed ones. torch loads its own
without making it global, so it is made so first: then it cannot be another.
"""

from __future__ import annotations

import ctypes
import importlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from clusterlab.bench.buffers import Buffers
from clusterlab.bench.control import Control
from clusterlab.bench.groups import Seat, is_transfer, ranks_of
from clusterlab.bench.nccl_calls import Arguments, bound_call, grouped
from clusterlab.bench.ops import Call, Operation
from clusterlab.bench.witness.library import decoded, loaded_library
from clusterlab.core.errors import UsageError
from clusterlab.core.rows import Point

_ID_BYTES = 128  # nccl.h NCCL_UNIQUE_ID_BYTES


@dataclass(frozen=True, slots=True)
class Direct:
    """``nccl`` is nccl4py's ``nccl.bindings.nccl``; ``comms`` are this rank's communicators by rank set."""

    nccl: Any
    comms: dict[tuple[int, ...], Any]
    whole: tuple[int, ...]
    stream: int

    def bind(self, seat: Seat, buffers: Buffers) -> Operation:
        """The point's call; out of place it really is, so nothing is staged."""
        ranks = communicator_ranks(seat.point, self.whole)
        at = [ranks.index(rank) for rank in ranks_of(seat.point)]
        call = bound_call(Arguments(self.nccl, self.comms[ranks], self.stream, seat, buffers, at))
        return Operation(call, lambda: None)

    def grouped(self, calls: Sequence[Call]) -> Call:
        """All of ``calls`` in one group of NCCL's; one is itself."""
        return calls[0] if len(calls) == 1 else grouped(self.nccl, calls)

    def close(self) -> None:
        """Destroy the communicators; all of a communicator's ranks do."""
        for comm in self.comms.values():
            self.nccl.comm_destroy(comm)
        self.comms.clear()


def open_direct(points: Iterable[Point], control: Control, stream: int) -> Direct:
    """Communicators for the direct ones among ``points``, in their order. Collective.

    Raises UsageError, on all ranks alike, where a rank cannot load nccl4py.
    """
    nccl = _on_all(control, load_nccl)
    whole = tuple(range(control.world_size))
    direct = [point for point in points if point.timing == "direct"]
    comms = {}
    for ranks in dict.fromkeys(communicator_ranks(point, whole) for point in direct):
        first = control.rank == ranks[0]
        name = control.share(bytes(nccl.get_unique_id()) if first else None, ranks[0], _ID_BYTES)
        if control.rank in ranks:
            comms[ranks] = nccl.comm_init_rank(
                len(ranks), nccl.UniqueId.from_buffer(name), ranks.index(control.rank)
            )
    return Direct(nccl, comms, whole, stream)


def communicator_ranks(point: Point, whole: tuple[int, ...]) -> tuple[int, ...]:
    """Two ranks send over the communicator of all, as in torch; anything else over one of its ranks."""
    return whole if is_transfer(point) else ranks_of(point)


def load_nccl() -> Any:
    """nccl4py's low-level bindings, on the libnccl that torch uses. Raises UsageError."""
    library = loaded_library()
    if library is not None:
        ctypes.CDLL(library.path, mode=os.RTLD_NOLOAD | os.RTLD_GLOBAL | os.RTLD_NOW)
    try:
        nccl: Any = importlib.import_module("nccl.bindings.nccl")
    except ImportError as error:
        raise UsageError(
            f"nccl4py cannot be loaded: {error}",
            where="timing direct",
            fix="pip install 'clusterlab[direct]'",
        ) from error
    version = decoded(nccl.get_version())
    if library is not None and version != library.version:
        raise UsageError(
            f"nccl4py found NCCL {'.'.join(map(str, version))}, and torch uses {library.version_text}",
            where="timing direct",
            fix="leave one libnccl on the loader's path",
        )
    return nccl


def _on_all(control: Control, load: Callable[[], Any]) -> Any:
    """What ``load`` returns; the UsageError of the lowest rank that has one is raised on all."""
    error: UsageError | None = None
    loaded = None
    try:
        loaded = load()
    except UsageError as refused:
        error = refused
    (lowest,) = control.largest([-float(control.rank) if error else float("-inf")])
    if lowest == float("-inf"):
        return loaded
    if error is not None:
        raise error
    raise UsageError(f"rank {-int(lowest)} cannot load nccl4py; it says why", where="timing direct")
