"""Clients that only hold the server up do not keep others out; renderers that hang or die are replaced."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import resource
import signal
import socket
import subprocess
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from clusterlab.cli.main import main
from clusterlab.core.errors import UsageError
from clusterlab.runs.serving import worker
from clusterlab.runs.serving.orders import Worker
from clusterlab.runs.serving.rendered import SLOW_S, Rendered
from clusterlab.runs.serving.serve import loopback, runs_folder
from clusterlab.runs.serving.server import MOST_STREAMS, TAKE_BYTES, connections_allowed
from tests.conftest import CLI, clean_environment
from tests.records.fake_runs import fake_rows, make_run, points
from tests.runs.serving.live_server import live

POINTS = list(points(["all_reduce"]))
LARGE = 64 << 20
"""More than the kernel keeps of an answer that nobody reads."""


@pytest.mark.parametrize("kind", ["say nothing", "never end their headers", "never read"])
def test_slow_clients_make_room_for_others(tmp_path: Path, kind: str) -> None:
    run = make_run(tmp_path / "runs", fake_rows(POINTS))
    os.truncate(run.records_path, LARGE)
    with live(tmp_path / "runs", tmp_path, most=8) as server, ExitStack() as stack:
        said = {
            "say nothing": b"",
            "never end their headers": b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ",
            "never read": server.request(f"{server.gate.mount}run/{run.path.name}/records.jsonl"),
        }[kind]
        slow = [stack.enter_context(server.connect()) for _ in range(40)]
        for one in slow:
            with suppress(ConnectionError):
                one.sendall(said)
        for _ in range(5):
            assert server.page("").status == 200
        assert len(server.server._open) <= 8


def test_a_request_has_its_time(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    with live(tmp_path / "runs", tmp_path, ask_s=0.2) as server:
        assert server.raw(b"GET / HTTP/1.1\r\nHost: ").status == 408


def test_an_answer_that_is_not_taken_is_given_up(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs", fake_rows(POINTS))
    os.truncate(run.records_path, LARGE)
    with live(tmp_path / "runs", tmp_path, take_s=0.2 - LARGE / TAKE_BYTES) as server:
        with server.connect() as connection:
            connection.sendall(
                server.request(f"{server.gate.mount}run/{run.path.name}/records.jsonl")
            )
            assert connection.recv(12) == b"HTTP/1.1 200"
            while server.server._open:
                time.sleep(0.01)
            came = 0
            with suppress(ConnectionError):
                while part := connection.recv(1 << 20):
                    came += len(part)
        assert came < LARGE


def test_a_lack_of_files_is_not_said_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "runs", fake_rows(POINTS))
    with live(tmp_path / "runs", tmp_path) as server:

        def none_left(_self: Path) -> None:
            raise OSError(errno.EMFILE, "Too many open files")

        with monkeypatch.context() as patch:
            patch.setattr(Path, "iterdir", none_left)
            said = server.page(f"run/{run.path.name}/")
        assert said.status == 503 and said.headers["Retry-After"] == "5"
        assert server.page(f"run/{run.path.name}/records.jsonl").status == 200


@pytest.mark.parametrize(
    ("files", "most"), [((256, 256), 48), ((100, 100), 16), ((1 << 20, 1 << 20), 4096)]
)
def test_connections_leave_files_for_what_is_sent(
    files: tuple[int, int], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _what: files)
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    assert connections_allowed() == most


def test_only_so_many_pages_are_told_what_is_new(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    with live(tmp_path / "runs", tmp_path) as server, ExitStack() as stack:
        for _ in range(MOST_STREAMS):
            connection = stack.enter_context(server.connect())
            connection.sendall(server.request(f"{server.gate.mount}events"))
            assert connection.recv(12) == b"HTTP/1.1 200"
        assert server.page("events").status == 503
        assert server.page("").status == 200


def test_a_renderer_that_hangs_or_dies_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runs").mkdir()
    order: dict[str, Any] = {
        "do": "runs", "run": str(tmp_path / "runs"), "out": str(tmp_path / "out"),
        "names": [], "page": 1, "pages": 1, "total": 0,
    }  # fmt: skip

    async def tried() -> list[bool]:
        renders, found = Worker(most_s=60.0), []
        found.append("error" in await renders.do(**order))
        assert renders._process is not None
        os.kill(renders._process.pid, signal.SIGKILL)
        await renders._process.wait()
        found.append("error" in await renders.do(**order))
        os.kill(renders._process.pid, signal.SIGSTOP)
        renders._most_s = 0.3
        found.append("error" in await renders.do(**order))
        renders._most_s = 60.0
        found.append("error" in await renders.do(**order))
        await renders.end()
        return found

    assert asyncio.run(tried()) == [False, False, True, False]


def test_an_order_that_fails_is_told_in_words() -> None:
    assert (
        "no such run directory"
        in worker.answer({"do": "page", "run": "/none", "out": "/none"})["error"]
    )
    assert worker.answer({"do": "page"}) == {"error": "this run cannot be shown: KeyError"}


class _Slow:
    """Takes its time by a clock of its own; another page each time."""

    def __init__(self) -> None:
        self.now, self.made = 0.0, 0
        self.go_on = asyncio.Event()

    async def do(self, *, out: str, **_order: Any) -> dict[str, Any]:
        if self.made:
            await self.go_on.wait()
        self.made += 1
        self.now += 2 * SLOW_S
        Path(out).write_text(f"{self.made}")
        return {"policy": ""}


def test_a_slow_page_is_served_as_it_was_while_it_is_made_again(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs", [])

    async def tried() -> list[str]:
        slow = _Slow()
        rendered = Rendered(tmp_path, lambda: slow.now, slow, slow)  # type: ignore[arg-type]
        said = []
        for change in range(4):
            kept = await rendered.of_run(run.path, "page")
            assert not isinstance(kept, str)
            said.append(kept.file.read_text())
            (run.path / "steps.jsonl").write_text("\n" * change)
            if change == 2:
                slow.go_on.set()
                while slow.made < 2:
                    await asyncio.sleep(0)
                await asyncio.sleep(0)
        return said

    assert asyncio.run(tried()) == ["1", "1", "1", "2"]


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.168.1.2", "127.0.0.2", "example.org", "", "*"]
)
def test_other_hosts_cannot_reach_it(
    host: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", str(tmp_path), "--host", host, "--port", "8765"]) == 2
    assert "ssh -L 8765:127.0.0.1:8765 " in capsys.readouterr().err


def test_what_may_be_listened_on() -> None:
    assert [loopback(h, 1) for h in ("localhost", "::1", "[::1]")] == ["127.0.0.1", "::1", "::1"]


def test_a_folder_of_runs_is_asked_for(tmp_path: Path) -> None:
    run = make_run(tmp_path, [])
    assert runs_folder(tmp_path) == tmp_path.resolve()
    for wrong in (run.path, tmp_path / "none", run.path / "run.json"):
        with pytest.raises(UsageError):
            runs_folder(wrong)


def test_the_command_says_its_address_once_and_ends_in_order(tmp_path: Path) -> None:
    make_run(tmp_path / "runs", fake_rows(POINTS))
    command = [*CLI, "serve", str(tmp_path / "runs")]
    (tmp_path / "tmp").mkdir()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1,
        env=clean_environment(TMPDIR=str(tmp_path / "tmp")),
    ) as process:  # fmt: skip
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/\?token=([\w-]{43})\n", line)
        assert found is not None
        port, token = int(found[1]), found[2]
        for target in (f"/?token={token}", f"/?token={token}x", f"/{token}", "/"):
            with socket.create_connection(("127.0.0.1", port)) as asked:
                asked.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n".encode())
                while asked.recv(4096):
                    pass
        again = subprocess.run([*CLI, "serve", str(tmp_path), "--port", str(port)], capture_output=True,
                               text=True, check=False)  # fmt: skip
        assert again.returncode == 2 and f"--port: {port}: Address already in use" in again.stderr
        with socket.create_connection(("127.0.0.1", port)) as waiting:
            waiting.sendall(b"GET / HTTP/1.1\r\n")
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == "" and len(err.splitlines()) == 2 and token not in err
    assert f"ssh -L {port}:127.0.0.1:{port}" in err
    assert not list((tmp_path / "tmp").iterdir())
