"""An in-memory PMIx server and its clients, for ranks that are threads of one test."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from clusterlab.launch.pmix_types import NODE_LIST, PmixDeadlineError, PmixError, PmixValue


class FakePmixServer:
    """What the clients of one job share."""

    def __init__(self, world_size: int) -> None:
        self.barrier = threading.Barrier(world_size)
        self.published: dict[tuple[int, str], bytes] = {}


class FakePmixClient:
    """PmixClient over a FakePmixServer. ``fence_error`` makes the fence fail as a dead peer does."""

    implementation = "fake"
    version = "fake"
    namespace = "job"

    def __init__(
        self, server: FakePmixServer, rank: int, *, fence_error: int = 0, can_tell: bool = True
    ) -> None:
        self.rank = rank
        self._server = server
        self._staged: dict[str, bytes] = {}
        self._fence_error = fence_error
        self._can_tell = can_tell

    def put(self, key: str, value: bytes) -> None:
        self._staged[key] = value

    def commit(self, *, timeout_s: float = 30.0) -> None:
        for key, value in self._staged.items():
            self._server.published[self.rank, key] = value

    def fence(self, *, timeout_s: float) -> None:
        if self._fence_error:
            raise PmixError("fence", self._fence_error, "LOST")
        try:
            self._server.barrier.wait(timeout_s)
        except threading.BrokenBarrierError:
            raise PmixDeadlineError("fence", timeout_s) from None

    def get(self, rank: int, key: str, *, timeout_s: float) -> PmixValue | None:
        if key == NODE_LIST:
            return "n0,n1"
        return self._server.published.get((rank, key))

    def absent(self, ranks: Iterable[int], key: str, *, wait_s: float) -> list[int] | None:
        if not self._can_tell:
            return None
        return [r for r in ranks if (r, key) not in self._server.published]

    def finalize(self, *, timeout_s: float = 10.0) -> None:
        pass
