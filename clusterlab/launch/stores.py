"""The job's TCPStore: served on a free port, described by an address, reached by the others."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from clusterlab.core.errors import DeadlineError, UsageError

if TYPE_CHECKING:
    from torch.distributed import TCPStore

LOOPBACK = "127.0.0.1"
_CONNECT_S = 5.0
_ROUND_PAUSE_S = 0.1


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """Where the store listens: one port, and names or addresses to try in this order."""

    hosts: tuple[str, ...]
    port: int

    def to_text(self) -> str:
        """One line of JSON."""
        return json.dumps({"hosts": list(self.hosts), "port": self.port})


def parse_address(text: str, *, where: str) -> StoreAddress:
    """The StoreAddress that ``to_text`` wrote. Raises UsageError on anything else."""
    try:
        data = json.loads(text)
        hosts, port = data["hosts"], data["port"]
    except (ValueError, KeyError, TypeError):
        raise UsageError(f"{text[:80]!r} is no store address", where=where) from None
    named = isinstance(hosts, list) and hosts and all(isinstance(h, str) and h for h in hosts)
    if not named or not isinstance(port, int) or not 0 < port < 65536:
        raise UsageError(f"{text[:80]!r} is no store address", where=where)
    return StoreAddress(tuple(hosts), port)


def serve_store(timeout_s: float, *, port: int = 0) -> TCPStore:
    """A TCPStore served by this process, by default on a free port. Raises UsageError."""
    from torch.distributed import DistError, TCPStore

    timeout = timedelta(seconds=timeout_s)
    try:
        return TCPStore(LOOPBACK, port, None, True, timeout=timeout, wait_for_workers=False)
    except DistError as error:
        raise UsageError(
            f"port {port} cannot be opened ({_first_line(error)})",
            where="launch",
            fix="choose another MASTER_PORT, or start with srun --mpi=pmix, which needs none",
        ) from None


def reach_store(address: StoreAddress, timeout_s: float) -> TCPStore:
    """A client of the store at ``address``: the first of its hosts that answers.

    Raises DeadlineError when none does within ``timeout_s``.
    """
    from torch.distributed import DistError, TCPStore

    end = time.monotonic() + timeout_s
    host = _first_reachable(address, end)
    try:
        return TCPStore(
            host,
            address.port,
            None,
            False,
            timeout=timedelta(seconds=timeout_s),
            wait_for_workers=False,
        )
    except DistError as error:
        raise DeadlineError(
            f"what listens at {host}:{address.port} is not the job's store ({_first_line(error)})",
            where="launch",
        ) from error


def _first_reachable(address: StoreAddress, end: float) -> str:
    """Tried with a plain socket: a TCPStore that cannot connect prints a page of C++ frames."""
    while True:
        for host in address.hosts:
            with suppress(OSError), socket.create_connection((host, address.port), _CONNECT_S):
                return host
        if time.monotonic() > end:
            raise DeadlineError(
                f"the store at {', '.join(address.hosts)} port {address.port} cannot be reached"
                f" from {socket.gethostname()}",
                where="launch",
                fix="see whether a firewall closes this port between the nodes",
            )
        time.sleep(_ROUND_PAUSE_S)


def source_address(others: Sequence[str]) -> str | None:
    """This host's address on the way to the first of ``others`` whose name resolves."""
    for other in others:
        with suppress(OSError):
            # connecting a UDP socket sends nothing: the kernel only picks the route
            family, kind, _, _, target = socket.getaddrinfo(other, 9, type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, kind) as probe:
                probe.connect(target)
                return str(probe.getsockname()[0])
    return None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
