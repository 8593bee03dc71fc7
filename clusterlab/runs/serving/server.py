"""The connections: each has a time to ask by and a time to take its answer by, and there are only so many.

Slow clients hold a connection and nothing else; where all are held, the oldest that has not asked in time
makes room. So who asks at once is answered, however many there are that do not.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import BinaryIO

from clusterlab.runs.serving.routes import Events, Routes
from clusterlab.runs.serving.wire import (
    HEAD_BYTES,
    Answer,
    RefusedError,
    Request,
    head_of,
    read_request,
    refusal,
)

ASK_S = 10.0
"""From connecting to the end of the request's head."""

TAKE_S = 30.0
"""To take an answer, and a second more for every TAKE_BYTES."""

TAKE_BYTES = 256 * 1024
MOST_CONNECTIONS = 4096
MOST_STREAMS = 64
"""Pages that are told what is new at the same time."""

_SPARE_FILES = 160
"""Of the process's files, for pages, workers and what is accepted before the oldest makes room."""

_AT_ONCE = 32
"""Connections that are accepted before those that were are looked at."""

_BACKLOG = 4096
"""Of the kernel's, so that many that come at once do not keep the next one out for a second (a lost SYN)."""

_ASKS_SOON_S, _TAKES_SOON_S = 0.5, 5.0
"""Whom a browser sends does so; slow clients do not."""

_CHUNK = 64 * 1024
_UNSENT_BYTES = 128 * 1024
_LINGER_S = 0.5


@dataclass(eq=False, slots=True)
class _Connection:
    writer: asyncio.StreamWriter
    task: asyncio.Task[None] | None
    since: float
    asked: bool = False
    stream: bool = False

    def leave(self) -> None:
        """Not closed under the task: a file that is being sent would go on to whoever gets its number."""
        if self.task is not None:
            self.task.cancel()


def _worth(connection: _Connection, age_s: float) -> int:
    """Of two that hold a connection the one with less goes. Who is told what is new has the cookie."""
    if connection.stream:
        return 4
    if connection.asked:
        return 1 if age_s > _TAKES_SOON_S else 3
    return 0 if age_s > _ASKS_SOON_S else 2


@dataclass(slots=True)
class Server:
    """Serves ``routes`` until it is cancelled."""

    routes: Routes
    most: int = MOST_CONNECTIONS
    ask_s: float = ASK_S
    take_s: float = TAKE_S
    _open: set[_Connection] = field(default_factory=set)

    async def start(self, bound: socket.socket) -> asyncio.Server:
        """Listen on ``bound``."""
        # Of a large page the kernel would take megabytes for each client, and the loop that time.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _UNSENT_BYTES)
        server = await asyncio.start_server(
            self._connected, sock=bound, limit=HEAD_BYTES, backlog=_AT_ONCE
        )
        bound.listen(_BACKLOG)
        return server

    async def end(self) -> None:
        """Leave everybody."""
        tasks = [connection.task for connection in self._open if connection.task]
        for connection in self._open:
            connection.leave()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(writer, asyncio.current_task(), time.monotonic())
        self._open.add(connection)
        self._make_room(connection)
        try:
            await self._serve(connection, reader)
        except (OSError, EOFError, TimeoutError):
            pass  # the client left, or was too slow for what it asked
        except asyncio.CancelledError:
            pass  # it makes room, or the server ends: asyncio would print it
        finally:
            self._open.discard(connection)
            writer.transport.abort()

    def _make_room(self, newest: _Connection) -> None:
        """Somebody goes, where there are too many."""
        if len(self._open) > self.most:
            now = time.monotonic()
            goes = min(self._open - {newest}, key=lambda c: (_worth(c, now - c.since), c.since))
            self._open.discard(goes)
            goes.leave()

    async def _serve(self, connection: _Connection, reader: asyncio.StreamReader) -> None:
        request = None
        try:
            async with asyncio.timeout(self.ask_s):
                request = await read_request(reader)
            connection.asked = True
            answer = await self.routes.answer(request)
        except RefusedError as refused:
            answer = refusal(refused)
        except TimeoutError:
            answer = refusal(RefusedError(HTTPStatus.REQUEST_TIMEOUT, "It took too long to ask."))
        except OSError:
            if not connection.asked:
                raise
            why = "Files cannot be opened now; try again."
            answer = refusal(RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, why, Retry_After="5"))
        if isinstance(answer, Events):
            await self._stream(connection, reader, answer, request)
            return
        try:
            async with asyncio.timeout(self.take_s + answer.size() / TAKE_BYTES):
                await _send(connection.writer, answer, body=not request or request.method != "HEAD")
                await _linger(connection.writer, reader)
        finally:
            if not isinstance(answer.body, bytes):
                answer.body.close()

    async def _stream(
        self,
        connection: _Connection,
        reader: asyncio.StreamReader,
        events: Events,
        request: Request | None,
    ) -> None:
        writer = connection.writer
        if sum(c.stream for c in self._open) >= MOST_STREAMS:
            busy = RefusedError(
                HTTPStatus.SERVICE_UNAVAILABLE, "Too many pages are open.", Retry_After="30"
            )
            await asyncio.wait_for(_send(writer, refusal(busy), body=True), self.take_s)
            return
        connection.stream = True
        head = Answer(kind="text/event-stream; charset=utf-8")
        writer.write(head_of(head, length=None))
        if request is not None and request.method == "HEAD":
            await asyncio.wait_for(writer.drain(), self.take_s)
            return
        stream = self.routes.events(events)
        try:
            async for part in stream:
                if reader.at_eof():
                    return
                writer.write(part)
                await asyncio.wait_for(writer.drain(), self.take_s)
        finally:
            await stream.aclose()  # type: ignore[attr-defined]


async def _send(writer: asyncio.StreamWriter, answer: Answer, *, body: bool) -> None:
    length = answer.size()
    writer.write(head_of(answer, length=length))
    if body and isinstance(answer.body, bytes):
        writer.write(answer.body)
    elif body and not isinstance(answer.body, bytes):
        await _send_file(writer, answer.body, length)
    await writer.drain()


async def _send_file(writer: asyncio.StreamWriter, file: BinaryIO, length: int) -> None:
    """No more than ``length``, which was promised: rows may be appended meanwhile."""
    await writer.drain()
    await asyncio.get_running_loop().sendfile(writer.transport, file, 0, length)


async def _linger(writer: asyncio.StreamWriter, reader: asyncio.StreamReader) -> None:
    """A connection that is closed while there is something left to read takes the answer with it."""
    if writer.can_write_eof():
        writer.write_eof()
    with suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_S):
            while await reader.read(_CHUNK):
                pass


def connections_allowed() -> int:
    """How many this process may hold: as many files as it may have open, once that is raised."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * MOST_CONNECTIONS + _SPARE_FILES  # each may have a file open that it is sent
    if soft < wanted:
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return max(16, min(MOST_CONNECTIONS, (soft - _SPARE_FILES) // 2))
