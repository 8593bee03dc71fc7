"""The kinds of run that people open a report of, each made by clusterlab's own code or measured by it.

``build`` makes one: sweeps and trainings run here, over gloo; those of GPUs and of a lab with a slowed link
were measured (tests/data); 1,024 ranks are predicted for real and measured by a random number.
"""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from clusterlab.core.measurement import Measurement
from clusterlab.core.placement import Placement, RankPlacement
from clusterlab.core.rows import Point, Predicted, Row, make_row
from clusterlab.records.run_dir import create_run, open_run, start_attempt
from clusterlab.records.schema import row_to_line
from clusterlab.runs.finish import end_run
from clusterlab.runs.sweeping.group_predicting import predict_steps
from clusterlab.runs.sweeping.plan import make_plan, resolve_config
from clusterlab.runs.sweeping.predicting import choose_model, predict_points
from tests.conftest import CLI
from tests.records.fake_runs import START

DATA = Path(__file__).parents[1] / "data"
Build = Callable[[Path, Mapping[str, str]], Path]


def build(kind: str, folder: Path, environment: Mapping[str, str]) -> Path:
    """The directory of a run of ``kind``, made below ``folder``. ``environment`` has no launcher's variables
    and a cache in which this host is calibrated.
    """
    return KINDS[kind](folder, environment)


