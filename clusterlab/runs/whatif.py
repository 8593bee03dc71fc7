"""A sweep that is only predicted: on any fabric, without ranks."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from clusterlab.core.errors import UsageError
from clusterlab.core.rows import Point
from clusterlab.cost.calibrated.calibration import SystemCalibration
from clusterlab.cost.calibrated.file import load_system_calibration
from clusterlab.cost.calibration import Calibration
from clusterlab.cost.predict import predict
from clusterlab.cost.routing import named_routing, routing_of
from clusterlab.cost.types import Prediction, PredictRequest, one_group
from clusterlab.runs.sweeping.plan import make_plan, resolve_config
from clusterlab.runs.sweeping.predicting import THIS_HOST
from clusterlab.runs.typed import (
    backend_of,
    check_backend,
    checked_variables,
    issue_named,
    refuse_unmeasured,
    version_named,
)
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.host import host_fabric, read_host
from clusterlab.topology.opening import open_fabric
from clusterlab.topology.place import place_on
from clusterlab.topology.routing.network import has_network


@dataclass(frozen=True, slots=True)
class PredictOptions:
    """What was typed after ``clusterlab predict``.

    ``ranks`` None: every GPU of the fabric, or ``ranks_per_node`` of each host. ``variables`` are words
    NAME=VALUE; the process's own environment is not read.
    """

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
    ranks_per_node: int | None = None
    variables: tuple[str, ...] = ()
    nccl_version: str | None = None
    timing: str | None = None
    routing: str | None = None
    calibration: Path | None = None


@dataclass(frozen=True, slots=True)
class PredictedPoint:
    """A point of the sweep, what was asked for it, and the answer."""

    point: Point
    request: PredictRequest
    prediction: Prediction


def predict_sweep(options: PredictOptions) -> list[PredictedPoint]:
    """Every point of the sweep with its prediction. Raises UsageError for what makes no sense."""
    check_backend(options.backend)
    overrides = checked_variables(options.variables)
    version = version_named(options.nccl_version)
    issue = issue_named(options.timing)
    if options.routing is not None:
        named_routing(options.routing)
    for option, count in (("--ranks", options.ranks), ("--ranks-per-node", options.ranks_per_node)):
        if count is not None and count < 1:
            raise UsageError(f"{count}", where=option, expected="at least 1")
    calibration: Calibration | SystemCalibration | None = None
    if options.calibration is not None:
        calibration = load_system_calibration(options.calibration)
    if options.fabric == THIS_HOST:
        if options.calibration is not None:
            raise UsageError(
                "this host's cores calibrate themselves", where="--calibration",
                expected="a fabric with GPUs",
            )  # fmt: skip
        if options.backend == "nccl":
            raise UsageError(
                "the fabric `host` has no GPUs", where="--backend", expected="auto or gloo",
                fix="for this machine's GPUs: `clusterlab topo discover -o FILE`, then --fabric FILE",
            )  # fmt: skip
        from clusterlab.runs.calibrating.selfcal import load_or_calibrate

        calibration = load_or_calibrate(options.ranks or 4, progress=_say)
        fabric = host_fabric(read_host())
    else:
        fabric = open_fabric(options.fabric)
    backend = backend_of(options.backend, fabric)
    routing = routing_of(fabric, backend, options.routing)
    if backend != "nccl":
        _refuse_nccl_only(options)
        _refuse_routing_of_no_switch(options.routing, fabric)
        if calibration is None:
            refuse_unmeasured(fabric)
    world_size = options.ranks or _all_ranks(fabric, options.ranks_per_node)
    placement = place_on(fabric, world_size, ranks_per_host=options.ranks_per_node)
    groups = one_group(placement)
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
    requests = [
        PredictRequest(
            fabric=fabric,
            groups=groups,
            collective=point.collective,
            size_bytes=point.size_bytes,
            dtype=point.dtype,
            op=point.op,
            root=point.root,
            backend=backend,
            issue=issue,
            library_version=version,
            overrides=overrides,
            routing=routing,
            calibration=calibration,
        )
        for point in plan.points
    ]
    return [
        PredictedPoint(point, request, predict(request))
        for point, request in zip(plan.points, requests, strict=True)
    ]


def _refuse_nccl_only(options: PredictOptions) -> None:
    given = {
        "-x": options.variables,
        "--nccl-version": options.nccl_version,
        "--timing": options.timing,
        "--calibration": options.calibration,
    }
    for option, value in given.items():
        if value:
            raise UsageError(
                "means something to NCCL only, and this is predicted for gloo",
                where=option,
                expected="--backend nccl and a fabric with GPUs",
            )


def _refuse_routing_of_no_switch(routing: str | None, fabric: Fabric) -> None:
    if routing is not None and not has_network(fabric):
        raise UsageError(
            f"{fabric.name} has no switches", where="--routing", expected="a fabric with a network"
        )


def _all_ranks(fabric: Fabric, ranks_per_node: int | None) -> int:
    """One rank a GPU, no more than asked for on each host; 4 (or so many a host) where there are none."""
    if not fabric.models("gpu"):
        return 4 if ranks_per_node is None else ranks_per_node * len(fabric.hosts)
    if ranks_per_node is not None:
        return sum(len(fabric.on_host(h, "gpu")[:ranks_per_node]) for h in fabric.hosts)
    alone = sum(d.kind == "gpu" and d.host is not None for d in fabric.single_devices)
    return alone + sum(
        len(group.hosts) * sum(d.kind == "gpu" for d in group.items) for group in fabric.equal_hosts
    )


def _say(text: str) -> None:
    print(f"clusterlab: {text}", file=sys.stderr, flush=True)
