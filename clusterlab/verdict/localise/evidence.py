"""Rounds of measurements over a field, gathered for the inference. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from dataclasses import field as of_dataclass

import numpy as np

from clusterlab.verdict.localise.cabling import Field
from clusterlab.verdict.localise.crossed import crossed, joined
from clusterlab.verdict.localise.infer import NAMED, Inferred, infer
from clusterlab.verdict.localise.types import OF_HOSTS, Crossed, Probe, Round, Seen
from clusterlab.verdict.localise.ways import ways

_CROWDED = 1.01
_CROWD_NOISE = 0.15
"""What shares a cable gets its part of it less exactly than what is alone."""


@dataclass(frozen=True, slots=True)
class Made:
    """A round that was made, why, and what came of it. ``bits``: what it was expected to tell."""

    probes: Round
    seen: tuple[Seen, ...]
    why: str
    bits: float


@dataclass(eq=False)
class Evidence:
    """Rounds made so far, with the components each probe touches."""

    field: Field
    rounds: list[Made] = of_dataclass(default_factory=list)
    parts: list[Crossed] = of_dataclass(default_factory=list)
    seen: list[Seen] = of_dataclass(default_factory=list)
    kinds: list[str] = of_dataclass(default_factory=list)
    probes: list[Probe] = of_dataclass(default_factory=list)

    def add(
        self,
        probes: Round,
        seen: Sequence[Seen],
        why: str = "",
        bits: float = 0.0,
        *,
        chosen: bool = True,
    ) -> None:
        """What a round found. Where nothing else was expected, the fabric's figure is.

        ``chosen``: to fit beside each other. Else (all pairs in turn) some share a cable, and how they share
        it is anyone's guess: each is looked at as if it were alone, and those that share tell less.
        """
        if not probes:
            return
        self.rounds.append(Made(probes, tuple(seen), why, bits))
        probes, seen = _each_way(probes, seen)
        self.probes += probes
        found = ways(self.field, probes)
        each = found if chosen else ways(self.field, probes, alone=True)
        self.parts.append(crossed(self.field.components, each.incidence))
        for i, (probe, one) in enumerate(zip(probes, seen, strict=True)):
            crowd = float(found.crowd[i]) if probe.way not in OF_HOSTS else 1.0
            noise = 0.0
            if crowd > _CROWDED:
                noise = _CROWD_NOISE if chosen else _CROWD_NOISE + float(np.log(crowd)) / 2
            self.kinds.append(kind_of(self.field, probe))
            self.seen.append(_expecting(probe, one, float(each.GBps[i]), noise))

    def infer(self, named: float = NAMED, least_pace: float = 0.0) -> Inferred:
        """What all of it says."""
        return infer(
            self.field.components,
            joined(self.parts),
            self.seen,
            self.kinds,
            named=named,
            least_pace=least_pace,
        )


def _each_way(probes: Round, seen: Sequence[Seen]) -> tuple[Round, list[Seen]]:
    """Both ways taken in turn are two messages one way."""
    found: list[tuple[Probe, Seen]] = []
    for probe, one in zip(probes, seen, strict=True):
        if one.back is None:
            found.append((probe, one))
            continue
        a, b = probe.ranks
        found.append((Probe("send", (a, b)), replace(one, back=None)))
        found.append((Probe("send", (b, a)), replace(one, rate=one.back, back=None)))
    return tuple(p for p, _ in found), [s for _, s in found]


def kind_of(field: Field, probe: Probe) -> str:
    """Probes of one kind are comparable with each other."""
    if probe.way in OF_HOSTS:
        return probe.way
    hosts = {int(field.host[r]) for r in probe.ranks}
    size = f" of {len(probe.ranks)}" if probe.way == "ring" else ""
    return f"{probe.way}{size} {'one host' if len(hosts) == 1 else 'between hosts'}"


def _expecting(probe: Probe, seen: Seen, GBps: float, noise: float) -> Seen:
    expected = seen.expected
    if expected is None:
        known = probe.way not in OF_HOSTS and GBps > 0
        expected = GBps if known else 1.0
    return Seen(seen.rate, expected, max(seen.noise, noise))
