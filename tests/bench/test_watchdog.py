"""The watchdog of one process, and what counts as a lost peer."""

from __future__ import annotations

import pytest
import torch.distributed as dist

from clusterlab.bench.faults import lost_peer, naming_lost_peers
from clusterlab.bench.watchdog import Watchdog
from clusterlab.core.errors import DeadlineError
from clusterlab.launch.identity import RankIdentity

ALONE = RankIdentity(0, 1, 0, 1, 0, "here", "local")


def test_a_guarded_block_in_time_passes_and_the_thread_ends():
    with Watchdog(ALONE, 60, None) as watchdog:
        for number in range(3):
            with watchdog.guard(number, "quick"):
                pass
        assert watchdog._thread.is_alive()
    assert not watchdog._thread.is_alive()


def test_no_deadline_no_thread():
    with Watchdog(ALONE, 0, None) as watchdog, watchdog.guard(0, "any"):
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


def test_what_nccl_says_last_is_kept():
    said = lost_peer(
        dist.DistBackendError(
            "NCCL error in: NCCLUtils.cpp:94, unhandled cuda error (run with NCCL_DEBUG=INFO), NCCL version "
            "2.28.9\nncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 2 'out"
            " of memory'\n"
        )
    )
    assert said is not None
    assert said.endswith(": Cuda failure 2 'out of memory'")


def test_other_runtime_errors_stay_what_they_are():
    assert lost_peer(RuntimeError("Invalid scalar type")) is None
    refused = (
        "NCCL error in: ProcessGroupNCCL.cpp:3780, invalid argument (run with NCCL_DEBUG=WARN)"
    )
    assert lost_peer(dist.DistBackendError(refused)) is None
    assert lost_peer(dist.DistNetworkError("Failed to recv, got 0 bytes. Connection was likely…"))
    with pytest.raises(RuntimeError, match="Invalid"), naming_lost_peers("x"):
        raise RuntimeError("Invalid scalar type")
