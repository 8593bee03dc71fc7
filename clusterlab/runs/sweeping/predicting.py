"""Which fabric a sweep runs on, and what each of its points should take there."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from clusterlab.core.errors import UsageError
from clusterlab.core.placement import Placement, RankPlacement
from clusterlab.core.rows import Point, Predicted
from clusterlab.cost.calibrated.calibration import SystemCalibration
from clusterlab.cost.calibrated.file import load_system_calibration
from clusterlab.cost.calibration import Calibration
from clusterlab.cost.issue import issue_of
from clusterlab.cost.predict import as_predicted, predict
from clusterlab.cost.routing import routing_of
from clusterlab.cost.types import NoFigureError, PredictRequest
from clusterlab.records.documents import FabricReference, write_fabric, write_placement
from clusterlab.records.environment import versions
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.host import host_fabric, read_host
from clusterlab.topology.match import matching_design, place_like
from clusterlab.topology.opening import open_fabric
from clusterlab.topology.parts import PRETENDED
from clusterlab.verdict.mapping import mapping_doubt

_MESSAGES = {"ping_pong": "send"}
"""Half of a round trip is one message."""

THIS_HOST = "host"
"""The fabric of ranks that share one host's cores: built from the host itself, not from a file."""


@dataclass(frozen=True, slots=True)
class Model:
    """What the predictions of a run rest on.

    ``observed`` is where ranks really are, ``on_fabric`` the same with their devices on the fabric.
    ``fabric`` is None when no design describes the hardware; then nothing is predicted. ``note`` says
    why, or why the predictions may not be of this hardware. ``library_version`` is NCCL's, where known.
    """

    observed: Placement
    backend: str
    fabric: Fabric | None = None
    on_fabric: Placement | None = None
    calibration: Calibration | SystemCalibration | None = None
    note: str | None = None
    library_version: str | None = None

    def write(self, folder: Path) -> None:
        """Write placement.json and fabric.yaml into the run directory."""
        write_placement(folder, self.observed)
        if self.fabric is not None:
            write_fabric(folder, self._reference(self.fabric))

    def _reference(self, fabric: Fabric) -> FabricReference:
        text = fabric.digest or hashlib.sha256(fabric.description.encode()).hexdigest()
        return FabricReference(
            design=fabric.name if fabric.origin == "this host" else fabric.origin or fabric.name,
            sha256=text,
            overrides={"host": fabric.description} if fabric.origin == "this host" else {},
            calibration=_calibration_text(self.calibration),
        )


def _calibration_text(calibration: Calibration | SystemCalibration | None) -> str | None:
    if calibration is None:
        return None
    if isinstance(calibration, SystemCalibration):
        return calibration.source
    return (
        f"self-calibration of {calibration.system} with {calibration.backend} ({calibration.library}), "
        f"{calibration.date_utc}: {calibration.source}"
    )


def choose_model(
    observed: Placement,
    backend: str,
    fabric: str | None,
    calibration: Calibration | SystemCalibration | None,
    *,
    library_version: str | None = None,
) -> Model:
    """The fabric for ranks that sit where ``observed`` says.

    ``fabric`` is what the user named (a design or a file); otherwise this host for ranks without GPUs,
    or the shipped design that matches the GPUs. ``calibration`` is of the host for gloo, of the system for
    NCCL. ``library_version`` is the NCCL that will run (None: the package's beside torch). Raises UsageError
    for a calibration of another backend.
    """
    if isinstance(calibration, SystemCalibration):
        _check_backend(calibration, backend)
    if backend == "nccl":
        library_version = (library_version or versions().get("nccl") or "").partition("+")[0]
    if fabric is None:
        fabric = THIS_HOST if backend == "gloo" else _design_of(observed)
    if fabric is None:
        names = sorted({r.gpu_name or "unknown GPU" for r in observed.ranks})
        note = f"no design for {', '.join(names)}: nothing is predicted; name one with --fabric"
        return Model(observed, backend, note=note)
    found = host_fabric(read_host()) if fabric == THIS_HOST else open_fabric(fabric)
    placed = place_like(found, _as_one_host(observed) if fabric == THIS_HOST else observed)
    return Model(
        observed,
        backend,
        found,
        placed,
        calibration,
        note=_elsewhere(observed, found),
        library_version=library_version or None,
    )


