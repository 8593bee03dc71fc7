"""What whoever scores says of all rows, and how it meets what the rows say themselves. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from clusterlab.cost.calibrated.calibration import SystemCalibration
from clusterlab.cost.flows.crossing import Routing
from clusterlab.cost.nccl.constants import parse_version
from clusterlab.cost.scoring.choices import choice_of
from clusterlab.cost.scoring.measured import MeasuredPoint
from clusterlab.cost.types import Issue


@dataclass(frozen=True, slots=True)
class Asked:
    """``library_version`` is of rows that name none; a row's own ``algo`` and ``proto`` win over
    ``variables``, which win over what its machine's description implies. ``routing`` None: as the fabric
    says, else adaptive. ``calibration`` is of the rows' machine.
    """

    library_version: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict, hash=False)
    issue: Issue = "library"
    routing: Routing | None = None
    calibration: SystemCalibration | None = None


def version_said(point: MeasuredPoint) -> str | None:
    """The release that a row names, without what it was built for; None where it names none."""
    text = point.nccl_version.partition("+")[0].strip()
    return text if parse_version(text) is not None else None


def version_of(point: MeasuredPoint, asked: Asked) -> str | None:
    """The release to choose as; None: the newest known."""
    return version_said(point) or asked.library_version


def variables_of(point: MeasuredPoint, asked: Asked, implied: Mapping[str, str]) -> dict[str, str]:
    """NCCL's variables of a row. ``implied``: by the description of its machine."""
    said = choice_of(point.algo, point.proto).variables
    return {**implied, **asked.variables, **dict(said)}
