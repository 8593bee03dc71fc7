"""What was rendered, kept on disk until the run's files change; large runs have a worker of their own."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clusterlab.records.store import RECORDS
from clusterlab.runs.serving.orders import Worker
from clusterlab.runs.serving.places import stamp
from clusterlab.runs.serving.shared import Shared

LARGE_BYTES = 8 << 20
"""Of records.jsonl, from which on a run is large: about 5,000 rows, a second of rendering."""

SLOW_S = 1.0
"""A page that takes longer to make is served as it was while the new one is made."""

LIST_S = 0.5

_MOST_KEPT = 128
_MOST_BYTES = 1 << 30


@dataclass(slots=True)
class Kept:
    """A file that was made: of which state of the run, how long that took, when done, when asked for."""

    file: Path
    stamp: str
    policy: str
    took_s: float
    done_at: float
    size: int
    asked_at: float = 0.0


@dataclass(slots=True)
class Rendered:
    """Keeps files in ``folder``, which is the server's own."""

    folder: Path
    clock: Callable[[], float] = time.monotonic
    quick: Worker = field(default_factory=Worker)
    large: Worker = field(default_factory=Worker)
    _kept: dict[tuple[str, ...], Kept] = field(default_factory=dict)
    _making: dict[tuple[str, ...], asyncio.Task[Kept | str]] = field(default_factory=dict)
    _looks: Shared = field(default_factory=Shared)
    _made: int = 0

    async def of_run(self, run: Path, what: str, **more: Any) -> Kept | str:
        """``what`` (an order of the worker's) of ``run`` as it is now, or a moment ago where that takes long;
        text: why there is none.
        """
        key = (what, str(run), *map(str, more.values()))
        now = await self._looks.call(_stamp_of, run, *_other(more))
        kept = self._kept.get(key)
        if kept is not None and (kept.stamp == now or kept.took_s > SLOW_S):
            if kept.stamp != now:
                self._start(key, run, what, now, more)
            return self._asked(kept)
        return await asyncio.shield(self._start(key, run, what, now, more))

    async def newest(self, run: Path, what: str, **more: Any) -> tuple[Kept | str, bool]:
        """As ``of_run``, but of now, and whether it is: not more often than twice the time that it takes."""
        key = (what, str(run), *map(str, more.values()))
        now = await self._looks.call(_stamp_of, run, *_other(more))
        kept = self._kept.get(key)
        if kept is not None and kept.stamp == now:
            return self._asked(kept), True
        if kept is not None and self.clock() < kept.done_at + 2 * kept.took_s:
            return self._asked(kept), False
        return await asyncio.shield(self._start(key, run, what, now, more)), False

    async def list_of(self, root: Path, **more: Any) -> Kept | str:
        """A page of the list of ``root``, no older than ``LIST_S``."""
        key = ("runs", str(root), str(more["page"]))
        kept = self._kept.get(key)
        if kept is not None and self.clock() < kept.done_at + LIST_S:
            return self._asked(kept)
        return await asyncio.shield(self._start(key, root, "runs", "", more))

    async def status(self, run: Path) -> Mapping[str, Any]:
        """Where ``run`` stands, in words."""
        worker = self._worker(run)
        return await self._looks.do(("status", run), lambda: worker.do(do="status", run=str(run)))

    async def stamp(self, run: Path) -> str:
        """Another one once something in ``run`` has changed."""
        return await self._looks.call(_stamp_of, run)

    def _start(
        self, key: tuple[str, ...], run: Path, what: str, now: str, more: Mapping[str, Any]
    ) -> asyncio.Task[Kept | str]:
        """One at a time of each."""
        task = self._making.get(key)
        if task is None:
            task = asyncio.create_task(self._make(key, run, what, now, more))
            self._making[key] = task
            task.add_done_callback(lambda _: self._making.pop(key, None))
        return task

    async def _make(
        self, key: tuple[str, ...], run: Path, what: str, now: str, more: Mapping[str, Any]
    ) -> Kept | str:
        self._made += 1
        out = self.folder / f"{self._made}"
        began = self.clock()
        worker = self._worker(run, *_other(more))
        found = await worker.do(do=what, run=str(run), out=str(out), stamp=now, **more)
        if "error" in found:
            out.unlink(missing_ok=True)
            return str(found["error"])
        # A list says itself what it is of: nothing in its folder changes with the runs.
        own = str(found.get("stamp", now))
        done = self.clock()
        kept = Kept(
            out, own, str(found.get("policy", "")), done - began, done, out.stat().st_size, done
        )
        before = self._kept.pop(key, None)
        self._kept[key] = kept
        if before is not None:
            before.file.unlink(missing_ok=True)
        self._forget()
        return kept

    def _asked(self, kept: Kept) -> Kept:
        kept.asked_at = self.clock()
        return kept

    def _forget(self) -> None:
        """What was not asked for longest goes first."""
        while len(self._kept) > 1 and (
            len(self._kept) > _MOST_KEPT or sum(k.size for k in self._kept.values()) > _MOST_BYTES
        ):
            oldest = min(self._kept, key=lambda key: self._kept[key].asked_at)
            self._kept.pop(oldest).file.unlink(missing_ok=True)

    def _worker(self, *runs: Path) -> Worker:
        return self.large if any(_is_large(run) for run in runs) else self.quick

    async def end(self) -> None:
        """Nothing more is asked for."""
        making = list(self._making.values())
        for task in making:
            task.cancel()
        await asyncio.gather(*making, return_exceptions=True)
        await self._looks.end()
        await self.quick.end()
        await self.large.end()


def _other(more: Mapping[str, Any]) -> list[Path]:
    return [Path(more["other"])] if "other" in more else []


def _stamp_of(*runs: Path) -> str:
    text = repr([stamp(run) for run in runs])
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def _is_large(run: Path) -> bool:
    try:
        return (run / RECORDS).stat().st_size > LARGE_BYTES
    except OSError:
        return False
