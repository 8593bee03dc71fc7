"""Curves of described systems for the tests of ``why``: as the model has them, and changed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from clusterlab.cost.scoring.measured import MeasuredPoint
from clusterlab.cost.scoring.scored import predict_points

SIZES = tuple(1 << k for k in range(3, 34))

SYSTEMS = {
    "h100-8": ("H100-SXM", 1, 8, "nvswitch3-900", "none"),
    "h100-2x8": ("H100-SXM", 2, 8, "nvswitch3-900", "8x400G IB NDR"),
    "a100-4x8": ("A100-SXM4-80G", 4, 8, "nvswitch2-600", "8x200G RoCE"),
    "l40s-4": ("L40S", 1, 4, "pcie4", "none"),
    "mi300x-8": ("MI300X", 1, 8, "xgmi-mesh", "none"),
    "gh200-2x4": ("GH200-120G", 2, 4, "nvlink4-mesh", "4x200G Slingshot-11"),
}


def points_of(
    system: str, collective: str = "all_reduce", sizes: Sequence[int] = SIZES
) -> list[MeasuredPoint]:
    """What the model says ``system`` takes."""
    gpu, nodes, gpus, intra, inter = SYSTEMS[system]
    asked = [
        MeasuredPoint(
            table="t", system=system, gpu=gpu, n_nodes=nodes, gpus_per_node=gpus,
            n_ranks=nodes * gpus, intra_fabric=intra, inter_fabric=inter, collective=collective,
            dtype="float32", in_place=False, size_bytes=size, time_us=1.0, nccl_version="",
            algo="", proto="", published=True, line=i + 2, samples=1,
        )
        for i, size in enumerate(sizes)
    ]  # fmt: skip
    found = []
    for one in predict_points(asked):
        assert one.predicted_us is not None, one.reason
        found.append(replace(one.point, time_us=one.predicted_us))
    return found


def changed(
    points: Sequence[MeasuredPoint], change: Callable[[int, float], float], *, seed: int = 1
) -> list[MeasuredPoint]:
    """``change(size, time_us)`` of each, with 2 % of noise."""
    draw = random.Random(seed)
    return [
        replace(p, time_us=change(p.size_bytes, p.time_us) * draw.lognormvariate(0, 0.02))
        for p in points
    ]


def at_most(GBps: float, factor: float, floor_us: float = 0.0) -> Callable[[int, float], float]:
    """Everything through something that carries ``GBps`` of busbw (``factor``: busbw over algbw)."""

    def limited(size: int, time_us: float) -> float:
        return float(np.maximum(time_us, np.hypot(size * factor / (GBps * 1e3), floor_us)))

    return limited
