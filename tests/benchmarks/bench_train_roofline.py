"""A training step on one device: its roofline probed here, the step predicted from it, the step measured.

    python tests/benchmarks/bench_train_roofline.py [--device cuda --dtype bfloat16 --layers 8 …]

``forward`` … are the ledger's spans, median of the steps after the first three.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from clusterlab.trainers.axis import open_axes
from clusterlab.trainers.build import build
from clusterlab.trainers.config import MeshConfig, ModelConfig, Setup, TrainConfig, check
from clusterlab.trainers.ledger import Ledger
from clusterlab.trainers.plans.compute import Compute
from clusterlab.trainers.plans.work import updating, work_of
from clusterlab.trainers.roofline import probe_of

PHASES = ("forward", "backward", "optimizer")


@dataclass(frozen=True, slots=True)
class Beside:
    """µs of each phase."""

    compute: Compute
    predicted: dict[str, float]
    measured: dict[str, float]


def beside(setup: Setup, device: str, steps: int = 10) -> Beside:
    """One step of one rank, predicted and measured."""
    model = setup.model
    compute = probe_of(setup, device)
    work = work_of(setup, range(model.layers))
    ledger = Ledger(on_gpu=device != "cpu")
    trainer = build(setup, 0, open_axes(setup.mesh, 0, ledger), ledger, torch.device(device))
    parameters = trainer.parameters.values()
    update = updating(setup, sum(p.numel() for p in parameters))
    predicted = {
        "forward": compute.time_us(work.forward),
        "backward": compute.time_us(work.backward),
        "optimizer": compute.time_us(update),
    }
    for step in range(steps + 3):
        trainer.step(step)
    spans = {
        phase: [s.end_us - s.start_us for s in ledger.spans if s.name == phase and s.step >= 3]
        for phase in PHASES
    }
    return Beside(compute, predicted, {p: statistics.median(spans[p]) for p in PHASES})


def main() -> None:
    """A line a phase."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    on_gpu = torch.cuda.is_available()
    parser.add_argument("--device", default="cuda" if on_gpu else "cpu")
    parser.add_argument("--dtype", default="bfloat16" if on_gpu else "float32")
    sizes = (8, 2048, 16, 8192, 32000, 2048, 4) if on_gpu else (2, 256, 4, 1024, 512, 128, 2)
    names = ("layers", "hidden", "heads", "ffn", "vocab", "sequence", "batch")
    for name, size in zip(names, sizes, strict=True):
        parser.add_argument(f"--{name}", type=int, default=size)
    options = parser.parse_args()
    model = ModelConfig(**{name: getattr(options, name) for name in names[:-1]})
    train = TrainConfig(batch=options.batch, dtype=options.dtype)
    found = beside(check(Setup(model, MeshConfig(), train)), options.device)
    print(found.compute)
    for phase in PHASES:
        said, took = found.predicted[phase], found.measured[phase]
        print(
            f"{phase:<10}{said:>12.0f} us predicted{took:>12.0f} us measured{said / took - 1:>+8.1%}"
        )
    said, took = sum(found.predicted.values()), sum(found.measured.values())
    print(f"{'all':<10}{said:>12.0f} us predicted{took:>12.0f} us measured{said / took - 1:>+8.1%}")


if __name__ == "__main__":
    main()
