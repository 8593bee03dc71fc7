"""Start the server, say where it is, and end it in order."""

from __future__ import annotations

import asyncio
import ipaddress
import signal
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

from clusterlab.core.errors import UsageError
from clusterlab.records.run_dir import RUN
from clusterlab.report.text import plain
from clusterlab.runs.serving.gate import Gate
from clusterlab.runs.serving.rendered import Rendered
from clusterlab.runs.serving.routes import Routes
from clusterlab.runs.serving.scratch import scratch_folder
from clusterlab.runs.serving.server import Server, connections_allowed


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """``port`` 0: one that is free."""

    root: Path
    host: str
    port: int


def serve(options: ServeOptions) -> int:
    """Serve until Ctrl-C or SIGTERM; 128 + the signal. Raises UsageError before it listens."""
    root = runs_folder(options.root)
    host = loopback(options.host, options.port)
    with scratch_folder() as scratch:
        return asyncio.run(_run(root, host, options.port, scratch))


def runs_folder(root: Path) -> Path:
    """``root``, resolved. Raises UsageError for what is no folder of runs."""
    if not root.is_dir():
        what = "not a directory" if root.exists() else "no such directory"
        raise UsageError(what, where=str(root), expected="a folder of run directories")
    if (root / RUN).exists():
        raise UsageError(
            "a run directory", where=str(root), expected="the folder that run directories are in",
            fix=f"clusterlab serve {root.resolve().parent}",
        )  # fmt: skip
    return root.resolve()


def loopback(host: str, port: int) -> str:
    """The address to listen on. Raises UsageError for one that other hosts reach."""
    given = host.strip("[]")
    if given == "localhost":
        return "127.0.0.1"
    try:
        address = ipaddress.ip_address(given)
    except ValueError:
        address = None
    if address in (ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1")):
        return given
    raise UsageError(
        f"{host!r}: pages are served on loopback only",
        where="--host",
        expected="127.0.0.1, ::1 or localhost",
        fix=f"from another machine: {tunnel(port)}",
    )


def tunnel(port: int, host: str = "127.0.0.1") -> str:
    """What to type elsewhere to reach the server."""
    number = port or "PORT"
    return f"ssh -L {number}:{host}:{number} {plain(socket.gethostname())}"


async def _run(root: Path, host: str, port: int, scratch: Path) -> int:
    rendered = Rendered(scratch)
    ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, _once, ended, number)
    allowed = connections_allowed()
    listening = _listen(host, port)
    port = listening.getsockname()[1]
    gate = Gate(port)
    server = Server(Routes(root, gate, rendered), allowed)
    listener = await server.start(listening)
    _say(gate, host, root)
    first = asyncio.create_task(server.routes.listed())  # starts the process that renders
    try:
        return 128 + await ended
    finally:
        listener.close()
        first.cancel()
        await server.end()
        await rendered.end()


def _once(ended: asyncio.Future[int], number: int) -> None:
    if not ended.done():
        ended.set_result(number)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    # A port that was ours a moment ago is taken again at once; one that another listens on is not.
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"{port}: {reason}",
            where="--port",
            fix="choose another, or none: then one that is free is",
        ) from None
    listening.setblocking(False)
    return listening


def _say(gate: Gate, host: str, root: Path) -> None:
    """On stdout the address alone, for scripts; the token is in it and is said nowhere else."""
    name = f"[{host}]" if ":" in host else host
    print(f"http://{name}:{gate.port}/?token={gate.token}", flush=True)
    for line in (
        f"serving {plain(str(root))} to who opens that address in a browser; it is good until Ctrl-C",
        f"from another machine, the same address after: {tunnel(gate.port, name)}",
    ):
        print(f"clusterlab: {line}", file=sys.stderr, flush=True)
