"""Many that ask the same at the same time are given one answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

_Got = TypeVar("_Got")


class Shared:
    """What is under way is waited for, not begun again; it goes on when who waits for it leaves."""

    def __init__(self) -> None:
        self._under_way: dict[object, asyncio.Task[Any]] = {}

    async def do(self, key: object, begin: Callable[[], Coroutine[Any, Any, _Got]]) -> _Got:
        """What ``begin()`` gives, or raises; ``key`` says what it is."""
        task = self._under_way.get(key)
        if task is None:
            task = asyncio.create_task(begin())
            self._under_way[key] = task
            task.add_done_callback(lambda _: self._under_way.pop(key, None))
        got: _Got = await asyncio.shield(task)
        return got

    async def call(self, function: Callable[..., _Got], *arguments: Any) -> _Got:
        """What ``function(*arguments)`` gives, in a thread."""
        return await self.do(
            (function, *arguments), lambda: asyncio.to_thread(function, *arguments)
        )

    async def end(self) -> None:
        """Nobody waits any more."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