def given_calibration(file: str | None, backend: str) -> SystemCalibration | None:
    """The calibration in ``file``, where one is named. Raises UsageError naming the file, also for a backend
    that it is not of.
    """
    if file is None:
        return None
    calibration = load_system_calibration(Path(file))
    _check_backend(calibration, backend)
    return calibration


def _check_backend(calibration: SystemCalibration, backend: str) -> None:
    if backend != "nccl":
        raise UsageError(
            f"{backend} is measured", where=calibration.path or "--calibration",
            expected="NCCL: it is a calibration of NCCL",
        )  # fmt: skip


def _elsewhere(observed: Placement, fabric: Fabric) -> str | None:
    """What to say when a fabric of GPUs was named for ranks that have none; simulated GPUs are fine."""
    models = fabric.models("gpu").keys() - {PRETENDED}
    if not models or any(r.gpu_name for r in observed.ranks):
        return None
    return (
        f"{fabric.name} describes GPUs, these ranks run without: the prediction is of other hardware; "
        "without --fabric it is of this host"
    )


def _as_one_host(observed: Placement) -> Placement:
    """Simulated nodes that share this machine's cores are one host to the cost model."""
    host = observed.ranks[0].host
    return Placement(tuple(replace(r, host=host, local_rank=r.rank) for r in observed.ranks))


def _design_of(observed: Placement) -> str | None:
    per_host = max(sum(r.host == host for r in observed.ranks) for host in observed.hosts)
    return matching_design(observed.ranks[0].gpu_name or "", len(observed.hosts), per_host)


def pairs_note(
    points: Sequence[Point], predicted: Mapping[Point, Predicted], model: Model
) -> str | None:
    """Why some pairs of ranks have no prediction; None when all do, or none could on any fabric."""
    missing = {p.ranks for p in points if p.ranks is not None and p not in predicted}
    if not missing or model.fabric is None:
        return None
    ways = f"{len(missing)} pairs of ranks (each way counted)"
    if one_host(model):
        return f"{ways} not predicted: the constants of one host's cores hold for all ranks at once"
    return f"{ways} not predicted: {model.fabric.name} has no bandwidth between them"


def one_host(model: Model) -> bool:
    """Whether all ranks share this host's cores."""
    return model.fabric is not None and model.fabric.origin == "this host"


def predict_points(points: Sequence[Point], model: Model) -> dict[Point, Predicted]:
    """What each point should take; empty without a fabric. Raises UsageError as ``predict`` does.

    A point of some ranks is predicted as if they were alone on the fabric. It is left out where that is
    not known: on this host, whose constants were measured with all ranks busy, and where the fabric has
    no figure for the links between them.
    """
    if model.fabric is None or model.on_fabric is None:
        return {}
    ranks = model.on_fabric.ranks
    mapped = mapping_doubt(model.fabric, model.observed, model.on_fabric)
    predicted: dict[Point, Predicted] = {}
    for point in points:
        if point.ranks is None:
            predicted[point] = as_predicted(
                predict(request_of(point, (ranks,), model.fabric, model))
            )
        elif not one_host(model):
            pair = tuple(ranks[r] for r in point.ranks)
            with suppress(NoFigureError):
                alone = request_of(point, (pair,), model.fabric, model)
                predicted[point] = as_predicted(predict(alone))
    if mapped is None:
        return predicted
    return {
        point: replace(one, doubt="; ".join(filter(None, (mapped, one.doubt))))
        for point, one in predicted.items()
    }


def request_of(
    point: Point, groups: tuple[tuple[RankPlacement, ...], ...], fabric: Fabric, model: Model
) -> PredictRequest:
    """What to ask of ``point`` when ``groups`` run it at the same time."""
    return PredictRequest(
        fabric=fabric,
        groups=groups,
        collective=_MESSAGES.get(point.collective, point.collective),
        size_bytes=point.size_bytes,
        dtype=point.dtype,
        op=point.op,
        root=point.root,
        in_place=point.in_place,
        backend=model.backend,
        routing=routing_of(fabric, model.backend),
        issue=issue_of(point.timing),
        library_version=model.library_version,
        calibration=model.calibration,
        uneven=point.uneven,
    )
