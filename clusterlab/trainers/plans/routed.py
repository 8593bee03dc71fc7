"""How many tokens go to which expert: counted by a step, or known before it; figures of it. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from clusterlab.trainers.config import ModelConfig, Setup
from clusterlab.trainers.mesh import group_of, place_of
from clusterlab.trainers.plans.workloads import WORKLOADS, Chosen, load_of


@dataclass(frozen=True, slots=True)
class Routed:
    """What one rank sent in one mixture of one micro-batch: rows to each expert and, on two levels, tokens to
    each node (a token counts once for a node, however many experts it has there); by DeepEP, to each rank.
    """

    layer: int
    micro_batch: int
    counts: tuple[int, ...]
    tokens: tuple[int, ...]
    dropped: int = 0


def most_of(model: ModelConfig) -> int | None:
    """How many choices of one sequence an expert takes; None: all."""
    if model.capacity is None:
        return None
    most = (
        model.top_k * model.sequence
    )  # as many as there are; a larger number may be beyond an integer
    return max(1, int(min(most, model.capacity * most / model.experts)))


def expected(setup: Setup, rank: int, step: int, micro_batch: int) -> Routed:
    """What ``rank`` will send in each mixture of a step: exactly, where the routing is forced; with a learned
    one as if it were balanced, and the same from every rank.
    """
    mesh, place = setup.mesh, place_of(rank, setup.mesh)
    routing = setup.train.routing
    samples = range(setup.rows)
    if routing == "learned":
        routing = "balanced"
    else:
        first = (place.dp * setup.train.micro_batches + micro_batch) * setup.rows
        samples = range(first, first + setup.rows)
    parts = mesh.tp if mesh.sequence is not None else 1
    width = setup.model.sequence // parts
    own = range(place.tp * width, (place.tp + 1) * width) if parts > 1 else range(width)
    most = most_of(setup.model)
    kept: list[Chosen] = []
    dropped = 0
    for sample in samples:
        chosen = WORKLOADS[routing](load_of(setup), step, sample)
        left = within(chosen, most)
        kept += left[own.start : own.stop]
        dropped += sum(len(chosen[i]) - len(left[i]) for i in own)
    counts = Counter(expert for chosen in kept for expert in chosen)
    tokens: Counter[int] = Counter()
    nodes = len(group_of(rank, "ep_rail", mesh)) if mesh.per_node is not None else 0
    if setup.train.expert_backend == "deep_ep":
        nodes = mesh.ep
    if nodes:
        share = setup.model.experts // nodes
        tokens.update(node for chosen in kept for node in {expert // share for expert in chosen})
    return Routed(
        -1, micro_batch, tuple(counts[e] for e in range(setup.model.experts)),
        tuple(tokens[node] for node in range(nodes)), dropped,
    )  # fmt: skip


def within(chosen: Sequence[Chosen], most: int | None) -> list[Chosen]:
    """The choices of one sequence that are kept when an expert takes its first ``most``."""
    if most is None:
        return list(chosen)
    taken: Counter[int] = Counter()
    kept = []
    for experts in chosen:
        kept.append(tuple(expert for expert in experts if taken[expert] < most))
        taken.update(experts)
    return kept


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one mixture, over the ranks that share its experts. ``least``, ``most``, ``mean``, ``cv`` (standard
    deviation / mean): of an expert's tokens. ``overload``: rows of the busiest rank over those of an even
    share. ``dropped``: of all choices. ``entropy``: of the experts' shares, 1 when even, 0 when one has all.
    """

    least: int
    most: int
    mean: float
    cv: float
    overload: float
    dropped: float
    entropy: float


def figures(sources: Sequence[Routed]) -> Figures:
    """From what each rank sent, in order of rank; the experts are theirs in the same order."""
    per_expert = [sum(column) for column in zip(*(one.counts for one in sources), strict=True)]
    total, experts = sum(per_expert), len(per_expert)
    mean = total / experts
    per_rank = [sum(row) for row in zip(*peers(sources), strict=True)]
    shares = [count / total for count in per_expert if count] if total else []
    spread = math.sqrt(sum((count - mean) ** 2 for count in per_expert) / experts)
    dropped = sum(one.dropped for one in sources)
    return Figures(
        least=min(per_expert),
        most=max(per_expert),
        mean=mean,
        cv=spread / mean if total else 0.0,
        overload=max(per_rank) * len(sources) / total if total else 1.0,
        dropped=dropped / (total + dropped) if total + dropped else 0.0,
        entropy=-sum(p * math.log(p) for p in shares) / math.log(experts) if experts > 1 else 1.0,
    )


def peers(sources: Sequence[Routed], row_bytes: int = 1) -> list[list[int]]:
    """Bytes from each rank (row) to each rank's experts (column); what stays on a rank is on the diagonal."""
    own = len(sources[0].counts) // len(sources)
    return [
        [sum(one.counts[r * own : (r + 1) * own]) * row_bytes for r in range(len(sources))]
        for one in sources
    ]


def by_mixture(ranks: Iterable[Sequence[Routed]]) -> dict[tuple[int, int], list[Routed]]:
    """What several ranks sent in a step, by (layer, micro-batch), in the order of ``ranks``."""
    found: dict[tuple[int, int], list[Routed]] = {}
    for sent in ranks:
        for one in sent:
            found.setdefault((one.layer, one.micro_batch), []).append(one)
    return found
