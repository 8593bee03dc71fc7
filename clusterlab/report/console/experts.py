"""What experts of a training took, in lines: tokens of each, who was busiest, who sent whom how much."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from clusterlab.core.sizes import human_size
from clusterlab.core.stepping import ExpertLoad
from clusterlab.report.numbers import percent, three_digits

_MOST_EXPERTS = 16
_MOST_RANKS = 8
"""Of more only the extremes are said; the run's experts.jsonl has all."""


def expert_lines(loads: Sequence[ExpertLoad]) -> list[str]:
    """Of all steps together; nothing without experts."""
    if not loads:
        return []
    tokens = [sum(column) for column in zip(*(one.tokens for one in loads), strict=True)]
    made, dropped = sum(tokens), sum(one.dropped for one in loads)
    each = [one / len(loads) for one in tokens]
    overloads = [one.overload for one in loads]
    lines = [
        "",
        f"experts: {len(tokens)}, tokens of each in a step {three_digits(min(each))} to "
        f"{three_digits(max(each))}, mean {three_digits(statistics.fmean(each))}; "
        f"{percent(dropped / (made + dropped) if made + dropped else 0.0)} of choices dropped",
        f"busiest rank: {statistics.fmean(overloads):.2f} of an even share, "
        f"{max(overloads):.2f} in the worst step; evenness of experts (entropy) "
        f"{statistics.fmean(one.entropy for one in loads):.3f}",
    ]
    if len(tokens) <= _MOST_EXPERTS:
        lines.append("tokens by expert: " + " ".join(three_digits(one) for one in each))
    return [*lines, *_between(loads)]


def _between(loads: Sequence[ExpertLoad]) -> list[str]:
    ranks = range(len(loads[0].rows_bytes))
    if len(ranks) == 1:
        return []
    mean = [[statistics.fmean(one.rows_bytes[a][b] for one in loads) for b in ranks] for a in ranks]
    if len(ranks) > _MOST_RANKS:
        away = [mean[a][b] for a in ranks for b in ranks if a != b]
        least, most = human_size(round(min(away))), human_size(round(max(away)))
        return [f"rows from a rank to another in forward: {least} to {most} a step"]
    lines = ["rows from each rank along ep (down) to each (across) in forward, a step:"]
    lines.append("      " + "".join(f"{b:>10}" for b in ranks))
    for a in ranks:
        cells = "".join(f"{human_size(round(mean[a][b])):>10}" for b in ranks)
        lines.append(f"{a:>6}{cells}")
    return lines
