"""From measured points to a calibration: fit, leave out and fit again, and write down what was seen."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import median

from clusterlab.core.errors import UsageError
from clusterlab.cost.bands import percentile
from clusterlab.cost.calibrated.calibration import (
    Factors,
    FittedConstant,
    SeenCollective,
    SourceFile,
    SystemCalibration,
)
from clusterlab.cost.calibrated.correction import KNOTS_BYTES
from clusterlab.cost.calibrated.crossval import NOMINAL, cross_validate, scores, spreads
from clusterlab.cost.calibrated.fit import Fitted, fit
from clusterlab.cost.calibrated.machine import joined
from clusterlab.cost.calibrated.parameters import moved, unit_of
from clusterlab.cost.calibrated.points import FitPoint
from clusterlab.cost.effects.constants import shipped_effects
from clusterlab.cost.host_overhead import Launch
from clusterlab.cost.nccl.constants import parse_version
from clusterlab.cost.types import Issue

FEWEST_POINTS = 8
FEWEST_SIZES = 4
"""Below these nothing can be left out, and an interval would be a guess."""


def of_one_class(points: Sequence[FitPoint]) -> tuple[list[FitPoint], int]:
    """Those of the commonest class of GPU (one GPU of a PCIe host is not of the class that several are),
    and how many others there are.
    """
    chip = Counter(p.chip for p in points).most_common(1)[0][0]
    kept = [p for p in points if p.chip == chip]
    return kept, len(points) - len(kept)


def build_calibration(
    points: Sequence[FitPoint],
    *,
    system: str,
    sources: Sequence[SourceFile],
    date_utc: str,
    made_by: str,
    issue: Issue = "library",
) -> SystemCalibration:
    """The calibration of one machine called ``system``, whose calls were issued by ``issue``. Raises
    UsageError for rows that are too few, or of two machines.
    """
    _check_enough(points, system)
    machine = joined((p.machine for p in points), system=system)
    network = next((p.network for p in points if p.network is not None), None)
    fitted = fit(points)
    left = cross_validate(points, fitted)
    residuals = spreads(left)
    collectives = sorted({p.collective for p in points})
    return SystemCalibration(
        system=system,
        machine=machine,
        chip=points[0].chip,
        network=network,
        versions=_versions(points),
        through_host=any(p.through_host for p in points),
        issue=issue,
        launches=(),
        seen=tuple(_seen(name, points) for name in collectives),
        constants=_constants(fitted, points[0].chip, network),
        factors=tuple(
            Factors(name, KNOTS_BYTES, tuple(math.exp(x) for x in fitted.knots(name)))
            for name in collectives
        ),
        residuals=residuals,
        scores=scores(left, residuals),
        sources=tuple(sources),
        date_utc=date_utc,
        made_by=made_by,
    )


FEWEST_LAUNCHES = 4
_LAUNCH_SHARE = 0.6
"""A call whose work takes less than this share of it was waiting for the next to be issued."""

_LEAST_LAUNCH_SPREAD = 1.03


def fit_launch(issue: Issue, calls: Sequence[tuple[float, float]]) -> Launch | None:
    """The least time from one call to the next, from pairs of what a call took and what its work takes
    (µs); None where too few were bound by it. It lies in its range for eight of ten such calls.
    """
    bound = sorted(taken for taken, work in calls if work < _LAUNCH_SHARE * taken)
    if len(bound) < FEWEST_LAUNCHES:
        return None
    middle = median(bound)
    return Launch(
        issue,
        middle,
        min(percentile(bound, (1 - NOMINAL) / 2), middle / _LEAST_LAUNCH_SPREAD),
        max(percentile(bound, (1 + NOMINAL) / 2), middle * _LEAST_LAUNCH_SPREAD),
        len(bound),
    )


def _check_enough(points: Sequence[FitPoint], system: str) -> None:
    sizes = {p.size_bytes for p in points}
    if len(points) < FEWEST_POINTS or len(sizes) < FEWEST_SIZES:
        raise UsageError(
            f"{len(points)} rows of {len(sizes)} sizes are too few to calibrate from",
            where=system,
            expected=f"{FEWEST_POINTS} or more of {FEWEST_SIZES} or more sizes",
            fix="measure from 8 B to 1 GiB by factors of two",
        )


def _versions(points: Sequence[FitPoint]) -> tuple[str, ...]:
    return tuple(sorted({p.version for p in points} - {""}, key=lambda v: parse_version(v) or ()))


def _seen(name: str, points: Sequence[FitPoint]) -> SeenCollective:
    mine = [p for p in points if p.collective == name]
    sizes = [p.size_bytes for p in mine]
    return SeenCollective(
        collective=name,
        ranks=tuple(sorted({p.ranks for p in mine})),
        nodes=tuple(sorted({p.nodes for p in mine})),
        sizes_bytes=(min(sizes), max(sizes)),
        rows=len(mine),
    )


def _constants(fitted: Fitted, chip: str, network: str | None) -> tuple[FittedConstant, ...]:
    table = shipped_effects()
    middle = {
        **table.chips[chip],
        **(table.networks[network] if network is not None else {}),
        **table.shared,
    }
    return tuple(
        FittedConstant(name, moved(name, middle[name], x), unit_of(name), middle[name])
        for name, x in fitted.constants.items()
        if name in middle
    )
