"""What a real NCCL says of itself: two ranks on two GPUs, or on one that they take for two hosts."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from clusterlab.formats.nccl_graph import parse_nccl_graph
from clusterlab.launch.gpus import visible_gpus
from clusterlab.topology.importing.nccl_xml import read_nccl_xml

pytestmark = pytest.mark.gpu

SCRIPT = Path(__file__).parent / "witness_rank.py"
TUNED = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")


@dataclass(frozen=True)
class Run:
    """What two ranks said, and where."""

    folder: Path
    points: list[dict[str, Any]]
    graph: dict[str, Any]
    facts: dict[str, Any]
    facts_of_rank_1: dict[str, Any]
    stdout: str


def witnessed(folder: Path, where: str, **variables: str) -> Run:
    """Run both ranks to their end."""
    folder.mkdir(parents=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    kept = ("NCCL_NVLS_ENABLE", "NCCL_SOCKET_IFNAME", "NCCL_IB_HCA")
    own = {k: v for k, v in os.environ.items() if k in kept or not k.startswith("NCCL_")}
    own |= {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, **variables}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), str(folder), where],
            env=own | {"RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        ended = [rank.communicate(timeout=200) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], "\n".join(e[-3000:] for _, e in ended)
    said = [json.loads(line) for line in ended[0][0].splitlines() if line.startswith('{"name"')]
    (facts_of_rank_1,) = (
        json.loads(line) for line in ended[1][1].splitlines() if line.startswith('{"name"')
    )
    return Run(
        folder,
        [one for one in said if one["name"] not in ("graph", "facts")],
        next(one for one in said if one["name"] == "graph"),
        next(one for one in said if one["name"] == "facts"),
        facts_of_rank_1,
        ended[0][0],
    )


@pytest.fixture(scope="module", params=["shared", "own"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two ranks on one GPU, and two ranks on two."""
    need = 1 if request.param == "shared" else 2
    if visible_gpus() < need:
        pytest.skip(f"needs {need} GPU{'s' * (need > 1)}")
    return witnessed(tmp_path_factory.mktemp("witness") / request.param, request.param)


def test_every_tuned_collective_says_its_choice_at_every_size(run: Run) -> None:
    missing = [
        (p["name"], p["size"])
        for p in run.points
        if p["name"] in TUNED and None in (p["algorithm"], p["protocol"], p["channels"])
    ]
    assert missing == []
    assert run.facts["notes"] == []


def test_large_messages_are_not_sent_as_small_ones(run: Run) -> None:
    """The choice follows the size: a witness that repeats one answer would not."""
    sizes = sorted({p["size"] for p in run.points})
    of = {p["size"]: p for p in run.points if p["name"] == "all_reduce"}
    assert (of[sizes[0]]["protocol"], of[sizes[-1]]["protocol"]) == ("ll", "simple")
    assert of[sizes[0]]["channels"] < of[sizes[-1]]["channels"]


def test_sends_say_their_transport_and_no_algorithm(run: Run) -> None:
    sends = [p for p in run.points if p["name"] == "send_recv"]
    assert {p["algorithm"] for p in sends} == {None}
    assert None not in {p["transport"] for p in sends}


def test_transport_and_gdr_are_those_of_the_machine(run: Run) -> None:
    transports = {p["transport"] for p in run.points}
    if "own" in run.folder.name:
        assert all("P2P" in t or "NVLS" in t for t in transports), transports
        assert run.facts["gdr"] is None
    else:
        assert transports == {"NET/Socket"}
        assert run.facts["gdr"] is False
    assert run.facts_of_rank_1["transports"] == run.facts["transports"]
    assert run.facts_of_rank_1["files"] == []


def test_a_captured_graph_says_its_choice(run: Run) -> None:
    assert run.graph["algorithm"] is not None
    assert run.graph["protocol"] is not None


def test_versions_are_said(run: Run) -> None:
    assert re.fullmatch(r"2\.\d+\.\d+", run.facts["version"])
    assert re.fullmatch(r"\d+\.\d+(\.\d+)*", run.facts["driver_version"])
    assert {p["version"] for p in run.points} == {run.facts["version"]}


def test_the_log_holds_one_choice_per_witnessed_call_and_the_dumps_are_readable(run: Run) -> None:
    assert run.facts["files"] == ["nccl/rank0.log", "nccl/topology.xml", "nccl/graph.xml"]
    log = (run.folder / "nccl" / "rank0.log").read_text()
    witnessed_calls = sum(p["name"] in TUNED for p in run.points)
    graphs_calls, start = 4, 1
    assert log.count("Bytes ->") == witnessed_calls + graphs_calls + start
    assert "=== System" in log
    topology = (run.folder / "nccl" / "topology.xml").read_text()
    assert read_nccl_xml(topology, file="topology.xml").fabric.devices
    graph = (run.folder / "nccl" / "graph.xml").read_text()
    assert parse_nccl_graph(graph, file="graph.xml")[0].channels
    assert "NCCL INFO" not in run.stdout


def test_a_users_variable_is_among_the_facts_and_steers(tmp_path: Path) -> None:
    if visible_gpus() < 1:
        pytest.skip("needs a GPU")
    where = "own" if visible_gpus() > 1 else "shared"
    run = witnessed(
        tmp_path / where, where, NCCL_ALGO="Ring", NCCL_PROTO="Simple", NCCL_NTHREADS="256"
    )
    variables = run.facts["variables"]
    assert (variables["NCCL_ALGO"], variables["NCCL_NTHREADS"]) == ("Ring", "256")
    assert {(p["algorithm"], p["protocol"]) for p in run.points if p["name"] in TUNED} == {
        ("ring", "simple")
    }


def test_a_users_own_log_is_left_alone(tmp_path: Path) -> None:
    if visible_gpus() < 1:
        pytest.skip("needs a GPU")
    where = "own" if visible_gpus() > 1 else "shared"
    mine = tmp_path / "mine.%p"
    run = witnessed(
        tmp_path / where,
        where,
        NCCL_DEBUG="INFO",
        NCCL_DEBUG_SUBSYS="INIT,TUNING",
        NCCL_DEBUG_FILE=str(mine),
    )
    assert all(p["algorithm"] for p in run.points if p["name"] in TUNED)
    assert "TUNING" in run.facts["notes"][0]
    logs = sorted(tmp_path.glob("mine.*"), key=lambda p: p.stat().st_size)
    assert logs[-1].read_text().count("Bytes ->") > len(run.points), (
        "timed calls too: as the user asked"
    )
