from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch.distributed as dist

from clusterlab.core.errors import ClusterlabError, DeadlineError, ExitCode
from clusterlab.launch import roll_call as module
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.roll_call import Record, RefusedError, rank_words, roll_call


def rank_of(rank: int, world_size: int) -> RankIdentity:
    return RankIdentity(rank, world_size, rank, world_size, 0, f"n{rank // 2}", "slurm")


def fine(records: Sequence[Record]) -> None:
    return None


def run_ranks(
    ranks: Sequence[int],
    world_size: int,
    judge: Callable[[Sequence[Record]], ClusterlabError | None] = fine,
    *,
    timeout_s: float = 5.0,
) -> list[Any]:
    """What each rank's roll call returned or raised; ranks are threads over one store."""
    store = dist.HashStore()
    results: list[Any] = [None] * len(ranks)

    def one(index: int, rank: int) -> None:
        identity = rank_of(rank, world_size)
        record = {"rank": rank, "host": identity.host, "pid": 100 + index}
        try:
            results[index] = roll_call(store, identity, "test", record, judge, timeout_s=timeout_s)
        except ClusterlabError as error:
            results[index] = error

    threads = [threading.Thread(target=one, args=pair) for pair in enumerate(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return results


def test_rank_0_gets_every_record_in_rank_order() -> None:
    records, *others = run_ranks([0, 3, 1, 2], 4)
    assert [r["rank"] for r in records] == [0, 1, 2, 3]
    assert others == [None, None, None]


def test_a_single_rank_is_its_own_roll_call() -> None:
    assert run_ranks([0], 1) == [[{"rank": 0, "host": "n0", "pid": 100}]]


def test_every_rank_hears_who_is_missing() -> None:
    results = run_ranks([0, 1, 4], 6, timeout_s=0.3)
    for error in results:
        assert isinstance(error, DeadlineError)
        assert error.exit_code == ExitCode.DEADLINE
        assert "ranks [2-3,5] of 6 did not arrive within 0.3 s" in str(error)
        assert "(3 arrived, on n[0,2])" in str(error)


def test_every_rank_hears_why_the_job_is_refused() -> None:
    def judge(records: Sequence[Record]) -> RefusedError:
        return RefusedError(f"{len(records)} ranks", where="CODE", fix="do that")

    results = run_ranks([0, 1, 2], 3, judge)
    assert {str(error) for error in results} == {"CODE: 3 ranks; do that"}
    assert {type(error) for error in results} == {RefusedError}


def test_a_missing_rank_0_is_named_by_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GRACE_S", 0.2)
    (error,) = run_ranks([1], 2, timeout_s=0.2)
    assert isinstance(error, DeadlineError)
    assert "rank 0 gave no answer" in str(error)


def test_two_processes_of_one_rank_are_refused() -> None:
    results = run_ranks([0, 1, 1], 2)
    (error,) = [r for r in results if isinstance(r, ClusterlabError)]
    assert isinstance(error, RefusedError)
    assert "two processes are rank 1: process 10" in str(error)


def test_a_store_that_goes_away_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    class GoneStore:
        def add(self, key: str, amount: int) -> int:
            raise dist.DistNetworkError("Connection reset by peer")

    with pytest.raises(DeadlineError, match="launch: the store went away"):
        roll_call(GoneStore(), rank_of(1, 2), "test", {}, fine, timeout_s=1)  # type: ignore[arg-type]


def test_rank_words() -> None:
    assert rank_words([3]) == "rank 3"
    assert rank_words([3, 5, 6, 7]) == "ranks [3,5-7]"
