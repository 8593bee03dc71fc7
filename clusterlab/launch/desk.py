"""A desk at which ranks hand in what they have to say, over plain sockets: no torch, no MPI.

One line of JSON each way: the rank's record, then what came of it. Whoever comes late or not at all keeps
nobody from being heard.
"""

from __future__ import annotations

import contextlib
import json
import resource
import selectors
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any

from clusterlab.core.errors import DeadlineError, UsageError
from clusterlab.launch.stores import StoreAddress

Record = dict[str, Any]
"""What one rank says of itself: plain JSON data with at least ``rank``, ``host`` and ``pid``."""

_HELLO = "clusterlab-desk-1"
_BACKLOG = 4096
_MOST_BYTES = 8 << 20
_CHUNK = 1 << 16
_CONNECT_S = 5.0
_ROUND_PAUSE_S = 0.1
_POLL_S = 0.2


class Desk:
    """A listening socket; ``port`` is where. Closed at the end of ``with``."""

    def __init__(self, port: int = 0) -> None:
        both = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if both else socket.AF_INET
        try:
            self._listening = socket.create_server(
                ("", port), family=family, backlog=_BACKLOG, dualstack_ipv6=both
            )
        except OSError as error:
            raise UsageError(
                f"port {port} cannot be opened ({error.strerror})",
                where="launch",
                fix="choose another MASTER_PORT, or start with srun --mpi=pmix, which needs none",
            ) from None
        self.port: int = self._listening.getsockname()[1]

    def __enter__(self) -> Desk:
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()

    def collect(
        self, topic: str, everyone: int, own: Record, *, end: float
    ) -> tuple[list[Record], list[Callable[[Record], None]]]:
        """The records handed in for ``topic`` until all ranks are here or ``end`` has come, and how to
        answer each. ``own`` is the first. Two processes of one rank are both taken.
        """
        _allow_connections(everyone)
        records, answers = [own], list[Callable[[Record], None]]()
        ranks = {own["rank"]}
        pending: dict[socket.socket, bytearray] = {}
        self._listening.setblocking(False)
        with selectors.DefaultSelector() as selector:
            selector.register(self._listening, selectors.EVENT_READ)
            while len(ranks) < everyone and (left := end - time.monotonic()) > 0:
                for key, _ in selector.select(min(left, _POLL_S)):
                    if key.fileobj is self._listening:
                        self._accept(selector, pending)
                        continue
                    connection = key.fileobj
                    assert isinstance(connection, socket.socket)
                    line = _read(connection, pending[connection])
                    if line is None:
                        continue
                    selector.unregister(connection)
                    del pending[connection]
                    record = _record(line, topic)
                    if record is None:
                        connection.close()
                        continue
                    records.append(record)
                    ranks.add(record["rank"])
                    answers.append(_answer_on(connection))
        for connection in pending:
            connection.close()
        return sorted(records, key=lambda r: (r["rank"], str(r["host"]))), answers

    def _accept(
        self, selector: selectors.BaseSelector, pending: dict[socket.socket, bytearray]
    ) -> None:
        with contextlib.suppress(OSError):  # gone again
            connection, _ = self._listening.accept()
            connection.setblocking(False)
            pending[connection] = bytearray()
            selector.register(connection, selectors.EVENT_READ)


def _allow_connections(everyone: int) -> None:
    """One file per rank: the soft limit is often 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = everyone + 256
    if soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def _read(connection: socket.socket, data: bytearray) -> bytes | None:
    """The line, b"" when the peer is gone or says too much, None when there is more to come."""
    try:
        chunk = connection.recv(_CHUNK)
    except BlockingIOError:
        return None
    except OSError:
        return b""
    if not chunk or len(data) + len(chunk) > _MOST_BYTES:
        return b""
    data += chunk
    return bytes(data) if data.endswith(b"\n") else None


def _record(line: bytes, topic: str) -> Record | None:
    """The record of one who speaks of ``topic``; None for a stranger."""
    try:
        said = json.loads(line)
        if said["hello"] != _HELLO or said["topic"] != topic:
            return None
        record = said["record"]
        return record if isinstance(record["rank"], int) and record["host"] else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _answer_on(connection: socket.socket) -> Callable[[Record], None]:
    def answer(told: Record) -> None:
        with connection, contextlib.suppress(OSError):  # it did not wait
            connection.setblocking(True)
            connection.settimeout(_CONNECT_S)
            connection.sendall(json.dumps(told).encode() + b"\n")

    return answer


def hand_in(
    address: StoreAddress, topic: str, record: Record, *, end: float, answer_s: float
) -> Record | None:
    """Hand ``record`` in at ``address`` and wait for the answer; None when the desk closed without one.

    ``end`` is for reaching it, ``answer_s`` from then on. Raises DeadlineError.
    """
    connection = _connect(address, end)
    said = {"hello": _HELLO, "topic": topic, "record": record}
    with connection:
        try:
            connection.settimeout(answer_s)
            connection.sendall(json.dumps(said).encode() + b"\n")
            data = bytearray()
            while not data.endswith(b"\n"):
                chunk = connection.recv(_CHUNK)
                if not chunk:
                    return None
                data += chunk
        except TimeoutError:
            raise DeadlineError(
                f"the rank that reports gave no answer within {answer_s:g} s", where="launch"
            ) from None
        except OSError:
            return None
    told: Record = json.loads(data)
    return told


def _connect(address: StoreAddress, end: float) -> socket.socket:
    while True:
        for host in address.hosts:
            with contextlib.suppress(OSError):
                return socket.create_connection((host, address.port), _CONNECT_S)
        if time.monotonic() > end:
            raise DeadlineError(
                f"{_hosts(address.hosts)} port {address.port} cannot be reached from"
                f" {socket.gethostname()}",
                where="launch",
                fix="see whether a firewall closes this port between the nodes",
            )
        time.sleep(_ROUND_PAUSE_S)


def _hosts(hosts: Sequence[str]) -> str:
    return ", ".join(hosts)
