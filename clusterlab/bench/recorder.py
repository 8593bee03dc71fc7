"""torch's flight recorder: the collectives that this process issued last, and how far they came.

It is on by default (TORCH_FR_BUFFER_SIZE, formerly TORCH_NCCL_TRACE_BUFFER_SIZE; 0 is off). gloo's
entries know only whether they are done, and have no sends and receives; NCCL's also whether they started
on the GPU.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_KEPT = 64
"""Entries kept: the last ones. torch holds 2,000, of a sweep almost all long done."""

Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Recorded:
    """``entries``: the last that torch recorded, oldest first, as torch words them."""

    entries: tuple[Entry, ...]

    def summary(self) -> str:
        """``last completed all_reduce #41, pending all_reduce #42``."""
        done = [e for e in self.entries if _done(e)]
        pending = [e for e in self.entries if not _done(e)]
        completed = _named(done[-1]) if done else "nothing"
        if not pending:
            return f"last completed {completed}, nothing pending"
        started = " (started)" if pending[0].get("state") == "started" else ""
        more = f" and {len(pending) - 1} after it" if len(pending) > 1 else ""
        return f"last completed {completed}, pending {_named(pending[0])}{started}{more}"


def recorded(backend: str) -> Recorded | None:
    """What the recorder of ``backend`` holds; None where this torch has none, or it is off or empty."""
    import torch._C._distributed_c10d as c10d

    # NCCL's name is older; 2.9 and later have a recorder for every backend under the second.
    names = ["_dump_fr_trace"] if backend != "nccl" else ["_dump_nccl_trace", "_dump_fr_trace"]
    for name in names:
        data = _dump(c10d, name)
        entries = data.get("entries") if isinstance(data, dict) else None
        if entries:
            return Recorded(tuple(entries[-_KEPT:]))
    return None


def _dump(c10d: object, name: str) -> Any:
    """The trace as plain data. Its JSON form is tried first: it came later than the pickled one."""
    as_json = getattr(c10d, f"{name}_json", None)
    if as_json is not None:
        return json.loads(as_json(includeCollectives=True, onlyActive=False))
    pickled = getattr(c10d, name, None)
    if pickled is None:
        return None
    # This process's own memory, not a file: nothing foreign is unpickled.
    return pickle.loads(
        pickled(includeCollectives=True, includeStackTraces=False, onlyActive=False)
    )


def entries_json(found: Recorded) -> str:
    """The entries as a JSON document."""
    return json.dumps(list(found.entries), indent=1, default=str) + "\n"


def _done(entry: Entry) -> bool:
    return bool(entry.get("retired")) or entry.get("state") == "completed"


def _named(entry: Entry) -> str:
    """``all_reduce #42 of 1024 elements``; a send has a count of its own."""
    name = str(entry.get("profiling_name", "?")).rpartition(":")[2]
    number = entry.get("p2p_seq_id" if entry.get("is_p2p") else "collective_seq_id", "?")
    return f"{name} #{number}{_shape(entry.get('input_sizes'))}"


def _shape(sizes: object) -> str:
    if not (isinstance(sizes, Sequence) and sizes and isinstance(sizes[0], Sequence)):
        return ""
    return f" of {'x'.join(str(n) for n in sizes[0])} elements" if sizes[0] else ""
