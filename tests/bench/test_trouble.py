"""What is said of a point that did not end, and what torch's flight recorder tells of it."""

from __future__ import annotations

import json
import pickle
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.bench.inquiry import _Missed, _silent, process_state
from clusterlab.bench.recorder import Recorded, entries_json, recorded
from clusterlab.bench.trouble import Complaint, RankSeen, Silence, Trouble, finding_of
from clusterlab.core.findings import Severity

LATE = Complaint(0, 7, "all_reduce float32 sum 64 B", "not finished within 5 s", passed=True)
LOST = Complaint(1, 7, "all_reduce float32 sum 64 B", "lost the connection", passed=False)


def seen(rank: int, **known: object) -> RankSeen:
    fields = {"began": 7, "inside": True, "stack": "a.py:1 f > b.py:2 g", **known}
    return RankSeen(rank, f"n{rank // 2}", 100 + rank, **fields)  # type: ignore[arg-type]


def trouble(*ranks: RankSeen, complaint: Complaint = LATE) -> Trouble:
    return Trouble(complaint, "all_reduce float32 sum 32 B", ranks)


@pytest.mark.parametrize(
    ("ranks", "complaint", "code", "blamed"),
    [
        ((seen(0), seen(1)), LATE, "POINT_TOO_SLOW", ()),
        ((seen(0), seen(1)), LOST, "CONNECTION_LOST", ()),
        ((seen(0), seen(1, began=6)), LATE, "RANK_DID_NOT_ARRIVE", (1,)),
        ((seen(0), seen(1, silence=Silence.STOPPED)), LATE, "RANK_STOPPED", (1,)),
        ((seen(0), seen(1, silence=Silence.GONE)), LOST, "RANK_DIED", (1,)),
        ((seen(0), seen(1, silence=Silence.LEFT)), LOST, "RANK_LEFT", (1,)),
        ((seen(0), seen(1, silence=Silence.UNREACHABLE)), LATE, "NODE_UNREACHABLE", (1,)),
        ((seen(0), seen(1, silence=Silence.MUTE)), LATE, "RANK_DOES_NOT_ANSWER", (1,)),
        ((seen(0), seen(1, silence=Silence.UNKNOWN)), LATE, "RANK_DOES_NOT_ANSWER", (1,)),
        # A rank that is gone explains one that waits elsewhere, not the other way round.
        ((seen(0, began=6), seen(1, silence=Silence.GONE)), LATE, "RANK_DIED", (1,)),
    ],
)
def test_one_finding_says_the_gravest_that_explains_it(ranks, complaint, code, blamed) -> None:
    found = finding_of(trouble(*ranks, complaint=complaint))
    assert (found.code, found.ranks, found.severity) == (code, blamed, Severity.FATAL)
    assert found.fix
    assert found.evidence[0] == trouble(*ranks, complaint=complaint).reason


@given(st.lists(st.sampled_from([None, *Silence]), min_size=1, max_size=40), st.data())
def test_every_rank_is_named_with_host_and_pid_or_by_number(silences, data) -> None:
    ranks = [
        seen(i, silence=s, began=data.draw(st.sampled_from([6, 7]))) for i, s in enumerate(silences)
    ]
    lines = trouble(*ranks).lines()
    assert len(lines) <= 2 + 3 + len(Silence)
    for rank in ranks:
        named = any(str(rank) in line for line in lines)
        assert named or len(ranks) > 16
    assert json.loads(json.dumps(trouble(*ranks).to_json()))["ranks"][0]["pid"] == 100


def test_the_rank_that_differs_comes_first_and_the_rest_share_a_line() -> None:
    ranks = [seen(r) for r in range(64)]
    ranks[41] = seen(41, began=6, stack="x.py:1 sleep")
    lines = trouble(*ranks).lines()
    assert lines[2] == "  rank 41 on n20 (pid 141): had not begun the point, x.py:1 sleep"
    assert lines[3].startswith("  ranks [0-40,42-63]: in the point, a.py:1 f")
    assert len(lines) == 4


