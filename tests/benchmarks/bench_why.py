"""How often ``why`` names the one thing that was changed: 200 curves judged blind, and healthy ones.

    python tests/benchmarks/bench_why.py [--seeds 1,2,3] [--curves 200] [--healthy 100] [--only CODE]
                                         [--misses] [--json FILE]

A curve is a sweep of one machine, as measured, with one known fault (why_faults.py) on a healthy base
(why_bases.py): a drawn site, or for a third of the curves a published healthy table, where the folder of
shared data is found (``$CLUSTERLAB_SHARED``, else beside the checkout). The judge sees the points and no
label. Printed by seed: the cause named first, and among the first three, whatever the verdict; the same where
a code that gives the very same curve counts too (half of the NICs, or all at half width); faults whose
verdict is slow; healthy curves whose verdict is not. Then by cause what was named first instead.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from clusterlab.verdict.why.explain import explain_table
from tests.benchmarks.why_curves import LabelledCurve, labelled_curves

AIMS = {"first": 0.70, "among three": 0.90, "healthy silent": 0.97}


@dataclass(frozen=True, slots=True)
class Judged:
    """What was said of one curve, beside the truth."""

    table: str
    truth: str
    alike: tuple[str, ...]
    named: tuple[str, ...]
    variants: tuple[str, ...]
    scores: tuple[float, ...]
    detected: bool
    reason: str
    machine: str
    story: str
    base: str

    def within(self, first: int, *, alike: bool = False) -> bool:
        """Whether the truth (or a code with the same curve) is among the ``first`` named ones."""
        right = {self.truth, *(self.alike if alike else ())}
        return bool(right & set(self.named[:first]))


def judge(curve: LabelledCurve) -> Judged:
    """One curve, blind: only its points are handed over."""
    answer = explain_table(curve.points)
    return Judged(
        table=curve.points[0].table,
        truth=curve.code,
        alike=curve.alike,
        named=tuple(h.code for h in answer.hypotheses),
        variants=tuple(h.variant for h in answer.hypotheses),
        scores=tuple(h.score for h in answer.hypotheses),
        detected=answer.detected,
        reason=answer.reason,
        machine=curve.machine,
        story=curve.story,
        base=curve.base,
    )


def shares(judged: Sequence[Judged]) -> dict[str, float]:
    """Each figure as a share; those without a curve to it are left out."""
    faulty = [j for j in judged if j.truth]
    healthy = [j for j in judged if not j.truth]
    found: dict[str, float] = {}
    if faulty:
        found |= {
            "first": _share(j.within(1) for j in faulty),
            "among three": _share(j.within(3) for j in faulty),
            "first, alike counted": _share(j.within(1, alike=True) for j in faulty),
            "among three, alike counted": _share(j.within(3, alike=True) for j in faulty),
            "detected": _share(j.detected for j in faulty),
        }
    if healthy:
        found["healthy silent"] = _share(not j.detected for j in healthy)
    return found


def _share(holds: Iterable[bool]) -> float:
    values = list(holds)
    return sum(values) / len(values)


def confusion(judged: Sequence[Judged]) -> list[str]:
    """A line a cause: how many, verdict slow, named first, among three, and what was first instead."""
    lines = [
        f"{'cause':28s} {'of':>3s} {'slow':>4s} {'first':>5s} {'three':>5s}  named first instead"
    ]
    for code in sorted({j.truth for j in judged if j.truth}):
        mine = [j for j in judged if j.truth == code]
        instead = Counter(j.named[0] if j.named else "(nothing)" for j in mine if not j.within(1))
        words = ", ".join(f"{name} {count}" for name, count in instead.most_common(5))
        lines.append(
            f"{code:28s} {len(mine):3d} {sum(j.detected for j in mine):4d} "
            f"{sum(j.within(1) for j in mine):5d} "
            f"{sum(j.within(3) for j in mine):5d}  {words}"
        )
    return lines


def miss_lines(judged: Sequence[Judged]) -> list[str]:
    """A line for each fault that is not among the first three, and for each accused healthy curve."""
    lines = []
    for j in judged:
        if j.within(3) or not (j.truth or j.detected):
            continue
        named = ", ".join(
            f"{code} {score:.2f} ({variant})"
            for code, score, variant in zip(j.named[:3], j.scores, j.variants, strict=False)
        )
        said = named or f"nothing: {j.reason}"
        where = f"{j.machine}{' on ' + j.base if j.base else ''}"
        lines.append(f"{j.table} {j.truth or 'healthy'} [{where}; {j.story}] -> {said}")
    return lines


def shared_folder() -> Path | None:
    """Where published tables lie, if anywhere."""
    named = os.environ.get("CLUSTERLAB_SHARED")
    above = Path(__file__).resolve().parents[2].parents
    places = [Path(named)] if named else [parent / "shared" for parent in above]
    return next((place for place in places if place.is_dir()), None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seeds", default="1", help="one or more, by commas")
    parser.add_argument("--curves", type=int, default=200)
    parser.add_argument("--healthy", type=int, default=100)
    parser.add_argument("--only", help="judge the curves of this cause alone")
    parser.add_argument("--misses", action="store_true", help="a line for each")
    parser.add_argument("--json", type=Path, help="every judgement, as lines")
    asked = parser.parse_args()
    shared = shared_folder()
    everything: list[Judged] = []
    print(f"published tables: {shared if shared is not None else 'none here'}")
    for seed in (int(word) for word in asked.seeds.split(",")):
        curves = labelled_curves(seed, asked.curves, asked.healthy, shared)
        chosen = [c for c in curves if asked.only is None or c.code == asked.only]
        begun = time.perf_counter()
        judged = []
        for done, curve in enumerate(chosen, start=1):
            judged.append(judge(curve))
            if sys.stderr.isatty():
                print(f"\r{done} of {len(chosen)}", end="", file=sys.stderr)
        took = (time.perf_counter() - begun) / max(1, len(chosen))
        figures = ", ".join(
            f"{name} {share:.1%}" + (f" (aim {AIMS[name]:.0%})" if name in AIMS else "")
            for name, share in shares(judged).items()
        )
        print(f"seed {seed}: {figures}; {took * 1e3:.0f} ms a curve", flush=True)
        everything += judged
    print("\n".join(["", *confusion(everything)]))
    if asked.misses:
        print("\n".join(["", *miss_lines(everything)]))
    if asked.json is not None:
        asked.json.write_text("".join(json.dumps(asdict(j)) + "\n" for j in everything))


if __name__ == "__main__":
    main()
