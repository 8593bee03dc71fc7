"""Records handed in at a desk that some rank keeps, whoever is missing. Ranks are threads."""

from __future__ import annotations

import json
import socket
import threading
import time
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from clusterlab.core.errors import ClusterlabError, DeadlineError
from clusterlab.launch import gather as module
from clusterlab.launch.desk import Desk, Record, hand_in
from clusterlab.launch.gather import NoWayError, gather
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.stores import LOOPBACK, StoreAddress
from tests.launch.fake_pmix import FakePmixClient, FakePmixServer


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SKEW_S", 1.0)
    monkeypatch.setattr(module, "_PROBE_S", 0.5)
    monkeypatch.setattr(module, "_LEAST_S", 1.0)


class PatientClient(FakePmixClient):
    """Waits for the others as the real client does."""

    def absent(self, ranks: Iterable[int], key: str, *, wait_s: float) -> list[int] | None:
        end, ranks = time.monotonic() + wait_s, list(ranks)
        while (missing := super().absent(ranks, key, wait_s=0)) and time.monotonic() < end:
            time.sleep(0.01)
        return missing


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def run_ranks(
    ranks: Sequence[int], world_size: int, way: str, *, timeout_s: float = 1.0
) -> tuple[list[Any], list[Any]]:
    """What each rank's gather returned or raised, and what the reports were made on."""
    server = FakePmixServer(world_size)
    environ = {"SLURM_JOB_ID": uuid.uuid4().hex, "SLURM_STEP_NODELIST": "localhost"}
    source = "slurm"
    if way == "address":
        environ = {"MASTER_ADDR": LOOPBACK, "MASTER_PORT": str(free_port())}
        source = "environment"
    results: list[Any] = [None] * len(ranks)
    reports: list[Any] = []

    def report(records: Sequence[Record], missing: Sequence[int]) -> int:
        reports.append(([r["rank"] for r in records], list(missing)))
        return 4 if missing else 0

    def one(index: int, rank: int) -> None:
        identity = RankIdentity(rank, world_size, rank, world_size, 0, "localhost", source)
        client = PatientClient(server, rank) if way == "pmix" else None
        try:
            results[index] = gather(
                identity,
                "test",
                {"rank": rank, "host": "localhost", "pid": index},
                report,
                pmix=client,
                environ=environ,
                end=time.monotonic() + timeout_s,
            )
        except ClusterlabError as error:
            results[index] = error

    threads = [threading.Thread(target=one, args=pair) for pair in enumerate(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return results, reports


@pytest.mark.parametrize("way", ["pmix", "meeting point", "address"])
def test_one_rank_reports_on_all_and_every_rank_hears(way: str) -> None:
    results, reports = run_ranks([2, 0, 1], 3, way, timeout_s=10)
    assert results == [0, 0, 0]
    assert reports == [([0, 1, 2], [])]


@pytest.mark.parametrize("way", ["pmix", "meeting point", "address"])
def test_the_report_is_made_on_those_that_came(way: str) -> None:
    results, reports = run_ranks([0, 1, 3], 5, way)
    assert results == [4, 4, 4]
    assert reports == [([0, 1, 3], [2, 4])]


@pytest.mark.parametrize("way", ["pmix", "meeting point"])
def test_the_lowest_that_came_stands_in_for_rank_0(way: str) -> None:
    results, reports = run_ranks([1, 3], 4, way)
    assert results == [4, 4]
    assert reports == [([1, 3], [0, 2])]


def test_two_processes_of_one_rank_are_both_heard() -> None:
    results, reports = run_ranks([0, 1, 1], 3, "meeting point")
    assert results == [4, 4, 4]
    assert reports == [([0, 1, 1], [2])]


def test_rank_0_at_an_address_where_it_is_not_is_a_deadline() -> None:
    (error,), reports = run_ranks([1], 2, "address", timeout_s=0.2)
    assert isinstance(error, DeadlineError)
    assert reports == []


def test_where_pmix_cannot_tell_who_is_there_rank_0_is_named() -> None:
    client = FakePmixClient(FakePmixServer(2), 1, can_tell=False)
    identity = RankIdentity(1, 2, 1, 2, 0, "localhost", "pmix")
    with pytest.raises(DeadlineError, match="rank 0 did not arrive within"):
        gather(identity, "test", {}, lambda *_: 0, pmix=client, environ={}, end=time.monotonic())


def test_ranks_without_any_way_to_each_other_are_told_so() -> None:
    identity = RankIdentity(1, 2, 1, 2, 0, "localhost", "environment")
    with pytest.raises(NoWayError, match="no way to find each other"):
        gather(identity, "test", {}, lambda *_: 0, pmix=None, environ={}, end=time.monotonic())


@pytest.mark.parametrize(
    "noise",
    [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        b'{"hello": "clusterlab-desk-1", "topic": "other", "record": {"rank": 1, "host": "n0"}}\n',
        b'{"hello": "clusterlab-desk-1", "topic": "test", "record": {"rank": "1", "host": "n0"}}\n',
        b"[" * 100_000 + b"\n",
        json.dumps({"hello": "clusterlab-desk-1", "topic": "test", "record": None}).encode()
        + b"\n",
    ],
)
def test_strangers_at_the_desk_are_passed_over(noise: bytes) -> None:
    record = {"rank": 1, "host": "n0"}
    with Desk() as desk:
        address = StoreAddress((LOOPBACK,), desk.port)
        told: list[Any] = []

        def visit() -> None:
            with socket.create_connection((LOOPBACK, desk.port)) as stranger:
                stranger.sendall(noise)
                end = time.monotonic() + 5
                told.append(hand_in(address, "test", record, end=end, answer_s=5))

        visitor = threading.Thread(target=visit)
        visitor.start()
        own = {"rank": 0, "host": "n0"}
        records, answers = desk.collect("test", 2, own, end=time.monotonic() + 10)
        for answer in answers:
            answer({"code": 3})
        visitor.join(10)
    assert records == [own, record]
    assert told == [{"code": 3}]
