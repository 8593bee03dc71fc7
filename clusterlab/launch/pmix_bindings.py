"""The PMIx client over the Python bindings (module ``pmix``), kept in a helper process.

Why a process: the 4.2 bindings hold the GIL while they wait, print on stdout, and crash the interpreter
on a value of the wrong shape; and Debian builds them for its own Python only.
"""

from __future__ import annotations

import atexit
import base64
import binascii
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from clusterlab.launch.pmix_types import (
    COLLECT_DATA,
    NOT_FOUND_CODES,
    WILDCARD_RANK,
    NoPmix,
    PmixDeadlineError,
    PmixError,
    PmixValue,
    check_key,
    check_value,
)

_HELPER = Path(__file__).with_name("pmix_bindings_helper.py")
_SYSTEM_PYTHON = "/usr/bin/python3"  # Debian's python3-pmix is built for this one


def connect(
    *, timeout_s: float, interpreters: Iterable[str] | None = None
) -> BindingsClient | NoPmix:
    """Start the helper under the first Python that has the bindings, and connect to the server.

    NoPmix when none has them or the server cannot be reached. Raises PmixDeadlineError.
    """
    reasons = []
    for python in dict.fromkeys(interpreters or (sys.executable, _SYSTEM_PYTHON)):
        try:
            helper = Helper(python)
        except OSError as error:
            reasons.append(f"{python}: {error.strerror}")
            continue
        hello = helper.receive("start of the bindings' helper", timeout_s)
        if "unavailable" in hello:
            reasons.append(f"{python}: {hello['unavailable']}")
            helper.close()
            continue
        me = helper.ask("init", timeout_s)
        if me["code"]:
            helper.close()
            return NoPmix(f"PMIx_Init failed: {me['text']} ({me['code']})", code=me["code"])
        return BindingsClient(helper, hello["version"], me["namespace"], me["rank"])
    return NoPmix(f"no Python bindings for PMIx ({'; '.join(reasons)})")


class Helper:
    """The helper process and the two pipes to it."""

    def __init__(self, python: str) -> None:
        self._process = subprocess.Popen(
            [python, "-W", "ignore", str(_HELPER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        self._pending = b""
        atexit.register(self.close)

    def ask(self, call: str, timeout_s: float, **arguments: Any) -> dict[str, Any]:
        """Send one request and wait for its reply."""
        request = {"call": call, "timeout_s": timeout_s, **arguments}
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
        except BrokenPipeError:
            raise PmixError(call, self._process.wait(), "the bindings' helper has died") from None
        return self.receive(call, timeout_s)

    def receive(self, call: str, timeout_s: float) -> dict[str, Any]:
        """The next reply. Raises PmixDeadlineError, or PmixError when the helper has died."""
        assert self._process.stdout is not None
        out = self._process.stdout.fileno()
        end = time.monotonic() + timeout_s
        while b"\n" not in self._pending:
            ready, _, _ = select.select([out], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise PmixDeadlineError(call, timeout_s)
            chunk = os.read(out, 1 << 16)
            if not chunk:
                raise PmixError(call, self._process.wait(), "the bindings' helper has died")
            self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the helper. A lost connection makes Slurm end the step, so only when leaving."""
        atexit.unregister(self.close)
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


class BindingsClient:
    """PmixClient over the bindings. Made by ``connect``."""

    implementation = "bindings"

    def __init__(self, helper: Helper, version: str, namespace: str, rank: int) -> None:
        self.version = version
        self.namespace = namespace
        self.rank = rank
        self._helper = helper
        self._stuck: PmixDeadlineError | None = None
        self._left = False

    def put(self, key: str, value: bytes) -> None:
        """See PmixClient.put."""
        check_key(key)
        check_value(value)
        self._call("put", 30.0, key=key, value=base64.b64encode(value).decode("ascii"))

    def commit(self, *, timeout_s: float = 30.0) -> None:
        """See PmixClient.commit."""
        self._call("commit", timeout_s)

    def fence(self, *, timeout_s: float) -> None:
        """See PmixClient.fence."""
        self._call("fence", timeout_s, wildcard=WILDCARD_RANK, collect=COLLECT_DATA)

    def get(self, rank: int, key: str, *, timeout_s: float) -> PmixValue | None:
        """See PmixClient.get."""
        check_key(key)
        answer = self._call("get", timeout_s, allowed=NOT_FOUND_CODES, rank=rank, key=key)
        if answer["code"]:
            return None
        if "bytes" in answer:
            try:
                return base64.b64decode(answer["bytes"], validate=True)
            except binascii.Error:
                return None
        value: PmixValue | None = answer["value"]
        return value

    def absent(self, ranks: Iterable[int], key: str, *, wait_s: float) -> list[int] | None:
        """See PmixClient.absent: while one call waits, the bindings can make no other."""
        del ranks, key, wait_s
        return None

    def finalize(self, *, timeout_s: float = 10.0) -> None:
        """See PmixClient.finalize."""
        if self._left or self._stuck:
            return
        self._call("finalize", timeout_s)
        self._left = True
        self._helper.close()

    def _call(
        self,
        name: str,
        timeout_s: float,
        *,
        allowed: frozenset[int] = frozenset(),
        **arguments: Any,
    ) -> dict[str, Any]:
        if self._stuck:
            raise self._stuck
        if self._left:
            raise PmixError(name, -31, "the client has already left")
        try:
            answer = self._helper.ask(name, timeout_s, **arguments)
        except PmixDeadlineError as deadline:
            self._stuck = deadline
            raise
        if answer["code"] and answer["code"] not in allowed:
            raise PmixError(name, answer["code"], answer["text"])
        return answer
