"""When a collective that runs beside computation is done, though nobody waits for it then.

On CPUs its future says so: gloo's thread calls back where it has ended. On GPUs a stream that does nothing
else waits for it, and an event there is its end. Gloo has no future for a send, a receive and a
reduce_scatter (whose last copy is made by who waits): those are seen to be done when the rank waits.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

SILENT = ("send", "recv", "reduce_scatter")
"""Operations without a future in gloo (ProcessGroupGloo.cpp; torch 2.13). Asking costs a C++ exception."""

if TYPE_CHECKING:
    import torch

    from clusterlab.trainers.ledger import Ledger, OpenEntry


def note_end(ledger: Ledger, entry: OpenEntry, work: Any, channel: str) -> None:
    """``entry`` of ``ledger`` ends when ``work`` is done. Those of one ``channel`` are done in order."""
    if ledger.on_gpu:
        import torch

        with torch.cuda.stream(_stream(torch.cuda.current_device(), channel)):
            work.wait()
            ledger.end(entry)
        return
    if entry.op not in SILENT:
        work.get_future().then(lambda _done: ledger.end(entry))


@cache
def _stream(device: int, channel: str) -> torch.cuda.Stream:
    import torch

    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
