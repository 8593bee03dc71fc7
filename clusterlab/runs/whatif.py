"""A sweep that is only predicted: on any fabric, without ranks."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from clusterlab.core.errors import UsageError
from clusterlab.core.rows import Point
from clusterlab.core.suggest import unknown
from clusterlab.cost.calibrated.calibration import SystemCalibration
from clusterlab.cost.calibrated.file import load_system_calibration
from clusterlab.cost.calibration import Calibration
from clusterlab.cost.flows.crossing import ROUTINGS, Routing
from clusterlab.cost.nccl.constants import typed_version
from clusterlab.cost.nccl.overrides import parse_overrides
from clusterlab.cost.nccl.value_types import check_values
from clusterlab.cost.predict import predict
from clusterlab.cost.routing import routing_of
from clusterlab.cost.types import Issue, Prediction, PredictRequest, one_group
from clusterlab.runs.plan import make_plan, resolve_config
from clusterlab.runs.predicting import THIS_HOST
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.host import host_fabric, read_host
from clusterlab.topology.opening import open_fabric
from clusterlab.topology.parts import PRETENDED
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
    routing_named(options.routing)
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
        from clusterlab.runs.selfcal import load_or_calibrate

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


def checked_variables(words: tuple[str, ...]) -> dict[str, str]:
    """``NAME=VALUE`` words as a mapping of NCCL's variables. Raises UsageError naming the word."""
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not re.fullmatch(r"(NCCL|RCCL)_[A-Z0-9_]+", name):
            raise UsageError(
                f"{word!r}",
                where="-x",
                expected="NAME=VALUE with a variable of NCCL, as NCCL_ALGO=ring",
            )
        if not equals or not value.strip():
            raise UsageError(
                f"{name} has no value", where="-x", expected=f"{name}=VALUE",
                fix="the environment is not read: write the value",
            )  # fmt: skip
        if found.get(name, value) != value:
            raise UsageError(
                f"{name} is {found[name]!r} and {value!r}", where="-x", expected="one value each"
            )
        found[name] = value
    check_values(found)
    parse_overrides(found)
    return found


def version_named(text: str | None) -> str | None:
    """A release as typed. Raises UsageError for other text."""
    return None if text is None else typed_version(text, where="--nccl-version")


def routing_named(word: str | None) -> Routing:
    """The routing called ``word``, adaptive if None. Raises UsageError with the nearest name."""
    if word is None:
        return "adaptive"
    if word not in ROUTINGS:
        raise unknown("routing", word, ROUTINGS, where="--routing")
    return ROUTINGS[ROUTINGS.index(word)]


def issue_named(text: str | None) -> Issue:
    """The way calls are issued; nccl-tests' unless said. Raises UsageError with the nearest name."""
    known: tuple[Issue, ...] = get_args(Issue)
    for issue in known:
        if issue == (text or "library"):
            return issue
    raise unknown("timing", text or "", known, where="--timing")


def check_backend(asked: str) -> None:
    """Raises UsageError for what is no backend."""
    if asked not in ("auto", "gloo", "nccl"):
        raise UsageError(f"{asked!r}", where="--backend", expected="auto, gloo or nccl")


def backend_of(asked: str, fabric: Fabric) -> str:
    """NCCL where there are GPUs, also those whose model nobody says; a lab's pretended GPUs run none.
    Raises UsageError for NCCL without GPUs.
    """
    real = _real_gpus(fabric)
    if asked == "nccl" and not real:
        gpus = "pretended GPUs, on which no NCCL runs" if fabric.models("gpu") else "no GPUs"
        raise UsageError(
            f"the fabric has {gpus}",
            where=f"--backend nccl on {fabric.name}",
            expected="auto or gloo",
        )
    if asked != "auto":
        return asked
    return "nccl" if real else "gloo"


def _real_gpus(fabric: Fabric) -> bool:
    return bool(fabric.models("gpu").keys() - {PRETENDED})


def refuse_unmeasured(fabric: Fabric) -> None:
    """gloo's time is the work of the hosts' cores, which only a calibration of that host knows
    (cost/gloo/host.py). Links alone would make it next to nothing, but for a lab's, which are slowed down.
    """
    if _real_gpus(fabric):
        raise UsageError(
            f"gloo on {fabric.name}: its time is the work of the hosts' cores, which nobody measured",
            where="--backend", expected="nccl (what auto takes for GPUs)",
            fix="for gloo on such a host, run there: clusterlab predict --fabric host --backend gloo",
        )  # fmt: skip


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
