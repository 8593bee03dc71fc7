"""Headless Chromium over its debugging pipe, network refused: look at a page as a browser sees it."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_DEADLINE_S = 60.0

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)
_NO_HOST = "MAP * ~NOTFOUND"


def chromium() -> str:
    """The browser's path; skips the test where there is none, fails it when CI=true."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail("Chromium is not installed (make system)")
        pytest.skip("Chromium is not installed (make system)")
    return found


@contextmanager
def page(*, loopback: bool = False) -> Iterator[Page]:
    """One browser with one page; gone afterwards. ``loopback``: it reaches 127.0.0.1, and nothing else."""
    hosts = f"{_NO_HOST} , EXCLUDE 127.0.0.1" if loopback else _NO_HOST
    command_read, command_write = os.pipe()
    event_read, event_write = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = subprocess.Popen(
            # Chromium reads commands from file descriptor 3 and answers on 4.
            [
                *("bash", "-c", f'exec "$@" 3<&{command_read} 4>&{event_write}', "-"),
                *(chromium(), *_FLAGS, f"--host-resolver-rules={hosts}"),
                *(f"--user-data-dir={profile}", "about:blank"),
            ],
            pass_fds=(command_read, event_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(command_read)
        os.close(event_write)
        try:
            yield Page(command_write, event_read)
        finally:
            browser.kill()
            browser.wait(timeout=_DEADLINE_S)
            os.close(command_write)
            os.close(event_read)


class Page:
    """Commands of the Chrome DevTools Protocol, answered in order."""

    def __init__(self, write: int, read: int) -> None:
        self._write, self._read = write, read
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self._command("Target.createTarget", url="about:blank")["targetId"]
        attached = self._command("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._command(f"{domain}.enable")

    def open(
        self,
        file: Path | str,
        *,
        width: int,
        height: int = 900,
        dark: bool = False,
        script: bool = True,
    ) -> None:
        """Load ``file``, or an address, in a window of ``width`` CSS pixels and wait until it is complete.

        ``script``: whether the page's own scripts run; ``evaluate`` works in any case.
        """
        self.events.clear()
        self._command("Emulation.setScriptExecutionDisabled", value=not script)
        self._command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._command("Emulation.setEmulatedMedia", media="screen", features=[scheme])
        url = file.resolve().as_uri() if isinstance(file, Path) else file
        self._command("Page.navigate", url=url)
        deadline = time.monotonic() + _DEADLINE_S
        while not any(e["method"] == "Page.loadEventFired" for e in self.events):
            self.events.append(self._message(deadline))

    def evaluate(self, script: str) -> Any:
        """The value of the JavaScript expression ``script`` in the page; a promise's, once it has one."""
        answer = self._command(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def requests(self) -> list[str]:
        """URLs the page asked for since ``open``."""
        return [
            e["params"]["request"]["url"]
            for e in self.events
            if e["method"] == "Network.requestWillBeSent"
        ]

    def complaints(self) -> list[str]:
        """What the browser logged about the page since ``open``."""
        return [
            e["params"]["entry"]["text"] for e in self.events if e["method"] == "Log.entryAdded"
        ]

    def screenshot(self, file: Path, *, height: int | None = None, scale: float = 1.0) -> None:
        """Write a PNG of the page, from the top to ``height`` (None: to the bottom), without scroll bars."""
        self._command("Emulation.setScrollbarsHidden", hidden=True)
        size = self._command("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "scale": scale} | {k: size[k] for k in ("width", "height")}
        clip["height"] = min(clip["height"], height or clip["height"])
        data = self._command(
            "Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip
        )["data"]
        self._command("Emulation.setScrollbarsHidden", hidden=False)
        file.write_bytes(base64.b64decode(data))

    def press_tab(self) -> None:
        """Move the focus as the Tab key does."""
        for kind in ("rawKeyDown", "keyUp"):
            self._command(
                "Input.dispatchKeyEvent",
                type=kind,
                key="Tab",
                code="Tab",
                windowsVirtualKeyCode=9,
            )

    def emulate_print(self) -> None:
        """Show the page as it is printed, until the next ``open``."""
        self._command("Emulation.setEmulatedMedia", media="print")
        # What is visible is known once the next frame is laid out.
        self.evaluate("new Promise(done => requestAnimationFrame(() => done(true)))")

    def _command(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + _DEADLINE_S
        while True:
            answer = self._message(deadline)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def _message(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "Chromium does not answer"
            chunk = os.read(self._read, 1 << 16)
            assert chunk, "Chromium ended"
            self._buffer += chunk
        message, _, self._buffer = self._buffer.partition(b"\0")
        parsed: dict[str, Any] = json.loads(message)
        return parsed
