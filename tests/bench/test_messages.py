"""Messages between real ranks over gloo: both turns are timed, and a peer that never answers is given up."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from clusterlab.bench.messages import Messenger, turns_of
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.local import run_local_ranks
from clusterlab.launch.local_rank import OpenStore
from clusterlab.launch.rendezvous import init_process_group


@pytest.mark.parametrize("backend", ["gloo", "nccl"])
@pytest.mark.parametrize("both", [True, False], ids=["both ways", "one way"])
def test_what_one_sends_the_other_receives_in_the_same_turn(backend: str, both: bool) -> None:
    mine = turns_of(backend, both=both, first=True)
    theirs = turns_of(backend, both=both, first=False)
    assert len(mine) == len(theirs)
    other = {"send": "receive", "receive": "send"}
    for a, b in zip(mine, theirs, strict=True):
        assert {other[what] for what in a} == set(b)
    assert {what for turn in mine for what in turn} == ({"send", "receive"} if both else {"send"})


@pytest.mark.ranks
def test_messages_are_timed_and_who_is_silent_is_given_up(tmp_path: Path) -> None:
    def rank_main(identity: RankIdentity, open_store: OpenStore) -> int:
        store = open_store(60.0)
        init_process_group(identity, store, "gloo", timeout_s=60)
        rank = identity.rank
        told: dict[str, object] = {}
        if rank < 2:
            turns = turns_of("gloo", both=True, first=rank == 0)
            messenger = Messenger(1 << 16, deadline_s=20.0)
            told["times"] = messenger.times_us(1 - rank, 4, turns)
        store.set(f"met/{rank}", "1")
        store.wait([f"met/{r}" for r in range(3)])
        if rank == 0:  # rank 2 has no part in it and never answers
            messenger = Messenger(1 << 22, deadline_s=1.0)
            began = time.monotonic()
            turns = turns_of("gloo", both=True, first=True)
            told["lost"] = messenger.times_us(2, 4, turns)
            told["after_s"] = time.monotonic() - began
            told["again"] = messenger.times_us(2, 4, turns)
            told["broken"] = sorted(messenger.broken)
        (tmp_path / f"{rank}.json").write_text(json.dumps(told))
        store.set(f"done/{rank}", "1")
        store.wait([f"done/{r}" for r in range(3)])
        return 0

    outcome = run_local_ranks(3, rank_main, log_dir=tmp_path / "logs")
    assert outcome.exit_code == 0, outcome.message
    said = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    for one in said:
        assert [len(turn) for turn in one["times"]] == [4, 4]
        assert all(t > 0 for turn in one["times"] for t in turn)
    assert said[0]["lost"] is None
    assert 0.5 < said[0]["after_s"] < 15
    assert (said[0]["again"], said[0]["broken"]) == (None, [2])
