"""Whether `clusterlab compare` and `baseline` decide rightly on pairs of runs with known truth.

    .venv/bin/python -m tests.benchmarks.bench_baseline [--pairs 200] [--power 100] [--json]

Pairs are generated (run_pairs.py: curves, noise and intervals as measured on two H200): a third are noise
only, half have a regression of 3 to 30 % (one collective in one band, one collective, all below 64 KiB, or
everywhere, each size of each equally often), the rest an improvement. Iterations differ between the runs.
Each pair is decided by `compare`, by a baseline of the first run, and by a baseline of it and two more. Then
a power curve: how often a regression of a size is found where it is.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from clusterlab.verdict.against.comparison import against
from clusterlab.verdict.against.side import Side, Timed
from clusterlab.verdict.baseline.check import check
from clusterlab.verdict.baseline.make import make_baseline
from clusterlab.verdict.baseline.model import Made
from tests.benchmarks.run_pairs import (
    OF_BAND,
    Change,
    collectives,
    everywhere,
    made_run,
    measured,
    of_band,
    of_collective,
    small_only,
)

FACTORS = (1.03, 1.05, 1.10, 1.20, 1.30)
ITERATIONS = (10, 20, 50, 200, 500)
_KINDS = 6
_COMBINATIONS = _KINDS * len(FACTORS)
TIMES_NOISE = 5.0
_MADE = Made("bench", "here", "2026-11-30T12:00:00Z", "0", ())
_WORDS = {
    "regression": "regression", "slow": "regression", "improvement": "improvement",
    "fast_unexpected": "improvement", "same": "nothing", "pass": "nothing", "no_verdict": "no verdict",
    "invalid": "invalid",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pair:
    """Four runs of one thing, the last one with ``change``."""

    runs: Sequence[Side]
    change: Change | None

    @property
    def truth(self) -> str:
        """What a right decision says."""
        if self.change is None:
            return "nothing"
        return "regression" if self.change.factor > 1 else "improvement"


def deciders() -> dict[str, Callable[[Pair], str]]:
    """What decides, by name."""

    def baseline(count: int) -> Callable[[Pair], str]:
        def decide(pair: Pair) -> str:
            made = make_baseline("b", pair.runs[:count], _MADE)
            return check(made, pair.runs[-1]).verdict.value

        return decide

    return {
        "compare": lambda pair: against(pair.runs[0], pair.runs[-1]).outcome.value,
        "baseline of 1 run": baseline(1),
        "baseline of 3 runs": baseline(3),
    }


def changes_for(curve: Sequence[Timed], rng: random.Random) -> list[Callable[[float], Change]]:
    """The kinds of change, of a collective by chance."""
    name = rng.choice(collectives(curve))
    return [
        lambda f: of_band(name, "small", f),
        lambda f: of_band(name, "mid", f),
        lambda f: of_band(name, "large", f),
        lambda f: of_collective(name, f),
        small_only,
        everywhere,
    ]


def make_pair(curve: Sequence[Timed], rng: random.Random, change: Change | None = None) -> Pair:
    """Four runs, iterations by chance."""
    runs = [
        made_run(
            curve,
            rng,
            name=f"run{i}",
            change=change if i == 3 else None,
            iterations=rng.choice(ITERATIONS),
        )
        for i in range(4)
    ]
    return Pair(runs, change)


def pairs(count: int, seed: int = 1) -> list[Pair]:
    """``count`` pairs: noise only, regressions, improvements; by turns of one and of seven collectives."""
    curves = [measured("seven1"), measured("auto1")]
    turns = {"noise": count // 3, "regression": count // 2}
    turns["improvement"] = count - sum(turns.values())
    found = []
    for what, many in turns.items():
        for i in range(many):
            rng = random.Random(f"{seed} {what} {i}")
            curve = curves[(i // _COMBINATIONS + i) % 2]
            kind = changes_for(curve, rng)[i % _KINDS]
            factor = FACTORS[i // _KINDS % len(FACTORS)]
            change = (
                None if what == "noise" else kind(factor if what == "regression" else 1 / factor)
            )
            found.append(make_pair(curve, rng, change))
    return found


@dataclass(frozen=True, slots=True)
class Rates:
    """Of one decider: counts by truth and decision."""

    name: str
    counts: Counter[tuple[str, str]]

    def share(self, truth: str, decision: str) -> float:
        """Of the pairs with a truth, those that were decided so."""
        whole = sum(n for (t, _), n in self.counts.items() if t == truth)
        return self.counts[truth, decision] / whole if whole else 0.0


def rates(of: Sequence[Pair]) -> list[Rates]:
    """What each decider says of the pairs."""
    return [
        Rates(name, Counter((pair.truth, _WORDS[decide(pair)]) for pair in of))
        for name, decide in deciders().items()
    ]


def power(count: int, seed: int = 7) -> list[tuple[str, str, float, list[float]]]:
    """(curve, kind, factor, share found by each decider) over ``count`` pairs each."""
    found = []
    for label, run in (("7 collectives", "seven1"), ("1 collective", "auto1")):
        curve = measured(run)
        names = [kind(1.0).name for kind in changes_for(curve, random.Random(0))]
        for k, name in enumerate(names):
            if run == "auto1" and name in {
                "one collective",
                "small sizes",
            }:  # the same as others there
                continue
            for factor in FACTORS:
                hits = [0] * len(deciders())
                for i in range(count):
                    rng = random.Random(f"{seed} {run} {k} {factor} {i}")
                    pair = make_pair(curve, rng, changes_for(curve, rng)[k](factor))
                    for d, decide in enumerate(deciders().values()):
                        hits[d] += _WORDS[decide(pair)] == "regression"
                found.append((label, name, factor, [hit / count for hit in hits]))
    return found


def main() -> None:
    """Print rates and the power curve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument(
        "--power", type=int, default=100, help="pairs for each point of the curve; 0: none"
    )
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    of = pairs(asked.pairs)
    found = rates(of)
    curve = power(asked.power) if asked.power else []
    if asked.json:
        counts = {r.name: {f"{t}: {d}": n for (t, d), n in r.counts.items()} for r in found}
        print(json.dumps({"pairs": len(of), "counts": counts, "power": curve}))
        return
    truths = Counter(pair.truth for pair in of)
    print(
        f"{len(of)} pairs: {dict(truths)}; noise of a collective's median between runs: {OF_BAND}\n"
    )
    heads = ("false alarm", "no verdict", "found", "of 5 % up", "of 10 % up", f"of {TIMES_NOISE:g}σ up",
             "improvements", "wrong way")  # fmt: skip
    print(f"{'':20}" + "".join(f"{head:>14}" for head in heads))
    for one in found:
        shares = (
            one.share("nothing", "regression"),
            one.share("nothing", "no verdict"),
            one.share("regression", "regression"),
            found_of(one.name, of, lambda c: c.factor > 1.04),
            found_of(one.name, of, lambda c: c.factor > 1.09),
            found_of(one.name, of, lambda c: times_noise(c) >= TIMES_NOISE),
            one.share("improvement", "improvement"),
            one.share("regression", "improvement") + one.share("improvement", "regression"),
        )
        print(f"{one.name:20}" + "".join(f"{share:>14.1%}" for share in shares))
    if not curve:
        return
    print("\nregressions found, by what was slowed down:\n")
    print(f"{'':16}{'':26}{'slower by':>10}" + "".join(f"{name:>20}" for name in deciders()))
    for label, name, factor, shares in curve:
        print(f"{label:16}{name:26}{factor - 1:>10.0%}" + "".join(f"{s:>20.0%}" for s in shares))


def times_noise(change: Change) -> float:
    """A change's size over what a collective's median differs by, in the quietest band that it is in."""
    quietest = "small" if "small" in change.name else "mid" if "mid" in change.name else "large"
    return abs(math.log(change.factor)) / OF_BAND[quietest]


def found_of(name: str, of: Sequence[Pair], which: Callable[[Change], bool]) -> float:
    """Of the regressions that ``which`` chooses, the share that a decider found."""
    decide = deciders()[name]
    asked = [p for p in of if p.change and p.change.factor > 1 and which(p.change)]
    return sum(_WORDS[decide(pair)] == "regression" for pair in asked) / len(asked)


if __name__ == "__main__":
    main()
