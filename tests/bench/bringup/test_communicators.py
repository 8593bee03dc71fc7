"""Real gloo ranks that make communicators again and again: nothing stays, and what stays is found."""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clusterlab.bench.bringup.communicators import new_group, repeat_communicators
from clusterlab.bench.watchdog import Watchdog
from clusterlab.core.bringup import RESOURCES, Bringup, RankBringup, rank_from_json, rank_to_json
from clusterlab.core.errors import ExitCode
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.local import run_local_ranks
from clusterlab.launch.local_rank import OpenStore
from clusterlab.launch.rendezvous import init_process_group
from clusterlab.verdict.bringup import growth_findings, growths, judged

pytestmark = pytest.mark.ranks

TIMES = 30


def repeated(tmp_path: Path, create: Callable[[RankIdentity], Callable[[], Any]]) -> Bringup:
    """What two ranks saw when each made its communicators by ``create``."""
    import json

    def rank_main(identity: RankIdentity, open_store: OpenStore) -> int:
        import torch
        import torch.distributed as dist

        store = open_store(30)
        init_process_group(identity, store, "gloo", timeout_s=60)
        with Watchdog(identity, 60.0, store) as watchdog:
            with watchdog.guard(0, "start"):
                pass
            found = repeat_communicators(
                TIMES, torch.device("cpu"), watchdog, create=create(identity)
            )
        mine = RankBringup(identity.rank, "here", 1, {"start": 1.0}, 0.0, 1.0, repeated=found)
        (tmp_path / f"{identity.rank}.json").write_text(json.dumps(rank_to_json(mine)))
        dist.barrier()
        dist.destroy_process_group()
        return 0

    assert run_local_ranks(2, rank_main).exit_code == ExitCode.OK
    ranks = [rank_from_json(json.loads((tmp_path / f"{r}.json").read_text())) for r in range(2)]
    return Bringup("gloo", "local", "local", "gloo", tuple(ranks))


def test_communicators_of_gloo_leave_nothing_behind(tmp_path: Path) -> None:
    bringup = repeated(tmp_path, lambda _: new_group)
    for rank in bringup.ranks:
        found = rank.repeated
        assert found is not None
        assert [len(c) for c in (found.create_s, found.first_call_s, found.destroy_s)] == [
            TIMES
        ] * 3
        assert min(*found.create_s, *found.first_call_s, *found.destroy_s) > 0
        assert {len(column) for column in found.usage.values()} == {TIMES + 1}
        assert list(found.usage) == list(RESOURCES[1:])  # no GPU
        for name in ("fds", "threads"):
            assert found.usage[name][-1] == found.usage[name][1], name
    assert growth_findings(bringup) == []
    verdict = judged(bringup)
    assert verdict is not None
    assert verdict[0] == "pass"


def leak_descriptor() -> object:
    return os.open("/dev/null", os.O_RDONLY)


def leak_thread() -> object:
    over = threading.Event()
    threading.Thread(target=over.wait, daemon=True).start()
    return over


def leak_memory() -> object:
    """Pages of its own: the allocator may have as much left over from earlier tests."""
    pages = mmap.mmap(-1, 1 << 20)
    pages.write(os.urandom(1 << 20))
    return pages


@pytest.mark.parametrize(
    ("leak", "resource"),
    [(leak_descriptor, "fds"), (leak_thread, "threads"), (leak_memory, "rss_bytes")],
)
def test_what_one_rank_keeps_is_found_and_the_rank_is_named(
    tmp_path: Path, leak: Callable[[], object], resource: str
) -> None:
    kept: list[object] = []

    def create(identity: RankIdentity) -> Callable[[], Any]:
        def make() -> Any:
            if identity.rank == 1:
                kept.append(leak())
            return new_group()

        return make

    bringup = repeated(tmp_path, create)
    (worst,) = (g for g in growths(bringup) if g.grows)
    assert (worst.resource, worst.rank) == (resource, 1)
    expected = float(1 << 20) if resource == "rss_bytes" else 1.0
    assert worst.per_communicator == pytest.approx(expected, rel=0.1)
    (finding,) = growth_findings(bringup)
    assert (finding.code, finding.ranks) == ("COMMUNICATOR_GROWTH", (1,))
    assert judged(bringup)[0] == "growth"  # type: ignore[index]