def _command(folder: Path, environment: Mapping[str, str], *words: str, code: int = 0) -> Path:
    runs = folder / "runs"
    before = set(runs.glob("*"))
    done = subprocess.run(
        [*CLI, *words],
        env={**environment, "CLUSTERLAB_RUNS": str(runs)},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == code, done.stderr
    (made,) = set(runs.glob("*")) - before
    return made


def cpu_sweep(folder: Path, environment: Mapping[str, str]) -> Path:
    """Every collective between two ranks on these cores, predicted from their self-calibration."""
    sweep = ("bench", "all", "-g", "2", "-b", "1K", "-e", "4M", "-f", "4", "-n", "20")
    return _command(folder, environment, *sweep, "--name", "cpu-sweep")


def wrong_data(folder: Path, environment: Mapping[str, str]) -> Path:
    """A sweep of which one received element is not what was sent."""
    sweep = ("bench", "all_reduce,all_gather", "-g", "2", "-b", "1K", "-e", "256K", "-f", "4")
    spoilt = ("--corrupt", "1:5", "--keep-going", "--name", "wrong-data")
    return _command(folder, environment, *sweep, "-n", "10", *spoilt, code=1)


def half_written(folder: Path, environment: Mapping[str, str]) -> Path:
    """A sweep that was killed: its attempt did not end, its last row is half a row."""
    whole = open_run(_command(folder, environment, *_SHORT))
    run = create_run(
        "half-written",
        root=folder / "half",
        command=whole.info.created_by.command,
        configuration=whole.info.configuration,
        planned_points=whole.info.planned_points,
        now=START,
    )
    run = start_attempt(run, command=whole.info.created_by.command, now=START)
    for name in ("placement.json", "fabric.yaml"):
        shutil.copy(whole.path / name, run.path / name)
    lines = whole.records_path.read_bytes().splitlines(keepends=True)
    run.records_path.write_bytes(b"".join(lines[:7]) + lines[7][:100])
    return run.path


_SHORT = (
    "bench",
    "all_reduce,broadcast",
    "-g",
    "2",
    "-b",
    "1K",
    "-e",
    "256K",
    "-f",
    "4",
    "-n",
    "10",
)


def pipeline_training(folder: Path, environment: Mapping[str, str]) -> Path:
    """Six steps of a pipeline of two stages."""
    return _command(folder, environment, "train", "pp", "-g", "2", "--steps", "6")


def experts_training(folder: Path, environment: Mapping[str, str]) -> Path:
    """Six steps of a mixture of experts, one of whom is asked for more than the others."""
    words = ("train", "ep", "-g", "2", "--steps", "6", "--workload", "hot_expert")
    return _command(folder, environment, *words)


def stored(name: str) -> Build:
    """A run that was measured elsewhere."""

    def copy(folder: Path, environment: Mapping[str, str]) -> Path:
        return Path(shutil.copytree(DATA / name, folder / Path(name).name))

    return copy


HOSTS, GPUS, FABRIC = 128, 8, "superpod-b200-4su"
SLOW_RAIL = 5


def placement_1024() -> Placement:
    """Every GPU of 128 nodes of eight."""
    return Placement(
        tuple(
            RankPlacement(
                rank,
                f"b200-{rank // GPUS:03d}",
                rank % GPUS,
                gpu=f"0000:{27 + 16 * (rank % GPUS):02x}:00.0",
                gpu_name="NVIDIA B200",
                numa=rank % GPUS // 4,
                cores=tuple(range(14 * (rank % GPUS), 14 * (rank % GPUS) + 14)),
                nics=(f"mlx5_{rank % GPUS}",),
            )
            for rank in range(HOSTS * GPUS)
        )
    )


def ranks_1024(folder: Path, environment: Mapping[str, str]) -> Path:
    """1,024 ranks: all of them, then the eight rails at once, of which rail 5 takes twice as long."""
    placement = placement_1024()
    config = resolve_config(
        collective_text="all_reduce,all_gather", begin="1M", end="1G", factor=4, step=None,
        dtype_text="bfloat16", op_text="sum", root=0, place="out", iterations=20, warmup=5, check=True,
        backend="nccl", deadline_s=60.0, fabric=FABRIC,
    )  # fmt: skip
    model = choose_model(placement, "nccl", FABRIC, None, library_version="2.28.9")
    world = len(placement.ranks)
    everyone = make_plan(config, world, lambda *_: None, placement).points
    rails = make_plan(replace(config, pattern="rail"), world, lambda *_: None, placement)
    predicted = predict_points(everyone, model) | predict_steps(rails.steps, model)
    rng = random.Random(1024)
    rows = [
        _row(point, predicted[point], _slowdown(point) * rng.gauss(1.0, 0.01))
        for point in (*everyone, *rails.points)
    ]
    words = (
        "clusterlab",
        "bench",
        "all_reduce,all_gather",
        "--pattern",
        "rail",
        "-b",
        "1M",
        "-e",
        "1G",
    )
    run = create_run(
        "1024-ranks", root=folder, command=words, planned_points=len(rows), now=START,
        configuration={"collectives": config.collectives, "pattern": "rail", "fabric": FABRIC},
    )  # fmt: skip
    run = start_attempt(run, command=words, now=START)
    model.write(run.path)
    run.records_path.write_bytes(b"".join(map(row_to_line, rows)))
    end_run(run.path, 0, None)
    return run.path


def _slowdown(point: Point) -> float:
    return 2.0 if point.ranks is not None and point.ranks[0] == SLOW_RAIL else 1.0


def _row(point: Point, predicted: Predicted, times: float) -> Row:
    time_us = predicted.time_us * times
    measured = Measurement(
        iterations=20, warmup=5, time_us_loop=time_us, time_us_p50=time_us, time_us_min=time_us * 0.98,
        time_us_max=time_us * 1.05, time_us_p95=time_us * 1.03, cv=0.01, wrong=0, first_wrong=None,
    )  # fmt: skip
    moment = f"{START:%Y-%m-%dT%H:%M:%SZ}"
    return make_row(point, measured, predicted, backend="nccl", attempt=1, time_utc=moment)


KINDS: dict[str, Build] = {
    "cpu_sweep": cpu_sweep,
    "two_gpus": stored("two_h200/healthy"),
    "two_gpus_without_p2p": stored("two_h200/p2p-off"),
    "slow_link": stored("lab_slow_link"),
    "pipeline_training": pipeline_training,
    "experts_training": experts_training,
    "wrong_data": wrong_data,
    "half_written": half_written,
    "ranks_1024": ranks_1024,
}
