"""TCP between NICs, measured on one node: run in it by ``check``.

    python -S -m clusterlab.lab.probe ADDRESS…

It listens at each address and says at which port (one JSON line, by address). Then for each line
``{"send": [[FROM, TO, PORT], …], "receive": [[FROM, TO], …], "seconds": S}`` it does both at once and answers
``{"received": [GBps or null, …], "failed": [error or null, …]}`` in the same orders.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
import time
from typing import Any

_CHUNK = 1 << 18
_START_S = 0.1
"""Left out at the start: the token buckets are full and TCP is not up to speed."""

_CONNECT_S = 1.0


class _Receiver(threading.Thread):
    """Takes one connection and times what comes in."""

    def __init__(self, server: socket.socket, expected_from: str, patience_s: float) -> None:
        super().__init__(daemon=True)
        self.server = server
        self.expected_from = expected_from
        self.patience_s = patience_s
        self.GBps: float | None = None

    def run(self) -> None:
        self.server.settimeout(self.patience_s)
        peer = ""
        while peer != self.expected_from:
            try:
                connection, (peer, _) = self.server.accept()
            except TimeoutError:
                return
            with connection:
                # Another's is left over from a round in which it came too late.
                if peer == self.expected_from:
                    connection.settimeout(self.patience_s)
                    self.GBps = _rate(connection)


def _rate(connection: socket.socket) -> float | None:
    """GB/s from _START_S after the first byte to the last; None for too little."""
    buffer = bytearray(_CHUNK)
    total, begun, counted = 0, None, 0
    since = last = 0.0
    while True:
        try:
            got = connection.recv_into(buffer)
        except OSError:
            break
        if not got:
            break
        last = time.perf_counter()
        total += got
        if begun is None:
            begun = last
        if not counted and last - begun >= _START_S:
            counted, since = total, last
    return (total - counted) / (last - since) / 1e9 if counted and last > since else None


class _Sender(threading.Thread):
    """Sends zeros for a while."""

    def __init__(self, source: str, target: tuple[str, int], seconds: float) -> None:
        super().__init__(daemon=True)
        self.source = source
        self.target = target
        self.seconds = seconds
        self.failed: str | None = None

    def run(self) -> None:
        chunk = bytes(_CHUNK)
        try:
            with socket.create_connection(self.target, _CONNECT_S, (self.source, 0)) as connection:
                connection.settimeout(self.seconds + _CONNECT_S)
                end = time.perf_counter() + _START_S + self.seconds
                while time.perf_counter() < end:
                    connection.sendall(chunk)
        except OSError as error:
            self.failed = error.strerror or str(error)


def _round(servers: dict[str, socket.socket], wanted: dict[str, Any]) -> dict[str, Any]:
    seconds = wanted["seconds"]
    patience_s = seconds + 2 * _CONNECT_S
    receivers = [_Receiver(servers[to], source, patience_s) for source, to in wanted["receive"]]
    senders = [_Sender(source, (to, port), seconds) for source, to, port in wanted["send"]]
    for thread in (*receivers, *senders):
        thread.start()
    for thread in (*senders, *receivers):
        thread.join()
    return {
        "received": [thread.GBps for thread in receivers],
        "failed": [thread.failed for thread in senders],
    }


def main(addresses: list[str]) -> None:
    """Serve until standard input ends."""
    with contextlib.suppress(PermissionError):
        # Before what else runs here: a few ms of waiting for a core would count as a slow link.
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    servers = {address: socket.create_server((address, 0)) for address in addresses}
    print(json.dumps({a: s.getsockname()[1] for a, s in servers.items()}), flush=True)
    for line in sys.stdin:
        print(json.dumps(_round(servers, json.loads(line))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
