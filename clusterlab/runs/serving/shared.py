"""Many that ask the same at the same time are given one answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

_Got = TypeVar("_Got")


class Shared:
    """Calls in threads; one that is under way is waited for, not made again."""

    def __init__(self) -> None:
        self._under_way: dict[tuple[Any, ...], asyncio.Task[Any]] = {}

    async def call(self, function: Callable[..., _Got], *arguments: Any) -> _Got:
        """What ``function(*arguments)`` gives, or raises."""
        key = (function, *arguments)
        task = self._under_way.get(key)
        if task is None:
            task = asyncio.create_task(asyncio.to_thread(function, *arguments))
            self._under_way[key] = task
            task.add_done_callback(lambda _: self._under_way.pop(key, None))
        got: _Got = await asyncio.shield(task)
        return got
