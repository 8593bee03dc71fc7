"""Where a calibrated prediction's measurement is expected, and what of the point was never measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from clusterlab.core.sizes import human_size
from clusterlab.cost.bands import size_band
from clusterlab.cost.calibrated.calibration import SeenCollective, Spread, SystemCalibration
from clusterlab.cost.host_overhead import SAME_FROM_BYTES
from clusterlab.cost.types import Interval, Issue

OTHER_VERSION = 1.04
"""More room either way for a release that was not measured. Chosen on holding out each of nine releases on
three systems (H100, B200, GB200): the interval held 77 % of their points without it, 91 % with it."""

OTHER_RANKS = 1.10
"""The same for a number of ranks where only one was measured. Chosen on GB200, of two ranks for four."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A point as the calibration is asked about it. ``version`` None: the calibration's own newest."""

    collective: str
    ranks: int
    nodes: int
    size_bytes: int
    version: str | None
    through_host: bool
    issue: Issue = "library"


def interval_of(calibration: SystemCalibration, asked: Asked, time_us: float) -> Interval:
    """Around ``time_us``, by the errors on left-out points of the same collective and size band."""
    band = size_band(asked.size_bytes)
    seen = calibration.seen_of(asked.collective)
    low, high, coverage = _of(calibration.residuals, asked.collective, band, "sizes")
    if seen is None or not _within(seen, asked):
        if any(r.left_out == "ranks" for r in calibration.residuals):
            far = _of(calibration.residuals, asked.collective, band, "ranks")
            low, high, coverage = min(low, far[0]), max(high, far[1]), far[2]
        else:
            low, high = low / OTHER_RANKS, high * OTHER_RANKS
    if not _seen_version(calibration, asked):
        low, high = low / OTHER_VERSION, high * OTHER_VERSION
    return Interval(time_us * low, time_us * high, coverage)


def _of(
    residuals: Sequence[Spread], collective: str, band: str, left_out: str
) -> tuple[float, float, float]:
    """Low, high and coverage: of the collective and band where measured, else the widest of what is near."""
    mine = [r for r in residuals if r.left_out == left_out] or list(residuals)
    own = [r for r in mine if r.collective == collective]
    exact = [r for r in own if r.size_band == band]
    found = exact or own or [r for r in mine if r.size_band == band] or mine
    points = sum(r.points for r in found)
    coverage = sum(r.points * r.coverage for r in found) / points
    return min(r.low for r in found), max(r.high for r in found), coverage


def _within(seen: SeenCollective, asked: Asked) -> bool:
    """Whether ranks and nodes lie between what was measured: there leaving sizes out tells the error."""
    ranks = seen.ranks[0] <= asked.ranks <= seen.ranks[-1]
    return ranks and seen.nodes[0] <= asked.nodes <= seen.nodes[-1]


def _seen_version(calibration: SystemCalibration, asked: Asked) -> bool:
    return (
        asked.version is None or not calibration.versions or asked.version in calibration.versions
    )


def unseen(calibration: SystemCalibration, asked: Asked) -> tuple[str, ...]:
    """What of the point leaves what was measured, a note each."""
    return tuple(note for note, _ in _leaves(calibration, asked))


def outside(calibration: SystemCalibration, asked: Asked) -> tuple[str, ...]:
    """Of ``unseen``, what the interval is no answer to. Other ranks, hosts and releases it is: it is as wide
    as leaving those out has shown.
    """
    return tuple(note for note, answered in _leaves(calibration, asked) if not answered)


def _leaves(calibration: SystemCalibration, asked: Asked) -> Iterator[tuple[str, bool]]:
    """What of the point leaves what was measured, and whether the interval is made for that."""
    seen = calibration.seen_of(asked.collective)
    if seen is None:
        known = ", ".join(s.collective for s in calibration.seen)
        yield (
            f"{asked.collective} was not calibrated ({known}): its constants are theirs, its interval the "
            "widest of theirs",
            False,
        )
    else:
        if asked.ranks not in seen.ranks:
            yield f"{asked.ranks} ranks: calibrated with {_listed(seen.ranks)}", True
        if asked.nodes not in seen.nodes:
            yield f"{asked.nodes} nodes: calibrated with {_listed(seen.nodes)}", True
        least, largest = seen.sizes_bytes
        if not least <= asked.size_bytes <= largest:
            yield (
                f"a size outside {human_size(least)} to {human_size(largest)}, where {asked.collective} was "
                "calibrated",
                False,
            )
    if not _seen_version(calibration, asked):
        yield (
            f"NCCL {asked.version}: calibrated with {', '.join(calibration.versions)}; the interval is wider "
            f"by {OTHER_VERSION - 1:.0%}",
            True,
        )
    if not _issue_known(calibration, asked):
        yield (
            f"timing {asked.issue}: calibrated with {calibration.issue}, which differs below "
            f"{human_size(SAME_FROM_BYTES)}",
            False,
        )
    if asked.through_host != calibration.through_host:
        ways = ("peer access", "copies through the host's memory")
        here, there = ways[asked.through_host], ways[calibration.through_host]
        yield f"{here} between the ranks: calibrated with {there}", False


def _issue_known(calibration: SystemCalibration, asked: Asked) -> bool:
    """Whether calls issued so were measured: in the fit, or their least time beside it."""
    known = {calibration.issue, *(launch.issue for launch in calibration.launches)}
    return asked.issue in known or asked.size_bytes >= SAME_FROM_BYTES


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
