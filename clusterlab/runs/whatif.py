"""A sweep that is only predicted: on any fabric, without ranks."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from clusterlab.core.errors import UsageError
from clusterlab.core.rows import Point
from clusterlab.cost.predict import predict
from clusterlab.cost.types import Prediction, PredictRequest, one_group
from clusterlab.runs.plan import make_plan, resolve_config
from clusterlab.runs.predicting import THIS_HOST
from clusterlab.topology.host import host_fabric, read_host
from clusterlab.topology.match import chip_name
from clusterlab.topology.opening import open_fabric
from clusterlab.topology.place import place_on


@dataclass(frozen=True, slots=True)
class PredictOptions:
    """What was typed after ``clusterlab predict``. ``ranks`` None: every GPU of the fabric."""

    fabric: str
    collective_text: str
    ranks: int | None
    begin: str | None
    end: str | None
    factor: float | None
    step: str | None
    dtype_text: str
    op_text: str
    backend: str


def predict_sweep(options: PredictOptions) -> list[tuple[Point, Prediction]]:
    """Every point of the sweep with its prediction. Raises UsageError for what makes no sense."""
    if options.backend not in ("auto", "gloo", "nccl"):
        raise UsageError(f"{options.backend!r}", where="--backend", expected="auto, gloo or nccl")
    calibration = None
    if options.fabric == THIS_HOST:
        from clusterlab.runs.selfcal import load_or_calibrate

        calibration = load_or_calibrate(options.ranks or 4, progress=_say)
        fabric = host_fabric(read_host())
    else:
        fabric = open_fabric(options.fabric)
    gpus = len(fabric.of_kind("gpu"))
    backend = options.backend
    if backend == "auto":
        known = all(chip_name(g.model or "") for g in fabric.of_kind("gpu"))
        backend = "nccl" if gpus and known else "gloo"  # a lab's pretend GPUs run no NCCL
    world_size = options.ranks or gpus or 4
    placement = place_on(fabric, world_size)
    config = resolve_config(
        collective_text=options.collective_text,
        begin=options.begin,
        end=options.end,
        factor=options.factor,
        step=options.step,
        dtype_text=options.dtype_text,
        op_text=options.op_text,
        root=0,
        place="out",
        iterations=1,
        warmup=0,
        check=False,
        backend=backend,
        deadline_s=1.0,
        fabric=options.fabric,
    )
    plan = make_plan(config, world_size, lambda _name, _dtype, _op: None)
    return [
        (
            point,
            predict(
                PredictRequest(
                    fabric=fabric,
                    groups=one_group(placement),
                    collective=point.collective,
                    size_bytes=point.size_bytes,
                    dtype=point.dtype,
                    op=point.op,
                    root=point.root,
                    backend=backend,
                    calibration=calibration,
                )
            ),
        )
        for point in plan.points
    ]


def _say(text: str) -> None:
    print(f"clusterlab: {text}", file=sys.stderr, flush=True)
