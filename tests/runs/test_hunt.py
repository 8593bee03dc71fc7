"""A hunt's edges: what is typed, the field its ranks make, orders over the store, what is kept and said."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from clusterlab.core.errors import DeadlineError, NoVerdictError, UsageError
from clusterlab.core.placement import Placement, RankPlacement
from clusterlab.launch.identity import RankIdentity
from clusterlab.records.documents import read_findings
from clusterlab.records.run_dir import create_run, start_attempt
from clusterlab.runs.hunting.calls import (
    Line,
    answers_to,
    do_order,
    end_orders,
    give_order,
    next_order,
)
from clusterlab.runs.hunting.file import hunt_findings, read_hunt
from clusterlab.runs.hunting.hunt import _tell_end, run_hunt
from clusterlab.runs.hunting.plan import HuntConfig, Ready, Said, ready, resolve_hunt
from clusterlab.runs.hunting.told import lines_of, tell_hunt, write_hunt
from clusterlab.runs.sweeping.slow_links import slow_link_findings
from clusterlab.verdict.localise.hunt import Budget, hunt
from clusterlab.verdict.localise.types import PORT_DOWN, Probe, Round, Seen
from clusterlab.verdict.localise.ways import ways

TYPED: dict[str, Any] = {
    "backend": "gloo", "fabric": "lab-rails-4x2", "routing": None, "budget": "1m", "rounds": 40,
    "size": None, "calls": None, "deadline_s": 5.0, "sure": 0.99,
}  # fmt: skip


def config(**other: Any) -> HuntConfig:
    return resolve_hunt(**{**TYPED, **other})


def placement(hosts: int = 4, each: int = 2) -> Placement:
    return Placement(
        tuple(RankPlacement(h * each + i, f"n{h}", i) for h in range(hosts) for i in range(each))
    )


def said(ranks: int = 8, down: frozenset[str] = frozenset()) -> list[Said]:
    """As in a lab: each rank by the NIC beside it, or the host's other one where that is down."""
    up = {nic: nic not in down for nic in ("nic0", "nic1")}
    live = [nic for nic, well in up.items() if well]
    return [
        Said(f"nic{r % 2}" if up[f"nic{r % 2}"] else live[0], up if r % 2 == 0 else {})
        for r in range(ranks)
    ]


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        ({"budget": "soon"}, "--budget"),
        ({"deadline_s": 0.0}, "--deadline"),
        ({"sure": 1.0}, "--sure"),
        ({"rounds": 0}, "--rounds"),
        ({"size": "much"}, "-b"),
        ({"calls": 0}, "-n"),
        ({"routing": "pined"}, "--routing"),
        ({"backend": "mpi"}, "--backend"),
        ({"fabric": "superpod-h100-5su"}, "superpod-h100-4su"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_by_its_option(wrong: dict[str, Any], where: str) -> None:
    with pytest.raises(UsageError) as refused:
        config(**wrong)
    assert where in str(refused.value)


def test_ranks_send_by_the_nic_that_they_say() -> None:
    on = ready(config(), placement(), said())
    nodes = on.field.network.nodes
    assert [nodes[n] for n in on.field.nodes] == [f"n{h}/nic{i}" for h in range(4) for i in (0, 1)]
    ways_asked = [{p.way for p in probes} for probes in on.first]
    assert ways_asked == [{"host", "clock"}, {"port"}]
    assert len(on.first[1]) == 8


def test_a_rail_that_is_down_is_named_from_its_ports_and_traffic_goes_on() -> None:
    """As in a lab: ranks of the dead rail use the other NIC of their host."""
    on = ready(config(), placement(), said(down=frozenset({"nic1"})))
    nodes = on.field.network.nodes
    assert {nodes[n] for n in on.field.nodes} == {f"n{h}/nic0" for h in range(4)}

    def measure(probes: Round) -> list[Seen]:
        got = ways(on.field, probes).GBps
        return [
            Seen(PORT_DOWN if nodes[p.ranks[1]].endswith("nic1") else 1.0)
            if p.way == "port"
            else Seen(1.0)
            if p.way in ("host", "clock")
            else Seen(float(got[i]))
            for i, p in enumerate(probes)
        ]

    found = hunt(on.field, measure, Budget(30), first=on.first)
    assert [f.name for f in found.answer.faults] == ["rail 1"]


def test_without_a_fabric_a_slow_host_is_as_near_as_it_gets() -> None:
    on = ready(config(fabric=None), placement(5, 1), [Said("eth0", {"eth0": True})] * 5)
    assert not on.known

    def measure(probes: Round) -> list[Seen]:
        return [
            Seen(3.0 if 2 in p.ranks else 9.0) if len(p.ranks) == 2 else Seen(1.0) for p in probes
        ]

    found = hunt(on.field, measure, Budget(30), first=on.first, rates_known=on.known)
    assert [f.name for f in found.answer.faults] == ["n2/nic0 ↔ network"]


def test_of_one_pair_nothing_is_said_to_be_healthy() -> None:
    on = ready(config(fabric=None), placement(2, 1), [Said(None, {})] * 2)
    found = hunt(
        on.field, lambda asked: [Seen(7.0) for _ in asked], Budget(9), rates_known=on.known
    )
    assert found.outcome == "open"
    assert any("too few pairs" in text for text in found.left)


def test_one_host_over_gloo_and_a_fabric_without_switches_are_refused() -> None:
    with pytest.raises(NoVerdictError, match="share"):
        ready(config(fabric=None), placement(1, 4), [Said(None, {})] * 4)
    with pytest.raises(UsageError, match="switches"):
        ready(config(fabric="gcp-a3-mega"), placement(2, 2), [Said(None, {})] * 4)
    with pytest.raises(UsageError):
        ready(config(), placement(5, 2), said(10))


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("as_json", [False, True])
def test_ranks_of_one_host_over_gloo_are_refused_before_they_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ranks: int, as_json: bool
) -> None:
    monkeypatch.setenv("CLUSTERLAB_RUNS", str(tmp_path))
    with pytest.raises(NoVerdictError, match="share its cores"):
        run_hunt(config(fabric=None), ranks=ranks, name=None, as_json=as_json)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "reason", ["all ranks are on one host", "a fabric that nothing is known of"]
)
def test_a_hunt_that_is_refused_says_why_in_every_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], reason: str
) -> None:
    run = start_attempt(create_run("hunt", root=tmp_path), configuration={"measures": "hunt"})
    assert _tell_end(run.path, 3, reason, as_json=False) == 3
    out, err = capsys.readouterr()
    assert out == f"no verdict: {reason}\n" and err.startswith(f"clusterlab: {reason}\n")
    assert "nothing was measured" not in err
    found = read_hunt(run.path)
    assert found is not None and (found["outcome"], found["reason"]) == ("open", reason)
    (finding,) = read_findings(run.path)
    assert (finding.code, finding.evidence) == ("NOTHING_TO_HUNT", (reason,))


