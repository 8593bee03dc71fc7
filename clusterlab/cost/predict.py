"""``predict(request) -> Prediction``: what one point should take, and why. Pure.

The bound, one model per backend (``gloo/model.py``, ``nccl/model.py``), and what both have in common: a
prediction is never below the bound, and several groups at once share the fabric's links.
"""

from __future__ import annotations

from clusterlab.core.collectives import algbw_GBps, busbw_factor, collective
from clusterlab.core.dtypes import dtype
from clusterlab.core.errors import UsageError
from clusterlab.core.placement import RankPlacement
from clusterlab.core.rows import Predicted
from clusterlab.core.suggest import unknown
from clusterlab.core.uneven import check_uneven
from clusterlab.cost.bound import lower_bound
from clusterlab.cost.calibrated.calibration import SystemCalibration
from clusterlab.cost.calibration import Calibration, check_fits
from clusterlab.cost.estimate import Estimate, Group
from clusterlab.cost.gloo.model import gloo_estimate
from clusterlab.cost.nccl.model import nccl_estimate
from clusterlab.cost.types import (
    Bottleneck,
    Bound,
    Interval,
    NoFigureError,
    Prediction,
    PredictRequest,
)

BACKENDS = {"gloo": gloo_estimate, "nccl": nccl_estimate}


def predict(request: PredictRequest) -> Prediction:
    """The time of one point, its bound, and what both rest on.

    With several groups the answer is the slowest group's, all of them running at once, and no bound of
    another group is above it. Raises UsageError for a request that makes no sense or that the fabric
    leaves no path or figure for.
    """
    name, groups = _checked(request)
    estimates = [_estimate_or_none(request, name, group, groups) for group in groups]
    bound = max((_bound(request, name, group) for group in groups), key=lambda b: b.time_us)
    known = [(e, g) for e, g in zip(estimates, groups, strict=True) if e is not None]
    if not known:
        BACKENDS[request.backend](request, name, groups[0], groups)  # raises, and says why
    slowest, group = max(known, key=lambda entry: entry[0].time_us)
    return _prediction(request, name, group, slowest, bound)


def predict_groups(request: PredictRequest) -> tuple[Prediction | None, ...]:
    """Of each group by itself, with all of them running at once; None where the fabric has no figure for
    it. Raises as ``predict`` otherwise.
    """
    name, groups = _checked(request)
    estimates = [_estimate_or_none(request, name, group, groups) for group in groups]
    return tuple(
        None
        if estimate is None
        else _prediction(request, name, group, estimate, _bound(request, name, group))
        for group, estimate in zip(groups, estimates, strict=True)
    )


def _estimate_or_none(
    request: PredictRequest, name: str, group: Group, groups: tuple[Group, ...]
) -> Estimate | None:
    try:
        return BACKENDS[request.backend](request, name, group, groups)
    except NoFigureError:
        return None


def _checked(request: PredictRequest) -> tuple[str, tuple[Group, ...]]:
    """The collective's name and the groups. Raises UsageError for what makes no sense."""
    name = collective(request.collective).name
    dtype(request.dtype)
    if request.backend not in BACKENDS:
        raise unknown("backend", request.backend, BACKENDS)
    if request.size_bytes < 1:
        raise UsageError(f"size {request.size_bytes}", where="size", expected="at least 1 byte")
    groups = _groups(request)
    if request.uneven is not None:
        if name != "all_to_all_v":
            raise UsageError(f"{name} has equal parts", where="uneven", expected="all_to_all_v")
        for group in groups:
            check_uneven(request.uneven, len(group.ranks))
    if request.calibration is not None:
        _check_calibration(request, request.calibration)
    return name, groups


def as_predicted(prediction: Prediction) -> Predicted:
    """The plain values that a row keeps."""
    interval = prediction.interval
    return Predicted(
        time_us=prediction.time_us,
        bound_time_us=prediction.bound.time_us,
        algorithm=prediction.algorithm,
        protocol=prediction.protocol,
        bottleneck=prediction.bottleneck.name,
        low_us=interval.low_us if interval else None,
        high_us=interval.high_us if interval else None,
        provenance=provenance_text(prediction),
        coverage=interval.coverage if interval else None,
        doubt="; ".join(prediction.outside) or None,
    )


def provenance_text(prediction: Prediction) -> str:
    """Where the constants come from, each source once, then the notes."""
    sources = dict.fromkeys(c.source for c in prediction.provenance if c.source)
    return "; ".join([*sources, *prediction.notes])


