"""The hunt for a fault: measure, infer, choose what tells most, until one is named. Pure but for ``measure``.

``measure`` makes a round of probes and says what came of each: real ranks do it, or a simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from clusterlab.verdict.localise.cabling import Field
from clusterlab.verdict.localise.crossed import crossed
from clusterlab.verdict.localise.evidence import Evidence, Made
from clusterlab.verdict.localise.infer import Inferred, base_of, shown
from clusterlab.verdict.localise.informative import Pool, Unknown, gain_of, next_round, pool_of
from clusterlab.verdict.localise.types import (
    OF_HOSTS,
    PORT_FULL,
    Answer,
    Bools,
    Crossed,
    Probe,
    Round,
    Seen,
    Suspect,
    some_of,
)
from clusterlab.verdict.localise.ways import ways

Measure = Callable[[Round], Sequence[Seen]]

SURE = 0.99
"""What a hunt names, it is that sure of; a fabric it calls healthy as well."""

LEAST_BITS = 0.02
"""A round that tells less is not worth making."""

_ASK_AGAIN = 0.1
"""Hosts are asked again, once all else was looked at, when that tells this many bits."""

_UNSURE = 0.05
"""A further fault that is likelier than this is looked for before the first is named."""

_LEAST_PACE = 0.75
"""Messages all at less than this share of what the fabric says are not called well, only alike."""

_COMPARABLE = 3
"""Messages of one alone say nothing, and of two that differ either may be the slow one."""

_STEADY = 12
"""Rounds in which what is alike may turn out to be slow beside something."""


@dataclass(frozen=True, slots=True)
class Budget:
    """``rounds`` to make at most. ``spent`` says whether the time is up, asked before each round."""

    rounds: int = 40
    spent: Callable[[], bool] = lambda: False


@dataclass(frozen=True, slots=True)
class Hunted:
    """``outcome``: ``named``, ``healthy`` or ``open`` (the budget ended first). ``left``: what was not told
    apart or not looked at, in words. ``measured``: what the numbers in ``answer`` count.
    """

    outcome: str
    answer: Answer
    rounds: tuple[Made, ...]
    left: tuple[str, ...]
    measured: tuple[Probe, ...]


@dataclass(frozen=True, eq=False)
class _State:
    """What is known after a round. ``slow_all``: messages are alike, and slower than the fabric says.
    ``unseen`` of ``reachable`` parts were in no measurement that could show their fault. ``few``: of messages
    there are too few to say what is usual, and no fabric says it.
    """

    found: Inferred
    outcome: str
    slow_all: bool
    unknown: tuple[Unknown, ...]
    unseen: int
    reachable: int
    few: bool


def hunt(
    field: Field,
    measure: Measure,
    budget: Budget,
    *,
    first: Sequence[Round] = (),
    pool: Pool | None = None,
    sure: float = SURE,
    told: Callable[[Made, Answer], None] | None = None,
    rates_known: bool = True,
) -> Hunted:
    """Hunt on ``field``. ``first`` are rounds to make before anything is chosen (what hosts say of
    themselves), and again where that tells most; ``told`` hears of each round. Names a fault once
    everything was looked at, or the budget is spent. ``rates_known``: the fabric's rates are real ones.
    """
    every = pool or pool_of(field)
    evidence = Evidence(field)
    asked = [crossed(field.components, ways(field, probes).incidence) for probes in first]
    judge = _Judge(field, every, tuple(asked), sure, rates_known)

    def make(probes: Round, why: str, bits: float = 0.0) -> _State:
        evidence.add(probes, measure(probes), why, bits)
        state = judge.state(evidence)
        if told and evidence.rounds:
            told(evidence.rounds[-1], state.found.answer)
        return state

    state = judge.state(evidence)
    for probes in first:
        state = make(probes, "what hosts say of themselves")
    made, bits = 0, 1.0
    while state.outcome == "open" and made < budget.rounds and not budget.spent():
        if state.slow_all and made >= _STEADY:
            break
        noise = state.found.answer.noise
        probes, bits = next_round(field, every, state.unknown, noise, seed=made)
        for again, part in zip(first, asked, strict=True):
            told_again = float(gain_of(part, state.unknown, noise).sum())
            if told_again > max(bits, _ASK_AGAIN) and not state.unseen:
                probes, bits = again, told_again
        if not probes or bits < LEAST_BITS:
            break
        state = make(probes, _why(state), bits)
        made += 1
    answer = state.found.answer
    outcome = "named" if state.outcome == "open" and answer.faults else state.outcome
    left = _left(field, state, bits)
    return Hunted(outcome, answer, tuple(evidence.rounds), left, tuple(evidence.probes))


@dataclass(frozen=True, eq=False)
class _Judge:
    """Decides whether a hunt is over, and if not, what is not known yet."""

    field: Field
    pool: Pool
    first: tuple[Crossed, ...]
    sure: float
    rates_known: bool

    def state(self, evidence: Evidence) -> _State:
        """After the rounds made so far."""
        found = evidence.infer(self.sure)
        known = _known(found.answer)
        reachable = self._reachable(known)
        unseen = int((found.more.touched[reachable] == 0).sum())
        messages = {p.ranks for p in evidence.probes if p.way not in OF_HOSTS}
        few = not self.rates_known and len(messages) < _COMPARABLE
        outcome = "open" if unseen else self._outcome(found)
        outcome = "open" if few and outcome == "healthy" else outcome
        slow_all = outcome == "healthy" and self.rates_known and found.answer.pace < _LEAST_PACE
        # All alike, but slow: what would it be if the fabric is right? That tells what to measure beside it.
        asked = evidence.infer(self.sure, least_pace=_LEAST_PACE) if slow_all else found
        known = _known(asked.answer)
        unknown = [
            Unknown(one, (*known[:i], *known[i + 1 :]))
            for i, (one, fault) in enumerate(zip(asked.of_faults, asked.answer.faults, strict=True))
            if slow_all or not self._settled(fault)
        ]
        return _State(
            found,
            "open" if slow_all else outcome,
            slow_all,
            (*unknown, Unknown(asked.more, known)),
            unseen,
            int(reachable.sum()),
            few,
        )

    def _reachable(self, known: tuple[tuple[int, float], ...]) -> Bools:
        """[components] whether something can be measured that would show its fault beside those known."""
        many = len(self.field.components)
        parts = (self.pool.crossed, *self.first)
        found = np.zeros(many, dtype=bool)
        for part in parts:
            told = some_of(part, part.full > PORT_FULL)  # a port that is up tells little
            found |= shown(told, base_of(told, known), many) > 0
        return found

    def _outcome(self, found: Inferred) -> str:
        """A fault is named when what is left of it is one component, or several that no message tells apart,
        and when it is unlikely that there is another.
        """
        answer = found.answer
        if answer.faults:
            settled = all(map(self._settled, answer.faults)) and found.more.found <= _UNSURE
            return "named" if settled else "open"
        return "healthy" if answer.healthy >= self.sure else "open"

    def _settled(self, fault: Suspect) -> bool:
        one_class = len(np.unique(self.pool.alike[list(fault.numbers)])) == 1
        return fault.confidence >= self.sure and one_class


def _known(answer: Answer) -> tuple[tuple[int, float], ...]:
    return tuple((fault.numbers[0], fault.left) for fault in answer.faults)


def _why(state: _State) -> str:
    answer = state.found.answer
    if state.unseen:
        return f"{state.unseen} parts were not looked at yet"
    if state.slow_all:
        return f"all are alike, at {answer.pace:.0%} of what the fabric says"
    if answer.ranking and answer.ranking[0].confidence > 0.02:
        best = answer.ranking[0]
        return f"{best.name} may have {best.left:.0%} left (probability {best.confidence:.0%})"
    return f"healthy so far (probability {answer.healthy:.0%})"


def _left(field: Field, state: _State, bits: float) -> tuple[str, ...]:
    answer = state.found.answer
    said = []
    if state.unseen:
        said.append(
            f"{state.unseen} parts of {state.reachable} that ranks can reach were not looked at"
        )
    if state.few:
        said.append(
            "too few pairs of ranks to compare with each other, and no fabric says their rate"
        )
    if state.slow_all:
        said.append(f"all messages get {answer.pace:.0%} of what the fabric says, and alike")
    if field.routing != "pinned" and answer.looked_at:
        said.append(
            f"routing is {field.routing}: a message spreads over many cables between switches, and one "
            "slow cable among them hardly shows; measure with fixed ways (for NCCL over InfiniBand "
            "NCCL_IB_ADAPTIVE_ROUTING=0, --routing pinned)"
        )
    said += [
        f"{fault.name} is not told apart from {', '.join(fault.others)}"
        for fault in answer.faults
        if fault.others
    ]
    if bits < LEAST_BITS and not answer.faults:
        said.append("no further message would tell more")
    return tuple(said)
