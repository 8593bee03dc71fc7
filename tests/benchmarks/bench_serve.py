"""How soon `clusterlab serve` answers one reader before, during and after 1,000 clients that hold it up.

python tests/benchmarks/bench_serve.py [--clients 1000] [--rows 100000] [--seconds 15] [--files 512]
"""

from __future__ import annotations

import argparse
import http.client
import random
import re
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from clusterlab.records.schema import row_to_line
from tests.records.fake_runs import fake_row, fake_rows, make_run, points

CLUSTERLAB = str(Path(sys.executable).with_name("clusterlab"))
HEAD = "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: {cookie}\r\n"


class Served:
    """The server, and how one reader finds it."""

    def __init__(self, runs: Path, files: int | None) -> None:
        command = [CLUSTERLAB, "serve", str(runs)]
        if files:
            command = ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", *command]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout is not None
        found = re.fullmatch(
            r"http://127.0.0.1:(\d+)(/\?token=\S+)\n", self.process.stdout.readline()
        )
        assert found is not None
        self.port = int(found[1])
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("GET", found[2])
        answer = connection.getresponse()
        self.mount = answer.headers["Location"]
        self.cookie = answer.headers["Set-Cookie"].partition(";")[0]

    def get(self, path: str, timeout_s: float = 120.0) -> tuple[float, int]:
        """Seconds to the last byte, and bytes."""
        began = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        connection.request("GET", self.mount + path, headers={"Cookie": self.cookie})
        answer = connection.getresponse()
        assert answer.status == 200, answer.status
        size = len(answer.read())
        connection.close()
        return time.perf_counter() - began, size


class SlowClients(threading.Thread):
    """``count`` connections kept open: each says ``first``, then ``more`` every second, and reads at most a
    KiB a second where it ``reads``. One that is closed comes again.
    """

    def __init__(self, port: int, count: int, first: bytes, more: bytes, *, reads: bool) -> None:
        super().__init__(daemon=True)
        self._port, self._count = port, count
        self._first, self._more, self._reads = first, more, reads
        self._open: list[socket.socket] = []
        self.lost = 0
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.wait(1.0):
            while len(self._open) < self._count and not self.done.is_set():
                self._connect()
            self._open = [one for one in self._open if self._goes_on(one)]
        for one in self._open:
            one.close()

    def _connect(self) -> None:
        one = socket.socket()
        if self._reads:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.settimeout(5)
        try:
            one.connect(("127.0.0.1", self._port))
            one.sendall(self._first)
            one.setblocking(False)
            self._open.append(one)
        except OSError:
            one.close()
            self.lost += 1
            time.sleep(0.01)

    def _goes_on(self, one: socket.socket) -> bool:
        try:
            if self._reads:
                alive = one.recv(1024) != b""
            else:
                try:
                    alive = one.recv(64) != b"" and False  # an answer: it was given up
                except BlockingIOError:
                    alive = not self._more or one.send(self._more) > 0
        except BlockingIOError:
            return True
        except OSError:
            alive = False
        if not alive:
            one.close()
            self.lost += 1
        return alive

    @property
    def held(self) -> int:
        return len(self._open)


@contextmanager
def slow(
    served: Served, count: int, first: str, more: str, *, reads: bool
) -> Iterator[SlowClients]:
    clients = SlowClients(served.port, count, first.encode(), more.encode(), reads=reads)
    clients.start()
    end = time.monotonic() + 30
    while clients.held < count and time.monotonic() < end:
        time.sleep(0.1)
    yield clients
    clients.done.set()
    clients.join()


def tell(
    name: str, ask: Callable[[], tuple[float, int]], seconds: float, pause: float = 0.1
) -> None:
    """Ask again and again for some time; print what it took."""
    took, end = [], time.monotonic() + seconds
    failed = 0
    while time.monotonic() < end:
        try:
            took.append(ask()[0])
        except (OSError, http.client.HTTPException):
            failed += 1
        time.sleep(pause)
    figures = sorted(took) or [float("inf")]
    print(
        f"{name:<58} {len(took):4d} answers, median {statistics.median(figures) * 1e3:7.1f} ms, "
        f"p99 {figures[int(0.99 * (len(figures) - 1))] * 1e3:7.1f} ms, most {figures[-1] * 1e3:7.1f} ms, "
        f"failed {failed}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--files", type=int, help="Open files that the server may have.")
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder)
        small = make_run(runs, fake_rows(points()), name="small").path.name
        large = large_run(runs, options.rows)
        served = Served(runs, options.files)
        try:
            measure(served, small, large, options)
        finally:
            served.process.terminate()
            served.process.wait()


def large_run(runs: Path, rows: int) -> str:
    sizes = [1024 + 4 * i for i in range(rows)]
    some, rng = points(["all_reduce"], sizes[: rows // 2]), random.Random(1)
    run = make_run(runs, [], name="large", exit_code=None)
    with run.records_path.open("wb") as file:
        for point in some:
            file.write(row_to_line(fake_row(point, rng)))
    return run.path.name


def measure(served: Served, small: str, large: str, options: argparse.Namespace) -> None:
    def page() -> tuple[float, int]:
        return served.get(f"run/{small}/")

    print(f"first page of the small run: {page()[0]:.2f} s")
    tell("before", page, 5)
    head = HEAD.format(path="/", port=served.port, cookie="x")
    n = options.clients
    with slow(served, n, head + "X-Slow: ", "a", reads=False) as clients:
        tell(f"{clients.held} clients that never end their headers", page, options.seconds)
        print(f"  held at the end {clients.held}, closed by the server {clients.lost}")
    with slow(served, n, "", "", reads=False) as clients:
        tell(f"{clients.held} clients that say nothing", page, options.seconds)
        print(f"  held at the end {clients.held}, closed by the server {clients.lost}")
    rendering = threading.Thread(target=lambda: print_first(served, large))
    rendering.start()
    while rendering.is_alive():
        tell(f"while the page of {options.rows:,} rows is made", page, 3)
    rendering.join()
    head = HEAD.format(path=f"{served.mount}run/{large}/", port=served.port, cookie=served.cookie)
    with slow(served, n, head + "\r\n", "", reads=True) as clients:
        tell(
            f"{clients.held} clients with the cookie that read 1 KiB/s of it", page, options.seconds
        )
        print(f"  held at the end {clients.held}, closed by the server {clients.lost}")
    time.sleep(1)
    tell("after", page, 5)
    status = Path(f"/proc/{served.process.pid}/status").read_text()
    print("server's memory:", " ".join(re.findall(r"Vm(?:HWM|RSS):.*", status)))


def print_first(served: Served, run: str) -> None:
    took, size = served.get(f"run/{run}/")
    print(f"  the large page: {took:.1f} s, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
