"""A worker process and the orders given to it: one at a time, each with a time to be done by."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

ORDER_S = 300.0
"""A page that takes longer is given up, and its worker ended."""

_LINE_BYTES = 1 << 20


class Worker:
    """Started by its first order, started anew after one that took too long or ended it."""

    def __init__(self, *, most_s: float = ORDER_S) -> None:
        self._most_s = most_s
        self._lock = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None

    async def do(self, **order: Any) -> Mapping[str, Any]:
        """What came of ``order``; ``{"error": …}`` where nothing did."""
        async with self._lock:
            try:
                return await asyncio.wait_for(self._ask(order), self._most_s)
            except TimeoutError:
                await self.end()
                return {"error": f"not done within {self._most_s:g} s"}
            except (OSError, ValueError, EOFError, asyncio.IncompleteReadError):
                await self.end()
                return {
                    "error": "the process that renders ended; perhaps its memory did not suffice"
                }
            except asyncio.CancelledError:
                await self.end()  # its answer would be taken for that of the next order
                raise

    async def _ask(self, order: Mapping[str, Any]) -> Mapping[str, Any]:
        process = self._process
        if process is None or process.returncode is not None:
            process = self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "clusterlab.runs.serving.worker",
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=_LINE_BYTES,
                start_new_session=True,  # Ctrl-C is the server's
            )  # fmt: skip
        assert process.stdin is not None and process.stdout is not None, "both are pipes"
        process.stdin.write(json.dumps(order).encode() + b"\n")
        await process.stdin.drain()
        line = await process.stdout.readline()
        if not line.endswith(b"\n"):
            raise EOFError
        answer: Mapping[str, Any] = json.loads(line)
        return answer

    async def end(self) -> None:
        """Nothing that it does is wanted any more."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.kill()
        if process.stdin is not None:
            process.stdin.close()
        await process.communicate()
        await asyncio.sleep(0)  # its pipes are closed by what is to run next
