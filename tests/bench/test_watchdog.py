"""Who had arrived, and what the watchdog says."""

from __future__ import annotations

import pytest
import torch.distributed as dist

from clusterlab.bench.faults import lost_peer, naming_lost_peers
from clusterlab.bench.watchdog import Arrivals, Watchdog, expiry_message
from clusterlab.core.errors import DeadlineError


def test_rank_0_names_all_that_have_not_begun_the_others_look_at_rank_0():
    store = dist.HashStore()
    ranks = [Arrivals(store, rank, 4) for rank in range(4)]
    ranks[0].mark(7)
    ranks[1].mark(6)
    ranks[3].mark(7)
    assert ranks[0].missing(7) == [1, 2]
    assert ranks[0].missing(6) == [2]
    assert ranks[3].missing(7) == []
    assert ranks[3].missing(8) == [0]


def test_marks_of_an_earlier_sweep_on_the_same_store_do_not_count():
    store = dist.HashStore()
    for rank in (0, 1):
        Arrivals(store, rank, 2).mark(50)
    again = Arrivals(store, 0, 2)
    again.mark(1)
    assert again.missing(1) == [1]


def test_without_a_store_nobody_is_named():
    arrivals = Arrivals(None, 0, 4)
    arrivals.mark(1)
    assert arrivals.missing(1) == []


@pytest.mark.parametrize(
    ("missing", "ending"),
    [
        ([], "within the deadline of 2.5 s"),
        ([3], "; rank 3 had not begun it"),
        ([1, 3], "; ranks 1, 3 had not begun it"),
    ],
)
def test_the_message_names_point_deadline_and_ranks(missing, ending):
    text = expiry_message(0, "all_reduce float32", 2.5, missing)
    assert text.startswith("rank 0: all_reduce float32: not finished within")
    assert text.endswith(ending)


def test_a_guarded_block_in_time_passes_and_the_thread_ends():
    with Watchdog(60, 0, Arrivals(None, 0, 1)) as watchdog:
        for number in range(3):
            with watchdog.guard(number, "quick"):
                pass
        assert watchdog._thread.is_alive()
    assert not watchdog._thread.is_alive()


def test_no_deadline_no_thread():
    with Watchdog(0, 0, Arrivals(None, 0, 1)) as watchdog, watchdog.guard(0, "any"):
        assert not watchdog._thread.is_alive()


GLOO = (
    "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer "
    "[127.0.0.1]:21172. This is typically caused by a remote worker crashing. Check the logs"
)


def test_a_lost_connection_becomes_one_clear_error():
    with (
        pytest.raises(DeadlineError, match=r"broadcast int8: lost .*\(Connection closed by peer"),
        naming_lost_peers("broadcast int8"),
    ):
        raise RuntimeError(GLOO)


def test_other_runtime_errors_stay_what_they_are():
    assert lost_peer(RuntimeError("Invalid scalar type")) is None
    refused = (
        "NCCL error in: ProcessGroupNCCL.cpp:3780, invalid argument (run with NCCL_DEBUG=WARN)"
    )
    assert lost_peer(dist.DistBackendError(refused)) is None
    assert lost_peer(dist.DistNetworkError("Failed to recv, got 0 bytes. Connection was likely…"))
    with pytest.raises(RuntimeError, match="Invalid"), naming_lost_peers("x"):
        raise RuntimeError("Invalid scalar type")
