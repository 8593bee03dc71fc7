"""Which components explain what was measured: one, several at once, or none. Pure.

Every component with every share of its rate left is a hypothesis, nothing at fault another; the posterior is
Bayes' over all of them. A second fault is sought beside the first, and then each again beside the others,
since what the first was taken for may have been both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from clusterlab.verdict.localise.model import LEFT, Effects, log_density, log_left
from clusterlab.verdict.localise.pace import pace_and_noise
from clusterlab.verdict.localise.types import (
    ABSOLUTE,
    DEAD,
    PORT_DOWN,
    PORT_FULL,
    Answer,
    Bools,
    Components,
    Crossed,
    Floats,
    Longs,
    Seen,
    Suspect,
    some_of,
)

NAMED = 0.95
"""From this confidence on a component is named."""

HEALTHY_PRIOR = 0.5
"""Who measures has some reason to."""

SOUGHT = 0.85
"""A fault that leaves more than this of a component is not sought: healthy means that none is slower."""

_MOST_FAULTS = 4
_RANKED = 10
_SAID = 1e-6
_SURELY = 700.0


@dataclass(frozen=True, eq=False)
class Posterior:
    """``gain`` [components, LEFT]: log likelihood over that of the faults in ``base`` alone, with the prior;
    ``none`` the same of nothing more at fault. ``alike`` [components] numbers those not told apart.
    """

    gain: Floats
    none: float
    alike: Longs
    touched: Floats

    @property
    def weight(self) -> Floats:
        """[components] their probability, what is untouched by any measurement left out."""
        return self._weights(self.touched > 0, LEFT <= 1)

    @property
    def sought(self) -> Floats:
        """[components] the probability of a fault that is sought, what is untouched included."""
        return self._weights(self.touched >= 0, LEFT <= SOUGHT)

    @property
    def found(self) -> float:
        """The probability that some component that was touched has a fault that is sought."""
        return float((self._weights(self.touched > 0, LEFT <= SOUGHT)).sum())

    def _weights(self, some: Bools, left: Bools) -> Floats:
        top = max(self.none, float(self.gain.max(initial=self.none)))
        mass = np.exp(np.maximum(self.gain - top, -_SURELY))
        all_of_it = float(mass[some].sum()) + float(np.exp(max(self.none - top, -_SURELY)))
        weight: Floats = mass[:, left].sum(axis=1) * some / all_of_it
        return weight

    @property
    def left(self) -> Floats:
        """[components] what is most likely left of each."""
        found: Floats = LEFT[np.argmax(self.gain, axis=1)]
        return found


@dataclass(frozen=True, eq=False)
class Levelled:
    """Measurements on one scale: ``seen`` [probes] the logarithm of what each got of what it should.
    ``rate`` is what it got, ``usual`` what it gets when all is well, in the unit that it was measured in.
    """

    seen: Floats
    noise: Floats
    rate: Floats
    usual: Floats
    pace: float = 1.0


def levelled(seen: Sequence[Seen], kinds: Sequence[str], least_pace: float = 0.0) -> Levelled:
    """``kinds``: measurements of one kind can be compared with each other, however far off all of them are
    from what was expected, down to ``least_pace`` of it. Where one of a kind has no expectation, none is
    used. What is ABSOLUTE has its expectation for pace.
    """
    rate = np.array([s.rate for s in seen], dtype=np.float64)
    wanted = np.array([s.expected or np.nan for s in seen], dtype=np.float64)
    own = np.array([s.noise for s in seen], dtype=np.float64)
    names, kind = np.unique(np.array(kinds, dtype=object).astype(str), return_inverse=True)
    least = np.log(least_pace) if least_pace > 0 else -np.inf
    slowest = 1.0
    value, noise, usual = (np.zeros(len(rate)) for _ in range(3))
    for k in range(int(kind.max(initial=-1)) + 1):
        mine = np.flatnonzero(kind == k)
        expects = not np.isnan(wanted[mine]).any()
        known = wanted[mine] if expects else np.ones(len(mine))
        with np.errstate(divide="ignore"):
            log = np.log(rate[mine] / known)
        alive = np.isfinite(log)
        pace, spread = pace_and_noise(log[alive])
        if names[k] in ABSOLUTE:
            pace = 0.0
        elif expects:
            slowest = min(slowest, float(np.exp(pace)))
            pace = max(pace, least)
        value[mine] = np.maximum(np.where(alive, log - pace, np.log(DEAD)), np.log(DEAD))
        noise[mine] = np.sqrt(spread**2 + own[mine] ** 2)
        usual[mine] = known * np.exp(pace)
    return Levelled(value, noise, rate, usual, slowest)


@dataclass(frozen=True, eq=False)
class Question:
    """What touches what, and what of it does not change with the measurements' values."""

    components: Components
    crossed: Crossed
    telling: Crossed
    """``crossed`` without ports that are up: they speak for what may be dead, and say nothing of its pace."""

    @cached_property
    def alike(self) -> Longs:
        """[components] a number that those share which touch the same measurements in the same way."""
        return alike(self.components, self.telling)

    def touched(self, base: Floats) -> Floats:
        """[components] by how many measurements that could show its fault: what is slow already hides it."""
        return shown(self.telling, base, len(self.components))

    @cached_property
    def effects(self) -> Effects:
        """What faults would do to the measurements."""
        return Effects(self.crossed, len(self.components))

    def posterior(self, data: Levelled, base: Floats | None = None) -> Posterior:
        """Of one fault more, beside those that ``base`` [probes] accounts for."""
        known = np.zeros(self.crossed.probes) if base is None else base
        gain = self.effects.gains(data.seen, data.noise, known)
        weight = self.components.weight
        prior = weight / max(float(weight.sum()), 1e-300)
        with np.errstate(divide="ignore"):
            gain += np.log((1 - HEALTHY_PRIOR) * prior / len(LEFT))[:, None]
        return Posterior(gain, float(np.log(HEALTHY_PRIOR)), self.alike, self.touched(known))


