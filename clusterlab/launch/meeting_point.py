"""Finding each other by the node list alone: a meeting point on the first node of the step.

Every rank derives the same few ports from the step's name. The first process of the first node takes
the first of them that is free and answers there, to those who name the same step, with the address of
the real store. A stranger on one of the ports (another job, any service) is passed over.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import zlib
from collections.abc import Sequence

from clusterlab.core.errors import DeadlineError, UsageError
from clusterlab.launch.stores import StoreAddress, parse_address

# Below Linux's ephemeral ports (32768 on) and above most services.
_FIRST_PORT, _PORT_SPAN = 20000, 12000
_PORTS_TRIED = 8
_STRIDE = 1499  # prime, so that two steps that share one port do not share the next
_HELLO = "clusterlab-meeting-1"
_LINE_LIMIT = 4096
_EXCHANGE_S = 2.0
_ROUND_PAUSE_S = 0.1


def meeting_ports(step: str) -> list[int]:
    """The ports at which the ranks of ``step`` look for each other, in order."""
    start = zlib.crc32(step.encode())
    return [_FIRST_PORT + (start + i * _STRIDE) % _PORT_SPAN for i in range(_PORTS_TRIED)]


class MeetingPoint:
    """Answers on the first free meeting port of ``step`` until closed."""

    def __init__(self, step: str, address: StoreAddress) -> None:
        self._hello = f"{_HELLO} {step}\n".encode()
        self._answer = f"{address.to_text()}\n".encode()
        self._listening = _bind_first_free(meeting_ports(step), step)
        self.port: int = self._listening.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, name="meeting-point", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop answering and free the port."""
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # wakes accept
        self._listening.close()
        self._thread.join(timeout=_EXCHANGE_S)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return  # closed
            with connection, contextlib.suppress(OSError):
                if _read_line(connection) == self._hello:
                    connection.sendall(self._answer)


def find_store(step: str, hosts: Sequence[str], *, timeout_s: float) -> StoreAddress:
    """Ask for ``step`` at the meeting ports of ``hosts`` until someone knows it.

    Raises DeadlineError when nobody answered within ``timeout_s``.
    """
    end = time.monotonic() + timeout_s
    ports = meeting_ports(step)
    while True:
        for address in _resolve(hosts):
            for port in ports:
                found = _ask(address, port, step)
                if found is not None:
                    return found
        if time.monotonic() > end:
            raise DeadlineError(
                f"nobody opened the meeting point of step {step} within {timeout_s:g} s"
                f" (tried {', '.join(hosts)}, ports {', '.join(map(str, ports))})",
                where="launch",
                fix="see what the first rank of the first node printed; let these ports through, or"
                " use srun --mpi=pmix",
            )
        time.sleep(_ROUND_PAUSE_S)


def _resolve(hosts: Sequence[str]) -> list[str]:
    """The addresses of ``hosts``; a name nobody knows (yet) has none."""
    addresses = []
    for host in hosts:
        with contextlib.suppress(OSError):
            found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            addresses += [str(entry[4][0]) for entry in found]
    return list(dict.fromkeys(addresses))


def _ask(address: str, port: int, step: str) -> StoreAddress | None:
    """The store's address, when it is this step's meeting point that answers."""
    try:
        with socket.create_connection((address, port), timeout=_EXCHANGE_S) as connection:
            connection.sendall(f"{_HELLO} {step}\n".encode())
            line = _read_line(connection)
        return parse_address(line.decode("utf-8", "replace"), where="meeting point")
    except (OSError, UsageError):
        return None  # nobody there yet, or somebody else


def _read_line(connection: socket.socket) -> bytes:
    """One line, in at most _EXCHANGE_S however slowly it comes."""
    end, data = time.monotonic() + _EXCHANGE_S, b""
    while b"\n" not in data and len(data) < _LINE_LIMIT:
        connection.settimeout(max(0.001, end - time.monotonic()))
        chunk = connection.recv(_LINE_LIMIT)
        if not chunk:
            break
        data += chunk
    return data


def _bind_first_free(ports: Sequence[int], step: str) -> socket.socket:
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    for port in ports:
        with contextlib.suppress(OSError):  # taken
            return socket.create_server(
                ("", port), family=family, backlog=1024, dualstack_ipv6=both
            )
    raise UsageError(
        f"all meeting ports of step {step} are taken ({', '.join(map(str, ports))})",
        where="launch",
        fix="use srun --mpi=pmix, which needs none of them",
    )
