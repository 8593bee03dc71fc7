"""A server of pages in a thread of the test's, asked byte by byte."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clusterlab.runs.serving.gate import COOKIE, Gate
from clusterlab.runs.serving.rendered import Rendered
from clusterlab.runs.serving.routes import Routes
from clusterlab.runs.serving.server import Server

WAIT_S = 60.0


@dataclass(frozen=True)
class Said:
    """An answer as it came."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass(frozen=True)
class Live:
    """A server that runs, and ways to ask it."""

    gate: Gate
    server: Server

    @property
    def port(self) -> int:
        return self.gate.port

    @property
    def cookie(self) -> str:
        return f"{COOKIE}={self.gate.cookie}"

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S)

    def raw(self, request: bytes) -> Said:
        """The answer to ``request``."""
        with self.connect() as connection:
            connection.sendall(request)
            came = b"".join(iter(lambda: connection.recv(65536), b""))
        head, _, body = came.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        assert first.startswith("HTTP/1.1 "), came[:200]
        headers = dict(line.split(": ", 1) for line in lines)
        return Said(int(first.split()[1]), headers, body)

    def request(self, target: str, *, method: str = "GET", **headers: str | None) -> bytes:
        """With the right host and cookie, unless ``headers`` say another (None: none)."""
        named = {"Host": f"127.0.0.1:{self.port}", "Cookie": self.cookie}
        named |= {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"{name}: {value}" for name, value in named.items() if value is not None]
        return "\r\n".join([f"{method} {target} HTTP/1.1", *lines, "", ""]).encode()

    def ask(self, target: str, **options: str | None) -> Said:
        """The answer to a request for ``target``."""
        return self.raw(self.request(target, **options))  # type: ignore[arg-type]

    def page(self, below: str, **options: str | None) -> Said:
        """The answer for what is ``below`` the mount."""
        return self.ask(self.gate.mount + below, **options)

    def events(self, below: str) -> Iterator[dict[str, Any]]:
        """What the stream tells, as it comes."""
        with self.connect() as connection:
            connection.sendall(self.request(self.gate.mount + below))
            came = b""
            while chunk := connection.recv(65536):
                came += chunk
                *whole, came = came.split(b"\n\n")
                for part in whole:
                    if part.startswith(b"data: "):
                        yield json.loads(part.removeprefix(b"data: "))


@contextmanager
def live(root: Path, scratch: Path, **options: Any) -> Iterator[Live]:
    """Serve ``root``; ``options`` as of Server."""
    started: list[Live] = []
    ready, ended = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def run() -> None:
        bound = socket.socket()
        bound.bind(("127.0.0.1", 0))
        bound.setblocking(False)
        gate = Gate(bound.getsockname()[1])
        rendered = Rendered(scratch)
        server = Server(Routes(root.resolve(), gate, rendered), **options)
        listener = await server.start(bound)
        started.append(Live(gate, server))
        ready.set()
        await ended.wait()
        listener.close()
        await server.end()
        await rendered.end()

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    assert ready.wait(WAIT_S)
    try:
        yield started[0]
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(WAIT_S)
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