def shown(crossed: Crossed, base: Floats, components: int) -> Floats:
    """[components] how many probes touch each that ``base`` [probes] does not slow already."""
    open_ = (base[crossed.probe] > np.log(SOUGHT)).astype(np.float64)
    count = np.bincount(crossed.component, weights=open_, minlength=components)
    return count.astype(np.float64)


def base_of(crossed: Crossed, found: Sequence[tuple[int, float]]) -> Floats:
    """[probes] what faults (component, what is left of it) leave of each measurement, as a logarithm."""
    base = np.zeros(crossed.probes)
    for number, left in found:
        part = _of_component(crossed, number)
        effect = log_left(part, np.array([left]))[:, 0]
        base[part.probe] = np.minimum(base[part.probe], effect)
    return base


def alike(components: Components, crossed: Crossed) -> Longs:
    """[components] a number that those share which touch the same measurements in the same way."""
    draw = np.random.default_rng(20).random((2, max(1, crossed.probes)))
    own = (crossed.full, crossed.share)
    sums = [
        np.bincount(
            crossed.component,
            weights=draw[i, crossed.probe] * (1 + np.round(own[i], 9)),
            minlength=len(components),
        )
        for i in (0, 1)
    ]
    key = np.round(np.stack(sums, axis=1), 9)
    return np.unique(key, axis=0, return_inverse=True)[1].ravel().astype(np.int64)


@dataclass(frozen=True, eq=False)
class Inferred:
    """``answer``; the posteriors behind it: of each fault beside the others (``of_faults``, in their order of
    finding) and of one more fault beside all of them (``more``); the measurements on one scale.
    """

    answer: Answer
    of_faults: tuple[Posterior, ...]
    more: Posterior
    data: Levelled


def infer(
    components: Components,
    crossed: Crossed,
    seen: Sequence[Seen],
    kinds: Sequence[str],
    *,
    named: float = NAMED,
    least_pace: float = 0.0,
) -> Inferred:
    """What the measurements say; ``kinds`` and ``least_pace`` as in ``levelled``."""
    data = levelled(seen, kinds, least_pace)
    up = (crossed.full <= PORT_FULL) & (data.seen[crossed.probe] > np.log(PORT_DOWN) / 2)
    asked = Question(components, crossed, some_of(crossed, ~up))
    for _ in range(3):
        found, base = _faults(asked, data, named)
        scatter = _scatter(data.seen - base, kinds)
        if (scatter <= 1.2 * data.noise).all():
            break
        # What is left unexplained is noise, whatever the fastest crowd's own was.
        data = replace(data, noise=np.maximum(data.noise, scatter))
    more = asked.posterior(data, base)
    of_faults = tuple(
        asked.posterior(data, base_of(crossed, found[:i] + found[i + 1 :]))
        for i in range(len(found))
    )
    faults = (
        _suspect(asked, data, one, number, left)
        for one, (number, left) in zip(of_faults, found, strict=True)
    )
    first = of_faults[0] if len(found) == 1 else asked.posterior(data) if found else more
    answer = Answer(
        faults=tuple(faults),
        ranking=_ranking(asked, data, first),
        healthy=0.0 if found else 1 - more.found,
        looked_at=int((more.touched > 0).sum()),
        components=len(components),
        noise=float(np.median(data.noise)) if len(data.noise) else 0.0,
        sought=SOUGHT,
        pace=data.pace,
    )
    return Inferred(answer, of_faults, more, data)


_Found = list[tuple[int, float]]
"""Component and what is left of it."""


