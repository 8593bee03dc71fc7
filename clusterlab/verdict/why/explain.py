"""``explain_table(points)``: is this curve what such machines give, and if not, why. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from clusterlab.core.errors import ClusterlabError, UsageError
from clusterlab.core.findings import Verdict
from clusterlab.cost.scoring.asked import Asked
from clusterlab.cost.scoring.measured import MeasuredPoint
from clusterlab.cost.scoring.scored import request_for
from clusterlab.cost.types import PredictRequest
from clusterlab.topology.fabric import Fabric
from clusterlab.verdict.why.candidate import Candidate
from clusterlab.verdict.why.changes import with_all_nics
from clusterlab.verdict.why.described import Said, as_hardware, standing_in
from clusterlab.verdict.why.detect import detect
from clusterlab.verdict.why.of_library import of_library
from clusterlab.verdict.why.of_links import of_links
from clusterlab.verdict.why.of_method import of_method
from clusterlab.verdict.why.of_network import of_network
from clusterlab.verdict.why.ordinary import Ordinary
from clusterlab.verdict.why.rank import rank
from clusterlab.verdict.why.saying import hypothesis
from clusterlab.verdict.why.scene import Scene
from clusterlab.verdict.why.shapes import Shape
from clusterlab.verdict.why.types import Hypothesis, TableAnswer
from clusterlab.verdict.why.world import world_of

LEAST_POINTS = 2
LEAST_RANKS = 2
_NOTHING_ASKED = Asked()


def explain_table(
    points: Sequence[MeasuredPoint],
    *,
    fabric: Fabric | None = None,
    asked: Asked = _NOTHING_ASKED,
    said: Sequence[Said] = (),
    cleared: frozenset[str] = frozenset(),
    request: PredictRequest | None = None,
    expected_us: Sequence[float | None] | None = None,
    known: Ordinary | None = None,
) -> TableAnswer:
    """What can be said of one table's points; of one collective, type and number of ranks.

    ``fabric`` takes the place of what the points' words describe. ``said``: what the run says of itself that
    would slow it, besides what the points' words do; ``cleared``: causes that its log rules out. ``request``:
    what is asked for any of the points, where their ranks have places of their own. ``expected_us``: a
    prediction of each point (by a calibration, say) that takes the place of the classes' one. ``known``: what
    is ordinary, in place of what ships.
    """
    if not points:
        return TableAnswer("", Verdict.NO_VERDICT, "the table has no rows that hold a measurement")
    name = points[0].table
    if len({p.size_bytes for p in points}) < LEAST_POINTS and len(points) < LEAST_POINTS:
        return TableAnswer(
            name,
            Verdict.NO_VERDICT,
            "one point is no curve: measure more sizes",
            points=len(points),
        )
    if points[0].n_ranks < LEAST_RANKS:
        reason = f"{points[0].n_ranks} rank sends nothing to others: no time is to be expected"
        return TableAnswer(name, Verdict.NO_VERDICT, reason, points=len(points))
    try:
        scene, remarks = _scene(points, fabric, asked, said, request)
        scene = _as_predicted(replace(scene, cleared=cleared), points, expected_us)
        found = detect(scene, known)
    except ClusterlabError as error:
        reason = f"no prediction to hold it against: {error}"
        return TableAnswer(name, Verdict.NO_VERDICT, reason, points=len(points))
    hypotheses: tuple[Hypothesis, ...] = ()
    if found.verdict == Verdict.SLOW or (
        found.verdict == Verdict.PASS and _worth_asking(scene, found.shapes)
    ):
        causes = rank(scene, candidates(scene))
        hypotheses = tuple(hypothesis(scene, one) for one in causes)
    return TableAnswer(
        name,
        found.verdict,
        found.reason,
        hypotheses,
        found.slowdown,
        remarks,
        points=len(points),
    )


_ASKED_FROM = math.log(1.1)
_ASKED_SIZES = 3
_ASKED_SHAPES = ("cold_start", "dip", "fall", "cliff")


def _worth_asking(scene: Scene, shapes: Sequence[Shape]) -> bool:
    """Whether some sizes are slower than expected, though no more than healthy systems may be, or the curve
    has a shape of its own: whoever knows better may want the causes all the same.
    """
    if any(shape.kind in _ASKED_SHAPES for shape in shapes):
        return True
    slower = [s for s, r in zip(scene.sizes, scene.ratio, strict=True) if r > _ASKED_FROM]
    return len(set(slower)) >= min(_ASKED_SIZES, len(set(scene.sizes)))


def _as_predicted(
    scene: Scene, points: Sequence[MeasuredPoint], expected_us: Sequence[float | None] | None
) -> Scene:
    """``scene`` with the given predictions in the middle of every curve, where each point has one."""
    if expected_us is None or any(time_us is None for time_us in expected_us):
        return scene
    given = {p: t for p, t in zip(points, expected_us, strict=True) if t}
    ordered = sorted(points, key=lambda p: (p.size_bytes, p.line))
    theirs = np.log([given[p] for p in ordered])
    return replace(scene, offset=theirs - scene.expected)


def _scene(
    points: Sequence[MeasuredPoint],
    fabric: Fabric | None,
    asked: Asked,
    said: Sequence[Said],
    request: PredictRequest | None,
) -> tuple[Scene, tuple[str, ...]]:
    """The table's machines as they should be. Raises UsageError where nothing can be predicted."""
    described = as_hardware(points)
    remarks: tuple[str, ...] = ()
    try:
        request = request or request_for(described.points[-1], fabric, asked)
    except UsageError:
        instead = standing_in(described.points)
        if instead is None:
            raise
        described = replace(described, points=instead)
        request = request_for(instead[-1], fabric, asked)
        remarks = (f"the GPU is not named: held against {instead[0].gpu}, within wider limits",)
    ordered = tuple(sorted(described.points, key=lambda p: (p.size_bytes, p.line)))
    world, idle = with_all_nics(world_of(request))
    idles = (Said("FEWER_NICS_THAN_EXPECTED", idle),) if idle else ()
    scene = Scene(world, ordered, (*described.said, *said, *idles), guessed=bool(remarks))
    return scene, remarks


def candidates(scene: Scene) -> Iterator[Candidate]:
    """Every cause's candidates for this system."""
    yield from of_links(scene)
    yield from of_network(scene)
    yield from of_library(scene)
    yield from of_method(scene)
