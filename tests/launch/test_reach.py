"""Reaching a store that some rank serves, whoever is missing. Ranks are threads."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from clusterlab.core.errors import ClusterlabError, DeadlineError
from clusterlab.launch import reach as module
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.reach import reach
from tests.launch.fake_pmix import FakePmixClient, FakePmixServer


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch.distributed  # noqa: F401  (not while ranks wait for each other)

    monkeypatch.setattr(module, "_SKEW_S", 1.0)
    monkeypatch.setattr(module, "_PROBE_S", 0.5)


class PatientClient(FakePmixClient):
    """Waits for the others as the real client does."""

    def absent(self, ranks: Iterable[int], key: str, *, wait_s: float) -> list[int] | None:
        end, ranks = time.monotonic() + wait_s, list(ranks)
        while (missing := super().absent(ranks, key, wait_s=0)) and time.monotonic() < end:
            time.sleep(0.01)
        return missing


def run_ranks(ranks: Sequence[int], world_size: int, *, pmix: bool) -> dict[int, Any]:
    """Each rank's Meeting, or the error it met."""
    server = FakePmixServer(world_size)
    environ = {"SLURM_JOB_ID": uuid.uuid4().hex, "SLURM_STEP_NODELIST": "localhost"}
    results: dict[int, Any] = {}

    def one(rank: int) -> None:
        identity = RankIdentity(rank, world_size, rank, world_size, 0, "localhost", "slurm")
        client = PatientClient(server, rank) if pmix else None
        try:
            results[rank] = reach(identity, pmix=client, environ=environ, timeout_s=1.0)
        except ClusterlabError as error:
            results[rank] = error

    threads = [threading.Thread(target=one, args=(rank,)) for rank in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return results


def meet_at(results: dict[int, Any], server: int) -> None:
    assert {r: m.served_here for r, m in results.items()} == {r: r == server for r in results}
    assert {m.stand_in for m in results.values()} == {server or None}
    results[max(results)].store.set("word", "kept")
    assert {m.store.get("word") for m in results.values()} == {b"kept"}
    for meeting in results.values():
        if meeting.meeting_point:
            meeting.meeting_point.close()


def test_without_pmix_ranks_meet_at_the_first_process() -> None:
    meet_at(run_ranks([0, 2], 4, pmix=False), server=0)


def test_without_pmix_the_lowest_that_came_stands_in_for_the_first_process() -> None:
    meet_at(run_ranks([1, 3], 4, pmix=False), server=1)


def test_by_pmix_the_lowest_that_came_stands_in_for_rank_0() -> None:
    results = run_ranks([1, 2, 3], 4, pmix=True)
    meet_at(results, server=1)


def test_where_pmix_cannot_tell_who_is_there_rank_0_is_named() -> None:
    client = FakePmixClient(FakePmixServer(2), 1, can_tell=False)
    identity = RankIdentity(1, 2, 1, 2, 0, "localhost", "pmix")
    with pytest.raises(DeadlineError, match=r"rank 0 did not arrive within 0\.1 s"):
        reach(identity, pmix=client, environ={}, timeout_s=0.1)