@pytest.mark.parametrize(
    ("state", "refused", "met", "why"),
    [
        ("T", False, True, Silence.STOPPED),
        ("S", False, True, Silence.MUTE),
        (None, False, True, Silence.UNKNOWN),
        (None, True, False, Silence.GONE),
        ("Z", True, False, Silence.GONE),
        ("S", True, False, Silence.LEFT),
        (None, False, False, Silence.UNREACHABLE),
    ],
)
def test_why_a_rank_is_silent(state, refused, met, why) -> None:
    from clusterlab.bench.answering import Address

    address = Address(3, "n1", 7, 1, "token", ("n1",))
    assert _silent(_Missed(address, refused, met), state).silence == why


def test_the_state_of_a_process_is_the_kernels() -> None:
    import os

    assert process_state(os.getpid()) in ("R", "S")
    assert process_state(2**22 + 1) is None


def entry(number: int, state: str = "completed", **more: object) -> dict[str, object]:
    return {
        "profiling_name": "nccl:all_reduce",
        "collective_seq_id": number,
        "p2p_seq_id": 0,
        "is_p2p": False,
        "state": state,
        "input_sizes": [[1024]],
        **more,
    }


@pytest.mark.parametrize(
    ("entries", "summary"),
    [
        ([entry(1), entry(2)], "last completed all_reduce #2 of 1024 elements, nothing pending"),
        (
            [entry(1), entry(2, "started"), entry(3, "scheduled")],
            "last completed all_reduce #1 of 1024 elements, pending all_reduce #2 of 1024 elements "
            "(started) and 1 after it",
        ),
        (
            [entry(1, "scheduled", retired=True)],
            "last completed all_reduce #1 of 1024 elements, nothing pending",
        ),
        ([entry(5, "scheduled")], "last completed nothing, pending all_reduce #5 of 1024 elements"),
        (
            [entry(1, profiling_name="nccl:send 0->1", is_p2p=True, p2p_seq_id=9)],
            "last completed send 0->1 #9 of 1024 elements, nothing pending",
        ),
        ([{}], "last completed nothing, pending ? #?"),
    ],
)  # fmt: skip
def test_the_recorder_in_short(entries, summary) -> None:
    assert Recorded(tuple(entries)).summary() == summary


FORMS = {
    "_dump_nccl_trace": pickle.dumps,
    "_dump_nccl_trace_json": lambda data: json.dumps(data).encode(),
    "_dump_fr_trace": pickle.dumps,
    "_dump_fr_trace_json": lambda data: json.dumps(data).encode(),
}


@pytest.mark.parametrize("there", [f for n in (1, 2) for f in permutations(FORMS, n)])
@pytest.mark.parametrize("backend", ["nccl", "gloo"])
def test_the_recorder_is_read_in_every_form_that_torch_has_had(backend, there, monkeypatch) -> None:
    import torch._C._distributed_c10d as c10d

    for name in FORMS:
        monkeypatch.delattr(c10d, name, raising=False)
    for name in there:

        def dump(_form=FORMS[name], **_options: bool) -> bytes:
            return _form({"version": "2.10", "entries": [entry(i) for i in range(100)]})

        monkeypatch.setattr(c10d, name, dump, raising=False)
    found = recorded(backend)
    if backend == "gloo" and all("nccl" in name for name in there):
        assert found is None
        return
    assert found is not None
    assert found.summary().startswith("last completed all_reduce #99")
    assert len(json.loads(entries_json(found))) == 64


def test_a_recorder_that_is_off_is_none(monkeypatch) -> None:
    import torch._C._distributed_c10d as c10d

    for name in FORMS:
        monkeypatch.setattr(c10d, name, lambda **_: json.dumps({"entries": []}), raising=False)
    assert recorded("gloo") is None
