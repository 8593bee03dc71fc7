"""One request of a connection, and its answer: HTTP/1.1 by h11, to read only, one request a connection."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import BinaryIO

import h11

HEAD_BYTES = 16 * 1024
"""Request line and headers together; a browser sends 1 KiB."""

_BASE_POLICY = (
    "default-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; img-src data:"
)

SAFE: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Connection": "close",
}
"""Of every answer."""


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked: ``target`` as it came; ``headers`` in order, names in lower case."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]

    def all_of(self, name: str) -> tuple[str, ...]:
        """Every value of the header ``name`` (lower case)."""
        return tuple(value for key, value in self.headers if key == name)

    def header(self, name: str) -> str | None:
        """The first value of the header ``name``."""
        return next(iter(self.all_of(name)), None)


class RefusedError(Exception):
    """A request that is not answered as asked: the status, and why in a sentence."""

    def __init__(self, status: HTTPStatus, why: str, **headers: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


@dataclass(frozen=True, slots=True)
class Answer:
    """``body`` is bytes or an open file; ``policy``: what the page's own style and script add to its CSP."""

    status: HTTPStatus = HTTPStatus.OK
    kind: str = "text/html; charset=utf-8"
    body: bytes | BinaryIO = b""
    policy: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    def size(self) -> int:
        """Of the body, in bytes."""
        return (
            len(self.body) if isinstance(self.body, bytes) else os.fstat(self.body.fileno()).st_size
        )


def refusal(refused: RefusedError) -> Answer:
    """In plain text: nothing of the request is in it."""
    text = f"{refused.status.value} {refused.status.phrase}\n{refused.why}\n"
    return Answer(refused.status, "text/plain; charset=utf-8", text.encode(), "", refused.headers)


async def read_request(reader: asyncio.StreamReader) -> Request:
    """The head of the request. Raises RefusedError, and EOFError where the client left before it asked."""
    parser = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)
    while True:
        try:
            event = parser.next_event()
        except h11.RemoteProtocolError as error:
            status = HTTPStatus(error.error_status_hint)
            raise RefusedError(
                status, "This is no request of HTTP/1.1 that is read here."
            ) from None
        if isinstance(event, h11.Request):
            break
        if event is not h11.NEED_DATA:
            raise EOFError
        parser.receive_data(await reader.read(4096))
    headers = tuple((k.decode("latin-1"), v.decode("latin-1")) for k, v in event.headers)
    request = Request(event.method.decode("latin-1"), event.target.decode("latin-1"), headers)
    if sum(len(k) + len(v) + 4 for k, v in headers) + len(request.target) > HEAD_BYTES:
        raise RefusedError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "Its headers are too long.")
    return request


def head_of(answer: Answer, *, length: int | None) -> bytes:
    """Status line and headers; without a ``length`` the end of the connection is the body's."""
    headers = {
        "Content-Type": answer.kind,
        "Content-Security-Policy": "; ".join(p for p in (_BASE_POLICY, answer.policy) if p),
        **SAFE,
        **answer.headers,
    }
    if length is not None:
        headers["Content-Length"] = str(length)
    lines = [f"HTTP/1.1 {answer.status.value} {answer.status.phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    text = "\r\n".join(lines)
    if text.count("\n") != len(lines) - 1 or not text.isascii():
        raise ValueError("a header of ours holds a line break or is not ASCII")
    return f"{text}\r\n\r\n".encode("ascii")
