"""The page of a comparison: one file, no network, no script; the look of a run's report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import clusterlab
from clusterlab.core.jsontext import json_text
from clusterlab.report.compared.sizes import POINT_HEADS
from clusterlab.report.compared.view import CHANGE_HEADS, GRAVITY, comparison_view, outcome_mark
from clusterlab.report.files.csv_text import records_csv
from clusterlab.report.html import environment
from clusterlab.report.page.embed import link
from clusterlab.report.text import plain
from clusterlab.verdict.against.comparison import Comparison
from clusterlab.verdict.against.next_step import next_step
from clusterlab.verdict.against.to_json import comparison_to_json


def compare_page(found: Sequence[Comparison], typed: Sequence[str], command: str) -> str:
    """The page of ``found``, all against the same first side. ``typed`` are the sides as the user named
    them, the first side's first; ``command`` is what makes this page again.
    """
    data = [comparison_to_json(one) for one in found]
    points = _points(data)
    worst = min((one.outcome for one in found), key=GRAVITY.index)
    views = [
        comparison_view(one, next_step(one, typed[0], second), number)
        for number, (one, second) in enumerate(zip(found, typed[1:], strict=True), start=1)
    ]
    text = (
        environment()
        .get_template("compare.html.j2")
        .render(
            views=views,
            mark=outcome_mark(worst),
            tally=Counter(view.mark.word for view in views).most_common(),
            change_heads=CHANGE_HEADS,
            point_heads=POINT_HEADS,
            command=plain(command),
            downloads=(
                *([link("comparison.csv", "text/csv", records_csv(points))] if points else []),
                link("comparison.json", "application/json", json_text(data)),
            ),
            version=clusterlab.__version__,
        )
    )
    return str(text)


def _points(data: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every point of every comparison."""
    return [
        {"first": one["first"], "second": one["second"], **point}
        for one in data
        for point in one["points"]
    ]
