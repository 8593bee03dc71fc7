"""What the rows of a file were predicted on: the machine and the library's release, in words. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from clusterlab.core.errors import ClusterlabError
from clusterlab.cost.nccl.case import case_of
from clusterlab.cost.nccl.communicator import NEWEST
from clusterlab.cost.nccl.constants import constants_for
from clusterlab.cost.scoring.asked import Asked, version_said
from clusterlab.cost.scoring.machine import SystemDescription, description_of
from clusterlab.cost.scoring.measured import MeasuredPoint
from clusterlab.cost.scoring.scored import requests
from clusterlab.cost.types import PredictRequest
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.routing.nics import leading_out, links_out

VersionFrom = Literal["file", "--nccl-version", "calibration", "newest known"]


@dataclass(frozen=True, slots=True)
class PredictedOn:
    """``rows`` rows of ``systems`` (the file's names) on one ``machine`` with one release.

    ``fabric`` is the name of the one that was asked for, else empty; ``version_from`` says who named the
    release.
    """

    machine: str
    fabric: str
    systems: tuple[str, ...]
    library: str
    version: str
    version_from: VersionFrom
    rows: int


def predicted_on(
    points: Sequence[MeasuredPoint], fabric: Fabric | None, asked: Asked
) -> list[PredictedOn]:
    """Each machine and release once, the one with the most rows first; points without a machine are in
    none. ``rows`` counts points.
    """
    alike: dict[tuple[SystemDescription, str], list[MeasuredPoint]] = {}
    for point in points:
        alike.setdefault((description_of(point), point.nccl_version), []).append(point)
    found: dict[tuple[str, str, str, str, VersionFrom], tuple[dict[str, None], int]] = {}
    for rows, (point, request) in zip(
        alike.values(), requests([rows[0] for rows in alike.values()], fabric, asked), strict=True
    ):
        if isinstance(request, ClusterlabError):
            continue
        library = _library(request)
        version, version_from = _version(point, asked, library)
        name = "" if fabric is None else fabric.name
        key = (machine_words(request.fabric), name, library, version, version_from)
        names, before = found.setdefault(key, ({}, 0))
        names[point.system] = None
        found[key] = names, before + len(rows)
    return sorted(
        (
            PredictedOn(machine, name, tuple(names), library, version, source, rows)
            for (machine, name, library, version, source), (names, rows) in found.items()
        ),
        key=lambda one: -one.rows,
    )


def machine_words(fabric: Fabric) -> str:
    """``8 x H100-SXM5-80GB, NVSwitch``; of several hosts ``2 x 8 …``, and the NICs of each."""
    models = fabric.models("gpu")
    host = next((h for h in fabric.hosts if fabric.on_host(h, "gpu")), None)
    if host is None:
        return "no GPUs"
    gpus = fabric.on_host(host, "gpu")
    hosts = max(1, sum(models.values()) // len(gpus))
    named = ", ".join(sorted(model or "GPU" for model in models))
    count = f"{len(gpus)} x" if hosts == 1 else f"{hosts} x {len(gpus)}"
    parts = [f"{count} {named}"]
    if len(gpus) > 1:
        parts.append(_joined(fabric, gpus[0].name, len(gpus)))
    if hosts > 1:
        parts.append(_network(fabric, host))
    return ", ".join(filter(None, parts))


def _joined(fabric: Fabric, gpu: str, gpus: int) -> str:
    """What joins a host's GPUs."""
    links = [k for k in fabric.links_from(gpu) if k.link_class in ("nvlink", "xgmi")]
    if not links:
        return "PCIe"
    if any(fabric.kind_of(k.dst) == "nvswitch" for k in links):
        return "NVSwitch"
    name = {"nvlink": "NVLink", "xgmi": "xGMI"}[links[0].link_class]
    peers = len({k.dst for k in links if fabric.kind_of(k.dst) == "gpu"})
    return name if peers >= gpus - 1 else f"{name} to {peers} of {gpus - 1} others"


def _network(fabric: Fabric, host: str) -> str:
    """The NICs that lead out of a host: how many, what rate, what they speak."""
    nics = leading_out(fabric, host)
    if not nics:
        return ""
    rates = {k.wire_GBps for nic in nics for k in links_out(fabric, nic)} - {None}
    speaks = sorted({fabric.device(nic).transport or "" for nic in nics} - {""})
    Gbps = "" if len(rates) != 1 else f" {8 * (rates.pop() or 0):g} Gb/s"
    return f"{len(nics)} x{Gbps} {'/'.join(speaks) or 'NIC'}"


def _library(request: PredictRequest) -> str:
    """``NCCL`` or ``RCCL``: by the GPU's maker."""
    try:
        return case_of(request).comm.library.upper()
    except ClusterlabError:
        return "NCCL"


def _version(point: MeasuredPoint, asked: Asked, library: str) -> tuple[str, VersionFrom]:
    said = version_said(point)
    if said is not None:
        return said, "file"
    if asked.library_version is not None:
        return asked.library_version, "--nccl-version"
    calibrated = asked.calibration.newest_version if asked.calibration is not None else None
    if calibrated is not None:
        return calibrated, "calibration"
    newest = NEWEST if library == "NCCL" else constants_for("", "rccl").version
    return newest, "newest known"
