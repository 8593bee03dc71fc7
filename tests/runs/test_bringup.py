"""NCCL's account of a rank's own communicators, whoever else writes in the log."""

from __future__ import annotations

import os

from clusterlab.core.bringup import Repeated
from clusterlab.runs.probing.bringup import _split, _timings, _with_nccl


def line(pid: int, function: str, total_s: float) -> str:
    return (
        f"host:{pid}:9 [0] NCCL INFO Init timings - {function}: rank 0 nranks 2 total {total_s:.2f} "
        f"(kernels {total_s:.2f}, rest 0.00)\n"
    )


def test_ranks_that_share_a_file_read_their_own_lines() -> None:
    me = os.getpid()
    text = line(me, "ncclCommInitRankConfig", 0.5) + line(me + 1, "ncclCommInitRankConfig", 0.7)
    text += "".join(line(pid, "ncclCommSplit", 0.1) for pid in (me + 1, me, me))
    first, *others = _timings(text)
    assert (first.function, first.total_s) == ("ncclCommInitRankConfig", 0.5)
    assert _split(first).parts == {"kernels": 0.5, "rest": 0.0}
    repeated = _with_nccl(Repeated((1.0, 1.0), (1.0, 1.0), (1.0, 1.0), {}), others)
    assert (repeated.function, repeated.init_s) == ("ncclCommSplit", (0.1, 0.1))


def test_without_a_log_nothing_is_made_up() -> None:
    repeated = Repeated((1.0,), (1.0,), (1.0,), {})
    assert _with_nccl(repeated, _timings("")) == repeated
