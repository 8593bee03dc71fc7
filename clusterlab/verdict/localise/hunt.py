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
from clusterlab.verdict.localise.infer import Inferred, Posterior
from clusterlab.verdict.localise.informative import Pool, gain_of, next_round, pool_of
from clusterlab.verdict.localise.types import Answer, Bools, Round, Seen, Suspect
from clusterlab.verdict.localise.ways import ways

Measure = Callable[[Round], Sequence[Seen]]

SURE = 0.99
"""What a hunt names, it is that sure of; a fabric it calls healthy as well."""

LEAST_BITS = 0.02
"""A round that tells less is not worth making."""

_UNSURE = 0.5
"""A further fault that is likelier than this is looked for before the first is named."""

_LEAST_PACE = 0.75
"""Messages all at less than this share of what the fabric says are not called well, only alike."""

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
    apart or not looked at, in words.
    """

    outcome: str
    answer: Answer
    rounds: tuple[Made, ...]
    left: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class _State:
    """What is known after a round: ``slow_all``: messages are alike, and slower than the fabric says."""

    found: Inferred
    outcome: str
    slow_all: bool
    unsettled: tuple[Posterior, ...]


def hunt(
    field: Field,
    measure: Measure,
    budget: Budget,
    *,
    first: Sequence[Round] = (),
    pool: Pool | None = None,
    sure: float = SURE,
    told: Callable[[Made, Answer], None] | None = None,
) -> Hunted:
    """Hunt on ``field``. ``first`` are rounds to make before anything is chosen (what hosts say of
    themselves), and again where that tells most; ``told`` hears of each round. Names a fault once
    everything was looked at, or the budget is spent.
    """
    every = pool or pool_of(field)
    evidence = Evidence(field)
    asked = [crossed(field.components, ways(field, probes).incidence) for probes in first]
    reachable = np.zeros(len(field.components), dtype=bool)
    for part in (every.crossed, *asked):
        reachable[part.component] = True

    def make(probes: Round, why: str, bits: float = 0.0) -> _State:
        evidence.add(probes, measure(probes), why, bits)
        state = _state(evidence, reachable, every, sure)
        if told and evidence.rounds:
            told(evidence.rounds[-1], state.found.answer)
        return state

    state = _state(evidence, reachable, every, sure)
    for probes in first:
        state = make(probes, "what hosts say of themselves")
    made, bits = 0, 1.0
    while state.outcome == "open" and made < budget.rounds and not budget.spent():
        if state.slow_all and made >= _STEADY:
            break
        noise = state.found.answer.noise
        probes, bits = next_round(field, every, state.unsettled, noise, seed=made)
        for again, part in zip(first, asked, strict=True):
            told_again = float(gain_of(part, state.unsettled, noise).sum())
            if told_again > bits:
                probes, bits = again, told_again
        if not probes or bits < LEAST_BITS:
            break
        state = make(probes, _why(state, reachable), bits)
        made += 1
    answer = state.found.answer
    outcome = "named" if state.outcome == "open" and answer.faults else state.outcome
    return Hunted(outcome, answer, tuple(evidence.rounds), _left(field, state, reachable, bits))


def _state(evidence: Evidence, reachable: Bools, pool: Pool, sure: float) -> _State:
    found = evidence.infer(sure)
    outcome = _outcome(found, reachable, pool, sure)
    slow_all = outcome == "healthy" and found.answer.pace < _LEAST_PACE
    # All alike, but slow: what would it be if the fabric is right? That tells what to measure beside it.
    asked = evidence.infer(sure, least_pace=_LEAST_PACE) if slow_all else found
    unsettled = [
        one
        for one, fault in zip(asked.of_faults, asked.answer.faults, strict=True)
        if slow_all or not _settled(fault, pool, sure)
    ]
    return _State(found, "open" if slow_all else outcome, slow_all, (*unsettled, asked.more))


def _outcome(found: Inferred, reachable: Bools, pool: Pool, sure: float) -> str:
    """Decided once all that can be reached was touched: a second fault is not overlooked for the first. A
    fault is named when what is left of it is one component, or several that no message tells apart.
    """
    answer, more = found.answer, found.more
    if not more.touched[reachable].all():
        return "open"
    if answer.faults:
        settled = all(_settled(f, pool, sure) for f in answer.faults) and more.found <= _UNSURE
        return "named" if settled else "open"
    return "healthy" if answer.healthy >= sure else "open"


def _settled(fault: Suspect, pool: Pool, sure: float) -> bool:
    return fault.confidence >= sure and len(np.unique(pool.alike[list(fault.numbers)])) == 1


def _why(state: _State, reachable: Bools) -> str:
    answer = state.found.answer
    unseen = int((state.found.more.touched[reachable] == 0).sum())
    if unseen:
        return f"{unseen} parts were not looked at yet"
    if state.slow_all:
        return f"all are alike, at {answer.pace:.0%} of what the fabric says"
    if answer.ranking and answer.ranking[0].confidence > 0.02:
        best = answer.ranking[0]
        return f"{best.name} may have {best.left:.0%} left (probability {best.confidence:.0%})"
    return f"healthy so far (probability {answer.healthy:.0%})"


def _left(field: Field, state: _State, reachable: Bools, bits: float) -> tuple[str, ...]:
    answer, touched = state.found.answer, state.found.more.touched
    said = []
    unseen = int((touched[reachable] == 0).sum())
    if unseen:
        said.append(
            f"{unseen} parts of {int(reachable.sum())} that ranks can reach were not looked at"
        )
    if state.slow_all:
        said.append(f"all messages get {answer.pace:.0%} of what the fabric says, and alike")
    if field.routing != "pinned" and touched.any():
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
