"""`clusterlab train` over NCCL in bfloat16: steps by CUDA events, checkpoints from GPU memory, a trace."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from clusterlab.launch.gpus import visible_gpus
from clusterlab.records.ledgers import ledger_ranks
from clusterlab.records.lines import read_lines
from clusterlab.trainers.checkpoint import finished
from tests.conftest import CLI, clean_environment
from tests.report.test_trace import check

pytestmark = pytest.mark.gpu

SIZES = ("--hidden", "512", "--sequence", "256", "--batch", "16", "--steps", "12")


def train(runs: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CLI, "train", *arguments, *SIZES, "--checkpoint-every", "5"],
        env=clean_environment(CLUSTERLAB_RUNS=str(runs), **environment),
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


@pytest.mark.parametrize(
    ("strategy", "ranks"),
    [("dp", 1), ("ep", 1), ("dp", 2), ("tp", 2), ("sp", 2), ("pp", 2), ("ep", 2)],
)
def test_a_strategy_trains_and_its_times_hang_together(
    tmp_path: Path, strategy: str, ranks: int
) -> None:
    if visible_gpus() < ranks:
        pytest.skip(f"{ranks} GPUs are wanted, {visible_gpus()} are here")
    trace = tmp_path / "trace.json"
    done = train(tmp_path / "runs", strategy, "-g", str(ranks), "--trace", str(trace))
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    steps = read_lines(folder).steps
    assert len(steps) == 12
    assert all(step.loss is not None for step in steps)
    for step in steps:
        parts = step.data_us + step.forward_us + step.backward_us + step.optimizer_us
        parts += sum(step.exposed_us.values()) + step.bubble_us + step.other_us
        assert parts == pytest.approx(step.step_us, rel=0.02)
        assert step.forward_us > 0
        assert step.memory_bytes > 1 << 20
    assert ledger_ranks(folder) == list(range(ranks))
    assert finished(folder / "checkpoints") == [10, 12]
    check(json.loads(trace.read_text()))


def test_it_goes_on_from_a_checkpoint_on_the_gpu(tmp_path: Path) -> None:
    if not visible_gpus():
        pytest.skip("a GPU is wanted")
    runs = tmp_path / "runs"
    assert train(runs, "dp", "-g", "1").returncode == 0
    (folder,) = runs.iterdir()
    whole = [step.loss for step in read_lines(folder).steps]
    # As if the run had ended after ten steps.
    (folder / "checkpoints" / "step-00000012" / ".metadata").unlink()
    done = train(runs, "dp", "-g", "1", CLUSTERLAB_RUN_DIR=str(folder))
    assert done.returncode == 0, done.stderr
    steps = read_lines(folder).steps
    assert [step.attempt for step in steps] == [1] * 10 + [2] * 2
    # cuBLAS repeats itself on one device; not all kernels of a backward do to the last bit.
    assert [s.loss for s in steps] == pytest.approx(whole, rel=1e-2)
