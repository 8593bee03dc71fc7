"""What each group of ranks should take while the others run beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clusterlab.core.placement import RankPlacement
from clusterlab.core.rows import Point, Predicted
from clusterlab.cost.predict import as_predicted, predict_groups
from clusterlab.runs.sweeping.predicting import Model, one_host, request_of


def predict_steps(steps: Sequence[Sequence[Point]], model: Model) -> dict[Point, Predicted]:
    """Every point of every step, whose points are groups of ranks at the same time; empty without a fabric.

    Left out where that is not known: where the fabric has no figure for the links between a group's ranks,
    and on this host unless all ranks are busy, as they were when its constants were measured. Raises
    UsageError as ``predict`` does.
    """
    if model.fabric is None or model.on_fabric is None:
        return {}
    everyone = model.on_fabric.ranks
    # one tuple for all steps of the same groups: what is kept of them is found again
    known: dict[tuple[object, ...], tuple[tuple[RankPlacement, ...], ...]] = {}
    predicted: dict[Point, Predicted] = {}
    for step in steps:
        which = tuple(point.ranks for point in step)
        if which not in known:
            known[which] = tuple(tuple(everyone[r] for r in ranks or ()) for ranks in which)
        groups = known[which]
        if one_host(model) and sum(map(len, groups)) < len(everyone):
            continue
        # sizes differ by their padding, where groups of different size cut them into parts
        for size in dict.fromkeys(point.size_bytes for point in step):
            one = next(point for point in step if point.size_bytes == size)
            answers = predict_groups(request_of(one, groups, model.fabric, model))
            for point, answer in zip(step, answers, strict=True):
                if point.size_bytes == size and answer is not None:
                    predicted[point] = as_predicted(answer)
    return predicted


def groups_note(
    points: Sequence[Point], predicted: Mapping[Point, Predicted], model: Model
) -> str | None:
    """Why some groups of ranks have no prediction; None when all do, or none could on any fabric."""
    missing = {p.ranks for p in points if p not in predicted}
    if not missing or model.fabric is None:
        return None
    words = f"{len(missing)} groups of ranks not predicted"
    if one_host(model):
        return f"{words}: the constants of one host's cores hold for all ranks at once"
    return f"{words}: {model.fabric.name} has no bandwidth between their ranks"
