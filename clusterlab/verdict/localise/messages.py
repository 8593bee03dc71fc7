"""Slow links from messages whose way is known step by step, also without a fabric. Pure.

Each step is a suspect in one direction, and in both. Who knows the whole fabric searches it
(``cabling``), switches and hosts included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clusterlab.verdict.localise.crossed import NEITHER, Incidence, components_of, crossed
from clusterlab.verdict.localise.infer import infer
from clusterlab.verdict.localise.types import Answer, Seen

Step = tuple[str, str]
"""A link in one direction: from a device to a device."""


@dataclass(frozen=True, slots=True)
class Message:
    """From one rank to another: what it got, what it should (None: not known), and the links it crossed."""

    ranks: tuple[int, int]
    GBps: float
    expected_GBps: float | None
    kind: str
    way: tuple[Step, ...]


def of_messages(messages: Sequence[Message]) -> Answer:
    """What makes some of ``messages`` slow; each was alone on its way."""
    steps = {s: i for i, s in enumerate(dict.fromkeys(s for m in messages for s in m.way))}
    depth = np.zeros(len(steps))
    for message in messages:
        for place, step in enumerate(message.way):
            depth[steps[step]] = max(depth[steps[step]], 1 / (1 + place))
    named: list[tuple[str, str, float, Sequence[int], tuple[str, ...]]] = []
    for (a, b), i in steps.items():
        back = steps.get((b, a))
        # Named in the direction in which messages leave: from a rank, a host, a leaf.
        if back is not None and (depth[i], -i) > (depth[back], -back):
            named.append((f"{a} ↔ {b}", "link", 1.0, [i, back], (f"{a}->{b}",)))
        named.append((f"{a} → {b}", "direction", 0.5, [i], (f"{a}->{b}",)))
    probe = [i for i, m in enumerate(messages) for _ in m.way]
    resource = [steps[s] for m in messages for s in m.way]
    components = components_of(named, len(steps))
    incidence = Incidence(
        probe=np.array(probe, dtype=np.int64),
        resource=np.array(resource, dtype=np.int64),
        full=np.ones(len(probe)),
        share=np.ones(len(probe)),
        side=np.full(len(probe), NEITHER),
        probes=len(messages),
    )
    seen = [Seen(m.GBps, m.expected_GBps) for m in messages]
    kinds = [m.kind for m in messages]
    return infer(components, crossed(components, incidence), seen, kinds).answer