def _groups(request: PredictRequest) -> tuple[Group, ...]:
    """The request's groups, checked; kept by the fabric for as long as the same are asked for."""
    kept: dict[tuple[int, int | None], tuple[object, tuple[Group, ...]]] = (
        request.fabric.memo.setdefault("predicted groups", {})
    )
    key = (id(request.groups), request.root)
    if key not in kept or kept[key][0] is not request.groups:
        if len(kept) >= _GROUPS_KEPT:
            kept.clear()
        made = tuple(_group(request, ranks) for ranks in _checked_groups(request))
        kept[key] = (request.groups, made)
    return kept[key][1]


_GROUPS_KEPT = 64


def _checked_groups(request: PredictRequest) -> tuple[tuple[RankPlacement, ...], ...]:
    if not request.groups or not all(request.groups):
        raise UsageError("a group without ranks", where="groups", expected="at least one rank each")
    seen: set[int] = set()
    for group in request.groups:
        for rank in group:
            if rank.rank in seen:
                raise UsageError(
                    f"rank {rank.rank} is in two groups at once", where="groups",
                    expected="groups without a common rank",
                )  # fmt: skip
            seen.add(rank.rank)
    return request.groups


def _group(request: PredictRequest, ranks: tuple[RankPlacement, ...]) -> Group:
    devices = []
    for rank in ranks:
        if rank.device is None:
            raise UsageError(
                f"rank {rank.rank} has no device on the fabric",
                where="placement",
                expected="a placement made by place_on",
            )
        if request.fabric.kind_of(rank.device) is None:
            request.fabric.device(rank.device)  # raises, with the nearest name
        devices.append(rank.device)
    root = request.root or 0
    if not 0 <= root < len(ranks):
        raise UsageError(
            f"root {root} of {len(ranks)} ranks", where="root", expected=f"0 to {len(ranks) - 1}"
        )
    return Group(ranks, tuple(devices), root)


def _check_calibration(
    request: PredictRequest, calibration: Calibration | SystemCalibration
) -> None:
    if isinstance(calibration, SystemCalibration):
        if request.backend != "nccl":
            raise UsageError(
                f"{request.backend} is predicted", where=calibration.path or "calibration",
                expected="NCCL: it is a calibration of NCCL",
            )  # fmt: skip
        return  # the machine is compared where NCCL's communicator is known
    check_fits(calibration, backend=request.backend)
    fabric = request.fabric
    if fabric.origin == "this host" and fabric.description != calibration.system:
        raise UsageError(
            f"made on another system: {calibration.system}",
            where=calibration.source or "calibration",
            expected=fabric.description,
            fix="calibrate again on this one",
        )


def _bound(request: PredictRequest, name: str, group: Group) -> Bound:
    copy_GBps = None
    measured = request.calibration
    if isinstance(measured, Calibration) and measured.has("core_copy_GBps"):
        copy_GBps = measured.value("core_copy_GBps")
    return lower_bound(
        request.fabric,
        group.devices,
        name,
        request.size_bytes,
        root=group.root,
        copy_GBps=copy_GBps,
        uneven=request.uneven,
    )


def _prediction(
    request: PredictRequest, name: str, group: Group, estimate: Estimate, bound: Bound
) -> Prediction:
    time_us = max(estimate.time_us, bound.time_us)
    notes = list(estimate.notes)
    bottleneck = Bottleneck(
        estimate.bottleneck, min(1.0, estimate.busy_us / time_us) if time_us > 0 else 0.0
    )
    if estimate.time_us < bound.time_us:
        notes.append(f"raised to the bound ({bound.limited_by})")
        bottleneck = Bottleneck(bound.limited_by, 1.0)
    algbw = algbw_GBps(request.size_bytes, time_us) if time_us > 0 else float("inf")
    interval = estimate.interval
    if interval is not None:
        interval = Interval(
            max(interval.low_us, bound.time_us),
            max(interval.high_us, bound.time_us),
            interval.coverage,
        )
    return Prediction(
        time_us=time_us,
        algbw_GBps=algbw,
        busbw_GBps=algbw * busbw_factor(name, len(group.ranks)),
        bound=bound,
        algorithm=estimate.algorithm,
        protocol=estimate.protocol,
        bottleneck=bottleneck,
        interval=interval,
        provenance=estimate.provenance,
        alternatives=estimate.alternatives,
        notes=tuple(notes),
        library_time_us=estimate.library_time_us,
        outside=estimate.outside,
    )
