"""Debian's Prometheus, promtool and node exporter on loopback ports, gone afterwards."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
UNPACKED = ROOT / "build" / "prometheus" / "usr" / "bin"
RULES = ROOT / "dashboards" / "prometheus" / "rules.yml"
_DEADLINE_S = 60.0

_COLLECTORS = ("textfile", "uname", "cpu", "meminfo", "netdev")
"""What the dashboards ask for: the others are work for a busy machine."""

Page = tuple[str, bytes]
"""Content type, body."""


def tool(name: str) -> str:
    """The path of a program of Debian's packages; skips the test without it, fails it when CI=true."""
    unpacked = UNPACKED / name
    found = str(unpacked) if unpacked.exists() else shutil.which(name)
    if found is None:
        said = f"{name} is not unpacked (make system)"
        if os.environ.get("CI") == "true":
            pytest.fail(said)
        pytest.skip(said)
    return found


def promtool(*arguments: str, stdin: bytes = b"", cwd: Path | None = None) -> tuple[int, str]:
    """Its exit code, and all it says."""
    done = subprocess.run(
        [tool("promtool"), *arguments], input=stdin, cwd=cwd, check=False, timeout=60,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    return done.returncode, done.stdout.decode()


@dataclass(frozen=True)
class Server:
    """A Prometheus that scrapes."""

    url: str

    def get(self, path: str, **parameters: str) -> Any:
        """The ``data`` of an answer of its HTTP interface."""
        query = urllib.parse.urlencode(parameters)
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from None

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series of an instant query."""
        found = self.get("query", query=expression)
        assert found["resultType"] == "vector", expression
        return list(found["result"])

    def wait_for(self, expression: str) -> None:
        """Until a query has an answer."""
        assert self.answer(expression, _DEADLINE_S), f"{expression}: {self.get('targets')}"

    def answer(self, expression: str, patience_s: float = 10.0) -> list[dict[str, Any]]:
        """The series of a query. A busy machine misses a scrape now and then, and its series are gone until
        the next: so an empty answer is asked for again.
        """
        deadline = time.monotonic() + patience_s
        while not (found := self.query(expression)) and time.monotonic() < deadline:
            time.sleep(0.2)
        return found


@contextmanager
def serving(folder: Path, textfiles: Path, pages: Mapping[str, Page]) -> Iterator[Server]:
    """A Prometheus in ``folder`` with our rules; it scrapes a node exporter that reads ``textfiles``, and
    ``pages`` by their names, each a job.
    """
    prometheus, exporter = tool("prometheus"), tool("prometheus-node-exporter")
    with ExitStack() as stack:
        port = _free_port()
        command = [exporter, f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
        command += ["--collector.disable-defaults", *(f"--collector.{one}" for one in _COLLECTORS)]
        stack.enter_context(_running([*command, f"--collector.textfile.directory={textfiles}"]))
        others = stack.enter_context(_pages(pages))
        scraped = [("node", "metrics", port), *((name, name, others) for name in pages)]
        config = folder / "prometheus.yml"
        config.write_text(json.dumps(_configuration(scraped)), encoding="utf-8")
        mine = _free_port()
        command = [prometheus, f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"]
        command += [f"--web.listen-address=127.0.0.1:{mine}", "--log.level=error"]
        stack.enter_context(_running(command))
        _answering(mine)
        yield Server(f"http://127.0.0.1:{mine}")


def _configuration(scraped: list[tuple[str, str, int]]) -> dict[str, Any]:
    """prometheus.yml, whose YAML may be JSON."""
    return {
        "global": {"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES)],
        "scrape_configs": [
            {
                "job_name": name,
                "metrics_path": f"/{path}",
                "static_configs": [{"targets": [f"127.0.0.1:{port}"]}],
            }
            for name, path, port in scraped
        ],
    }


@contextmanager
def _running(command: list[str]) -> Iterator[None]:
    process = subprocess.Popen(command)
    try:
        yield
        assert process.poll() is None, f"{command[0]} ended by itself"
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def _pages(pages: Mapping[str, Page]) -> Iterator[int]:
    """The port of a server of ``pages``."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kind, body = pages[self.path[1:].partition("?")[0]]
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def _answering(port: int) -> None:
    deadline = time.monotonic() + _DEADLINE_S
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=5).close()
            return
        except OSError:  # not listening yet, or 503 until its log is replayed
            assert time.monotonic() < deadline, f"port {port} does not answer"
            time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
