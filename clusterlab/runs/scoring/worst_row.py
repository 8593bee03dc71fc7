"""The row a score is most wrong about, and the `clusterlab predict … --explain` that shows why."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from clusterlab.core.dtypes import DTYPES
from clusterlab.core.errors import UsageError
from clusterlab.core.sizes import format_size
from clusterlab.cost.predict import predict
from clusterlab.cost.scoring.asked import Asked, version_of
from clusterlab.cost.scoring.scored import ScoredPoint, request_for
from clusterlab.cost.types import PredictRequest, one_group
from clusterlab.topology.design.load import load_fabric, outline
from clusterlab.topology.design.saving import fabric_to_yaml
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.match import matching_design
from clusterlab.topology.place import place_on

SAVED_AS = "worst.yaml"
_SAME = 1e-3
_MOST_HOSTS = 8
"""A shipped design with so many times the hosts is too large to open for one point."""


@dataclass(frozen=True, slots=True)
class Worst:
    """``row``, and what to type to see why. ``save`` comes first where no shipped design gives the same
    prediction: it writes the fabric that the row's words make.
    """

    row: ScoredPoint
    command: str
    save: str | None


def worst_row(scored: Sequence[ScoredPoint]) -> ScoredPoint | None:
    """The predicted row with the largest error, too fast or too slow; None where nothing is predicted."""
    known = [one for one in scored if one.error is not None]
    return max(known, key=lambda one: abs(one.error or 0.0), default=None)


def worst(
    scored: Sequence[ScoredPoint],
    file: Path,
    fabric: Fabric | None,
    fabric_name: str | None,
    asked: Asked,
) -> Worst | None:
    """The worst row with its commands. ``fabric``: the one all rows are predicted on, if any."""
    row = worst_row(scored)
    if row is None:
        return None
    request = request_for(row.point, fabric, asked)
    if fabric_name is not None:
        return Worst(row, _command(row, request, fabric_name, asked), None)
    shipped = _shipped(request)
    if shipped is not None:
        return Worst(row, _command(row, shipped, shipped.fabric.name, asked), None)
    words = ["clusterlab", "predict", "score", str(file), *_asked_words(asked)]
    save = shlex.join([*words, "--save-fabric", SAVED_AS])
    return Worst(row, _command(row, request, SAVED_AS, asked), save)


def saved_fabric(row: ScoredPoint, asked: Asked) -> str:
    """The YAML of the fabric that a row's words make."""
    return fabric_to_yaml(request_for(row.point, None, asked).fabric)


def _command(row: ScoredPoint, request: PredictRequest, fabric: str, asked: Asked) -> str:
    ranks = request.groups[0]
    words = ["--fabric", fabric, "--collective", request.collective, "--ranks", str(len(ranks))]
    words += [*_per_node(request), "-b", format_size(request.size_bytes)]
    words += ["-d", DTYPES[request.dtype].nccl_tests]
    version = version_of(row.point, asked)
    words += [] if version is None else ["--nccl-version", version]
    for name, value in sorted(request.overrides.items()):
        words += ["-x", f"{name}={value}"]
    words += [] if asked.routing is None else ["--routing", asked.routing]
    words += _calibration_words(asked)
    return shlex.join(["clusterlab", "predict", *words, "--timing", request.issue, "--explain"])


def _per_node(request: PredictRequest) -> list[str]:
    """``--ranks-per-node`` where hosts are not filled."""
    ranks = request.groups[0]
    first = sum(rank.host == ranks[0].host for rank in ranks)
    gpus = len(request.fabric.on_host(ranks[0].host, "gpu"))
    several = ranks[-1].host != ranks[0].host
    return ["--ranks-per-node", str(first)] if several and first < gpus else []


def _asked_words(asked: Asked) -> list[str]:
    words = [] if asked.library_version is None else ["--nccl-version", asked.library_version]
    for name, value in sorted(asked.variables.items()):
        words += ["-x", f"{name}={value}"]
    words += [] if asked.issue == "library" else ["--timing", asked.issue]
    words += [] if asked.routing is None else ["--routing", asked.routing]
    return words + _calibration_words(asked)


def _calibration_words(asked: Asked) -> list[str]:
    return [] if asked.calibration is None else ["--calibration", asked.calibration.path]


def _shipped(request: PredictRequest) -> PredictRequest | None:
    """The same on a shipped design, where one is found on which the same is predicted."""
    hosts = Counter(rank.host for rank in request.groups[0])
    gpus = len(request.fabric.on_host(request.groups[0][0].host, "gpu"))
    models = [model for model in request.fabric.models("gpu") if model]
    name = matching_design(models[0], len(hosts), gpus) if models else None
    if name is None or len(outline(name).hosts) > _MOST_HOSTS * len(hosts):
        return None
    try:
        fabric = load_fabric(name)
        placed = place_on(fabric, hosts.total(), ranks_per_host=max(hosts.values()))
        there = replace(request, fabric=fabric, groups=one_group(placed))
        share = predict(there).time_us / predict(request).time_us
    except UsageError:
        return None
    return there if abs(share - 1) < _SAME else None
