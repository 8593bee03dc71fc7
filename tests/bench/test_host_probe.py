"""What a rank says of its host: threads that want cores, the pace of a core, ports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from clusterlab.bench.host_probe import clock_rate, cores_free, ports_up


def process(proc: Path, pid: int, states: str) -> None:
    """A process of which each thread is in one of ``states``."""
    for number, state in enumerate(states):
        thread = proc / str(pid) / "task" / str(pid + number)
        thread.mkdir(parents=True)
        (thread / "stat").write_text(f"{pid + number} (a (b) R) {state} 1 2 3 0 0")


@pytest.mark.parametrize(
    ("processes", "cores", "free"),
    [
        ([], 4, 1.0),
        (["S", "SSDZT"], 4, 1.0),
        (["R", "SR"], 4, 0.5),
        (["RRRR"], 8, 0.5),
        (["RRRR", "RR"], 4, 0.0),
    ],
)
def test_free_is_what_no_ready_thread_wants(
    tmp_path: Path, processes: list[str], cores: int, free: float
) -> None:
    for number, states in enumerate(processes):
        process(tmp_path, 1_000_000 + 100 * number, states)
    (tmp_path / "loadavg").write_text("9.0 9.0 9.0 9/9 9")
    assert cores_free(0.01, proc=tmp_path, cores=cores) == pytest.approx(free)


def test_a_busy_process_of_this_host_is_seen() -> None:
    before = cores_free(0.3, cores=64)
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(8)]
    try:
        during = cores_free(0.5, cores=64)
    finally:
        for one in busy:
            one.kill()
            one.wait()
    assert during < before - 3 / 64  # eight want a core; other processes come and go


def test_the_pace_of_a_core_is_some_work_a_second() -> None:
    rates = [clock_rate() for _ in range(2)]
    assert min(rates) > 100
    assert max(rates) < 50 * min(rates)


def test_ports_are_those_of_the_kernel_and_of_infiniband(tmp_path: Path) -> None:
    for device, states in {"mlx5_0": ["4: ACTIVE"], "mlx5_1": ["1: DOWN"], "hfi1_0": []}.items():
        for number, state in enumerate(states, start=1):
            port = tmp_path / device / "ports" / str(number)
            port.mkdir(parents=True)
            (port / "state").write_text(state + "\n")
        (tmp_path / device).mkdir(exist_ok=True)
    found = ports_up(infiniband=tmp_path)
    assert (found["mlx5_0"], found["mlx5_1"], found["hfi1_0"]) == (True, False, False)
    assert "lo" not in found
    assert ports_up(infiniband=tmp_path / "none").keys() == found.keys() - {
        "mlx5_0",
        "mlx5_1",
        "hfi1_0",
    }