def _faults(asked: Question, data: Levelled, named: float) -> tuple[_Found, Floats]:
    crossed = asked.crossed
    found: _Found = []
    base = np.zeros(crossed.probes)
    while len(found) < _MOST_FAULTS:
        best = _best(asked, data, base, named)
        if best is None or asked.alike[best[0]] in {asked.alike[number] for number, _ in found}:
            break
        found.append(best)
        for i in range(len(found) - 1):
            others = base_of(crossed, found[:i] + found[i + 1 :])
            found[i] = _best(asked, data, others, named) or found[i]
        base = base_of(crossed, found)
    sure = _sure(asked, data, found, named)
    return sure, base_of(crossed, sure)


def _sure(asked: Question, data: Levelled, found: _Found, named: float) -> _Found:
    """Of ``found`` those that nothing else explains as well, given the others. The rest are left out."""
    while found:
        confidence = []
        for i, (number, _) in enumerate(found):
            one = asked.posterior(data, base_of(asked.crossed, found[:i] + found[i + 1 :]))
            confidence.append(float(one.weight[one.alike == one.alike[number]].sum()))
        least = int(np.argmin(confidence))
        if confidence[least] >= named:
            break
        found = found[:least] + found[least + 1 :]
    return found


def _best(asked: Question, data: Levelled, base: Floats, named: float) -> tuple[int, float] | None:
    """The likeliest component beside ``base`` where it is as good as sure that there is one; else None."""
    one = asked.posterior(data, base)
    weight = one.weight
    number = int(np.argmax(weight)) if len(weight) else -1
    # Which one is asked later: of two faults each is an alternative to the other until both are known.
    if number < 0 or weight.sum() < named:
        return None
    return number, _between(asked, data, base, number, float(one.left[number]))


def _between(asked: Question, data: Levelled, base: Floats, number: int, left: float) -> float:
    """What is left of a component more exactly than to a step of LEFT."""
    if left <= DEAD:
        return left
    part = _of_component(asked.crossed, number)
    tried = left * np.exp(np.linspace(-0.15, 0.15, 31))
    tried = tried[(tried > DEAD) & (tried <= 1)]
    at = part.probe
    effect = np.minimum(base[at][:, None], log_left(part, tried))
    likely = log_density(data.seen[at][:, None] - effect, data.noise[at][:, None]).sum(axis=0)
    return float(tried[np.argmax(likely)])


def _of_component(crossed: Crossed, number: int) -> Crossed:
    first, last = np.searchsorted(crossed.component, (number, number + 1))
    return some_of(crossed, slice(int(first), int(last)))


def _suspect(
    asked: Question, data: Levelled, one: Posterior, number: int, left: float | None = None
) -> Suspect:
    components, weight = asked.components, one.weight
    same = np.flatnonzero((one.alike == one.alike[number]) & (one.touched > 0))
    same = same[np.argsort(-components.weight[same], kind="stable")]
    part = _of_component(asked.crossed, number)
    left = float(one.left[number]) if left is None else left
    effect = log_left(part, np.array([left]))[:, 0]
    shows = effect < -data.noise[part.probe]
    slow = shows & (data.seen[part.probe] < effect / 2)
    return Suspect(
        components=tuple(components.names[c] for c in same),
        kinds=tuple(components.kinds[c] for c in same),
        confidence=float(weight[same].sum()),
        left=left,
        slow=tuple(part.probe[slow].tolist()),
        crossing=int(shows.sum()),
        links=tuple(dict.fromkeys(link for c in same for link in components.links[c])),
        numbers=tuple(same.tolist()),
        rate=_median(data.rate[part.probe[slow]]),
        usual=_median(data.usual[part.probe[slow]]),
    )


def _median(values: Floats) -> float:
    return float(np.median(values)) if len(values) else float("nan")


def _ranking(asked: Question, data: Levelled, one: Posterior) -> tuple[Suspect, ...]:
    """The likeliest classes."""
    together = np.bincount(one.alike, weights=one.weight)
    likeliest = np.argsort(-together, kind="stable")[:_RANKED]
    found = []
    for of in likeliest[together[likeliest] > _SAID].tolist():
        members = np.flatnonzero((one.alike == of) & (one.touched > 0))
        found.append(_suspect(asked, data, one, int(members[0])))
    return tuple(found)


def _scatter(residual: Floats, kinds: Sequence[str]) -> Floats:
    """[probes] the spread of what the faults do not explain, by kind."""
    kind = np.unique(np.array(kinds, dtype=object).astype(str), return_inverse=True)[1]
    found = np.zeros(len(residual))
    for k in range(int(kind.max(initial=-1)) + 1):
        mine = np.flatnonzero(kind == k)
        middle = np.median(residual[mine])
        found[mine] = 1.4826 * np.median(np.abs(residual[mine] - middle))
    return found
