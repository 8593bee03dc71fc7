"""A rank that dies before the first point: it is named, and the others end in one sentence, no traceback."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clusterlab.core.errors import ExitCode
from clusterlab.launch.identity import RankIdentity
from clusterlab.records.run_dir import create_run
from clusterlab.runs import local_ranks
from clusterlab.runs.calibrating import calibration_run, session_calibration
from clusterlab.runs.sweeping import rank
from clusterlab.runs.sweeping.bench import resolve
from clusterlab.runs.sweeping.local_sweep import run_local_sweep
from clusterlab.runs.sweeping.request import BenchRequest
from clusterlab.runs.sweeping.sweep import SweepStart

pytestmark = pytest.mark.ranks

TYPED = BenchRequest(
    collective_text="all_reduce", begin="1K", end="4K", factor=None, step=None, iterations="5",
    warmup="1", check=True, op_text="sum", dtype_text="float", root=0, ranks=None, place="out",
    backend="gloo", fabric=None, deadline_s=60.0, name=None, as_json=True, strict_table=False,
    corrupt=None,
)  # fmt: skip

STAGES: dict[str, tuple[Any, str]] = {
    "before the roll call": (rank, "call_whereabouts"),
    "before the process group": (rank, "init_process_group"),
    "before the first collective": (rank, "refuse_oversize"),
    "before the constants": (rank, "agreed_calibration"),
    "while calibrating": (calibration_run, "measure_points"),
    "before the run is opened": (rank, "_open_together"),
    "before the sweep": (rank, "measure_steps"),
}


def dies_first(function: Callable[..., Any], victim: int, number: int) -> Callable[..., Any]:
    def first(*args: Any, **options: Any) -> Any:
        identity = next(a for a in args if isinstance(a, RankIdentity))
        if identity.rank == victim:
            os.kill(os.getpid(), number)
        return function(*args, **options)

    return first


@pytest.mark.parametrize(("victim", "number"), [(0, signal.SIGTERM), (2, signal.SIGKILL)])
@pytest.mark.parametrize("stage", STAGES)
def test_a_rank_that_dies_at_the_start_is_named_and_nothing_is_traced(
    stage: str,
    victim: int,
    number: signal.Signals,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CLUSTERLAB_RUNS", str(tmp_path / "runs"))
    if stage == "while calibrating":
        monkeypatch.setattr(session_calibration, "kept_calibration", lambda *_, **__: None)
    module, name = STAGES[stage]
    monkeypatch.setattr(module, name, dies_first(getattr(module, name), victim, number))
    start = SweepStart(
        resolve(TYPED), 3, lambda: create_run("start"), as_json=True, strict_table=False
    )
    assert run_local_sweep(start) == ExitCode.DEADLINE
    (folder,) = (tmp_path / "runs").iterdir()
    logs = "".join(path.read_text() for path in (folder / "logs").iterdir())
    said = capfd.readouterr().err
    assert f"rank {victim} (pid " in said
    assert f"was ended by signal {number:d} ({number.name})" in said
    assert "Traceback" not in said + logs


@pytest.mark.parametrize(
    ("stage", "victim"),
    [
        ("before the roll call", 0),
        ("before the process group", 2),
        ("before the first collective", 0),
        ("before the constants", 0),
        ("before the run is opened", 0),
    ],
)
def test_a_rank_that_is_stopped_at_the_start_ends_the_run_also_if_it_serves_the_store(
    stage: str,
    victim: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CLUSTERLAB_RUNS", str(tmp_path / "runs"))
    for room in (rank, local_ranks):
        monkeypatch.setattr(room, "START_S", 2.0)
    module, name = STAGES[stage]
    monkeypatch.setattr(module, name, dies_first(getattr(module, name), victim, signal.SIGSTOP))
    start = SweepStart(
        resolve(TYPED), 3, lambda: create_run("start"), as_json=True, strict_table=False
    )
    began = time.monotonic()
    assert run_local_sweep(start) == ExitCode.DEADLINE
    assert time.monotonic() - began < 20
    (folder,) = (tmp_path / "runs").iterdir()
    # Of two that wait one may end first; then the other has lost it. Rank 0 says it on the terminal.
    said = (folder / "logs" / "rank-1.log").read_text() + capfd.readouterr().err
    assert "start of the run: not finished within" in said
    # On a busy machine a rank may still be reaching the store when these 2 s are over, whoever is stopped.
    assert victim or "store does not answer: rank 0 is stopped or held up" in said
