"""The control socket of a lab: one JSON line asked, one answered."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

from clusterlab.core.errors import DeadlineError


def listen(path: Path) -> socket.socket:
    """A listening socket that only our own uid may use. Once ``path`` exists, it answers."""
    draft = path.with_name(f"{path.name}-")
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(str(draft))
    draft.chmod(0o600)
    server.listen(16)
    draft.rename(path)
    return server


def ask(path: Path, what: str, *, node: str = "", timeout_s: float = 20.0) -> dict[str, Any]:
    """Ask the lab whose socket is at ``path``. Raises DeadlineError when nobody answers."""
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.settimeout(timeout_s)
    try:
        with client:
            client.connect(str(path))
            client.sendall(json.dumps({"do": what, "node": node}).encode() + b"\n")
            answer: dict[str, Any] = json.loads(_line(client))
    except (OSError, ValueError) as error:
        raise DeadlineError(
            f"the lab's own process does not answer `{what}` ({error})",
            where=str(path),
            fix="clusterlab lab down, then up",
        ) from error
    return answer


def receive(connection: socket.socket) -> dict[str, Any]:
    """The request on an accepted connection. Raises OSError or ValueError when there is none."""
    connection.settimeout(2.0)
    request: dict[str, Any] = json.loads(_line(connection))
    return request


def reply(connection: socket.socket, answer: dict[str, Any]) -> None:
    """Answer and hang up."""
    connection.sendall(json.dumps(answer).encode() + b"\n")


def _line(connection: socket.socket) -> bytes:
    received = bytearray()
    while not received.endswith(b"\n"):
        part = connection.recv(65536)
        if not part:
            raise ValueError("hung up")
        received += part
    return bytes(received)
