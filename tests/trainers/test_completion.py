"""A call that runs beside computation ends when it ends, though the rank comes to wait for it much later."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.local import run_local_ranks
from clusterlab.launch.local_rank import OpenStore
from clusterlab.launch.rendezvous import init_process_group
from clusterlab.trainers.axis import Axis, Pending, open_axes
from clusterlab.trainers.breakdown import exposed_us
from clusterlab.trainers.config import MeshConfig
from clusterlab.trainers.ledger import Entry, HostMark, Ledger

pytestmark = pytest.mark.ranks

COMPUTES_S = 0.3
"""What a rank does between a call and its wait; a call of a kilobyte takes far less."""

Start = Callable[[Axis], Pending]


def tensor(count: int = 256) -> torch.Tensor:
    return torch.ones(count)


def beside(name: str) -> Start:
    def start(axis: Axis) -> Pending:
        if name == "all_reduce":
            return axis.start_all_reduce(tensor())
        if name == "all_gather":
            return axis.start_all_gather(tensor(512), tensor())
        if name == "reduce_scatter":
            return axis.start_reduce_scatter(tensor(), tensor(512))
        if axis.index == 0:
            return axis.send(tensor(), 1)
        return axis.receive(tensor(), 0)

    return start


def entries(
    folder: Path,
    start: Start,
    *,
    late_s: float = 0.0,
    computes_s: float = COMPUTES_S,
    calls: int = 1,
) -> list[list[Entry]]:
    """Of two ranks that make ``calls``, compute, then wait for all; rank 1 comes ``late_s`` later."""

    def rank_main(identity: RankIdentity, open_store: OpenStore) -> int:
        import torch.distributed as dist

        init_process_group(identity, open_store(60), "gloo", timeout_s=60)
        ledger = Ledger()
        axis = open_axes(MeshConfig(dp=2), identity.rank, ledger)["dp"]
        start(axis).wait()  # the first call connects
        dist.barrier()
        with ledger.step(0), ledger.during("backward"):
            time.sleep(late_s * identity.rank)
            pending = [start(axis) for _ in range(calls)]
            time.sleep(computes_s)
            for one in pending:
                one.wait()
        made = [entry for entry in ledger.entries if entry.step == 0]
        (folder / f"{identity.rank}.pickle").write_bytes(pickle.dumps(made))
        dist.barrier()
        return 0

    outcome = run_local_ranks(2, rank_main, log_dir=folder)
    assert outcome.exit_code == 0, outcome.message
    return [pickle.loads((folder / f"{rank}.pickle").read_bytes())[-calls:] for rank in (0, 1)]


@pytest.mark.parametrize("op", ["all_reduce", "all_gather"])
def test_a_late_wait_does_not_make_a_call_longer(tmp_path: Path, op: str) -> None:
    for (one,) in entries(tmp_path, beside(op)):
        assert one.waited_us is not None and one.waited_us - one.start_us > 0.9e6 * COMPUTES_S
        assert one.end_us - one.start_us < 0.5e6 * COMPUTES_S
        assert not one.at_most
        assert exposed_us(one, []) < 0.1e6 * COMPUTES_S


def test_a_wait_for_a_rank_that_comes_late_is_exposed_from_the_wait_on(tmp_path: Path) -> None:
    (first,), _ = entries(tmp_path, beside("all_reduce"), late_s=0.4, computes_s=0.1)
    assert 0.35e6 < first.end_us - first.start_us < 0.6e6
    assert 0.2e6 < exposed_us(first, []) < 0.4e6
    assert not first.at_most


@pytest.mark.parametrize("op", ["reduce_scatter", "send_recv"])
def test_what_gloo_does_not_tell_the_end_of_is_a_bound(tmp_path: Path, op: str) -> None:
    for (one,) in entries(tmp_path, beside(op)):
        assert one.end_us - one.start_us > 0.9e6 * COMPUTES_S
        assert one.at_most


def at(us: float) -> HostMark:
    mark = HostMark()
    mark.ns = round(us * 1e3)
    return mark


@pytest.mark.parametrize("on_gpu", [False, True])
def test_calls_in_line_are_bounds_over_gloo_and_begin_after_each_other_under_nccl(
    monkeypatch: pytest.MonkeyPatch, on_gpu: bool
) -> None:
    """Three along one axis, each called before the one before is done; one along another, one message."""
    clock = iter([0, 10, 12, 14, 16, 18, 20, 30, 40, 50, 60, 90, 100])
    ledger = Ledger(on_gpu=on_gpu)
    monkeypatch.setattr(ledger, "_mark", lambda: at(next(clock)))
    with ledger.step(0):
        calls = [("all_reduce", "dp")] * 3 + [("all_reduce", "tp"), ("send", "dp")]
        opened = [ledger.begin(op, axis, (0, 1), 8, "float32") for op, axis in calls]
        ledger.mark()
        for one in opened:
            ledger.end(one)
    found = [(e.start_us, e.end_us, e.at_most) for e in ledger.entries]
    starts = [10, 30, 40, 16, 18] if on_gpu else [10, 12, 14, 16, 18]
    bounds = [False, not on_gpu, not on_gpu, False, True]
    assert found == list(zip(starts, [30, 40, 50, 60, 90], bounds, strict=True))


def test_a_call_that_is_waited_for_at_once_ends_with_the_wait(tmp_path: Path) -> None:
    def blocking(axis: Axis) -> Pending:
        axis.reduce_scatter(tensor(512))
        return Pending(lambda: None)

    for (one,) in entries(tmp_path, blocking):
        assert not one.at_most
        assert one.end_us - one.start_us < 0.5e6 * COMPUTES_S