class Shelf:
    """As much of a store as orders need, for threads."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.changed = threading.Condition()

    def set(self, key: str, value: str) -> None:
        with self.changed:
            self.kept[key] = value.encode()
            self.changed.notify_all()

    def get(self, key: str) -> bytes:
        return self.kept[key]

    def add(self, key: str, amount: int) -> int:
        with self.changed:
            new = int(self.kept.get(key, b"0")) + amount
            self.kept[key] = str(new).encode()
            return new

    def wait(self, keys: list[str], limit: Any) -> None:
        with self.changed:
            there = self.changed.wait_for(
                lambda: all(key in self.kept for key in keys), limit.total_seconds()
            )
        if not there:
            raise RuntimeError("timeout")


def identity(rank: int) -> RankIdentity:
    return RankIdentity(
        rank=rank, world_size=4, local_rank=0, local_world_size=1, node_rank=rank,
        host=f"n{rank}", source="test",
    )  # fmt: skip


def test_orders_reach_those_who_have_a_part_and_their_answers_come_back() -> None:
    shelf: Any = Shelf()
    lines = [Line(shelf, identity(rank), 5.0) for rank in range(4)]
    probes = (Probe("send_recv", (0, 2)), Probe("host", (3,)), Probe("port", (2, 77)))

    def follow(rank: int) -> None:
        number = 0
        while (asked := next_order(lines[rank], number)) is not None:
            do_order(lines[rank], number, asked, lambda p: {"by": rank, "way": p.way})
            number += 1

    threads = [threading.Thread(target=follow, args=(rank,)) for rank in (1, 2, 3)]
    for thread in threads:
        thread.start()
    give_order(lines[0], 0, probes)
    do_order(lines[0], 0, probes, lambda p: {"by": 0, "way": p.way})
    answers = answers_to(lines[0], 0, probes)
    end_orders(lines[0], 1)
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert [sorted(a) for a in answers] == [[0, 2], [3], [2]]
    assert answers[2] == {2: {"by": 2, "way": "port"}}


def test_a_rank_without_an_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clusterlab.runs.hunting.calls._GRACE_S", 0.1)
    monkeypatch.setattr("clusterlab.runs.hunting.calls._PATIENCE_S", 0.1)
    shelf: Any = Shelf()
    line = Line(shelf, identity(0), 0.05)
    probes = (Probe("send_recv", (0, 2)),)
    give_order(line, 0, probes)
    do_order(line, 0, probes, lambda _: {})
    with pytest.raises(DeadlineError, match="rank 2"):
        answers_to(line, 0, probes)
    with pytest.raises(DeadlineError, match="rank 0"):
        next_order(line, 1)


def found_in(tmp_path: Path, slow: str) -> tuple[Path, Ready]:
    """A run directory with a hunt that was told that messages over ``slow`` get a third."""
    on = ready(config(), placement(), said())
    own = {r for r in range(8) if on.field.network.nodes[on.field.nodes[r]] == slow}

    def measure(probes: Round) -> list[Seen]:
        found = []
        for probe, GBps in zip(probes, ways(on.field, probes).GBps, strict=True):
            got = float(GBps) / (3 if own & set(probe.ranks) else 1)
            sends = probe.way == "send_recv"
            found.append(Seen(got, back=got) if sends else Seen(1.0))
        return found

    run = create_run("hunt", root=tmp_path)
    found = hunt(on.field, measure, Budget(30), first=on.first)
    write_hunt(run.path, found, on, config())
    return run.path, on


def test_what_was_found_is_kept_and_read_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, _ = found_in(tmp_path, "n2/nic1")
    kept = read_hunt(path)
    assert kept is not None
    assert kept["outcome"] == "named"
    assert [f["name"] for f in kept["faults"]] == ["n2/nic1 ↔ leaf3"]
    assert kept["faults"][0]["left"] == pytest.approx(1 / 3, rel=0.05)
    assert all({"why", "expected_bits", "probes"} <= made.keys() for made in kept["rounds"])
    findings = hunt_findings(path)
    assert findings is not None
    (finding,) = findings
    assert (finding.code, finding.severity) == ("SLOW_LINK", "error")
    assert 5 in finding.ranks
    assert tell_hunt(path, as_json=True)
    assert json.loads(capsys.readouterr().out)["run"] == str(path)
    text = "\n".join(lines_of(kept))
    assert "n2/nic1 ↔ leaf3 has 33% left" in text
    assert "fix: " in text


def test_the_findings_of_a_hunt_are_those_of_its_run(tmp_path: Path) -> None:
    from clusterlab.records.run_dir import open_run

    path, _ = found_in(tmp_path, "n0/nic0")
    assert slow_link_findings(open_run(path)) == hunt_findings(path)
    assert hunt_findings(tmp_path) is None
