"""``explain_table(points)``: is this curve what such machines give, and if not, why. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from clusterlab.core.errors import ClusterlabError
from clusterlab.core.findings import Verdict
from clusterlab.cost.scoring.asked import Asked
from clusterlab.cost.scoring.measured import MeasuredPoint
from clusterlab.cost.scoring.scored import request_for
from clusterlab.topology.fabric import Fabric
from clusterlab.verdict.why.described import Said, as_hardware
from clusterlab.verdict.why.detect import detect
from clusterlab.verdict.why.of_library import of_library
from clusterlab.verdict.why.of_links import of_links
from clusterlab.verdict.why.of_method import of_method
from clusterlab.verdict.why.of_network import of_network
from clusterlab.verdict.why.rank import rank
from clusterlab.verdict.why.saying import hypothesis
from clusterlab.verdict.why.scene import Scene
from clusterlab.verdict.why.types import TableAnswer
from clusterlab.verdict.why.world import world_of

LEAST_POINTS = 2
_NOTHING_ASKED = Asked()


def explain_table(
    points: Sequence[MeasuredPoint],
    *,
    fabric: Fabric | None = None,
    asked: Asked = _NOTHING_ASKED,
    said: Sequence[Said] = (),
) -> TableAnswer:
    """What can be said of one table's points; of one collective, type and number of ranks.

    ``fabric`` takes the place of what the points' words describe. ``said``: what the run says of itself that
    would slow it, besides what the points' words do.
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
    described = as_hardware(points)
    ordered = tuple(sorted(described.points, key=lambda p: (p.size_bytes, p.line)))
    try:
        world = world_of(request_for(ordered[-1], fabric, asked))
        scene = Scene(world, ordered, (*described.said, *said))
        found = detect(scene)
    except ClusterlabError as error:
        reason = f"no prediction to hold it against: {error}"
        return TableAnswer(name, Verdict.NO_VERDICT, reason, points=len(points))
    hypotheses: tuple = ()
    if found.verdict == Verdict.SLOW:
        causes = rank(scene, candidates(scene))
        hypotheses = tuple(hypothesis(scene, one) for one in causes)
    return TableAnswer(
        name,
        found.verdict,
        found.reason,
        hypotheses,
        found.slowdown,
        points=len(points),
    )


def candidates(scene: Scene):
    """Every cause's candidates for this system."""
    yield from of_links(scene)
    yield from of_network(scene)
    yield from of_library(scene)
    yield from of_method(scene)
