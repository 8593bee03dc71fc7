"""How well hunts find faults on a 4-SU SuperPOD (1,016 GPUs), and what they spend on it.

    python tests/benchmarks/bench_localise.py [--part single|curve|healthy|two|spread|all] [--runs 200]
        [--rates 0.5 0.8] [--noise 0.05] [--rounds 30] [--json]

Every run is an adaptive hunt over simulated messages: the damaged fabric's flows on its cables (d-mod-k
forwarding tables), each figure with a normal relative error. Kinds of fault: a cable between switches, a
NIC's cable, a dead NIC, a whole switch, all NICs of a host. *Top three*: the component is among the three
likeliest sets that the data tells apart; *named*: it is in the one set that is named, and nothing else is. A
set has as many components of one kind as said.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from clusterlab.topology.opening import open_fabric
from clusterlab.topology.parts import SWITCH_KINDS
from clusterlab.verdict.localise.cabling import Field
from clusterlab.verdict.localise.hunt import Budget, Hunted, hunt
from clusterlab.verdict.localise.informative import Pool, pool_of
from clusterlab.verdict.localise.types import Suspect
from tests.verdict.localise.simulated import simulated, whole_field

FABRIC = "superpod-h100-4su"
KINDS = ("cable", "nic", "dead nic", "switch", "host")
RATES = (0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)
TOP = 3


@dataclass(frozen=True)
class Fault:
    """What is broken, in the words of `topo break`, and what the answer should call it."""

    kind: str
    broken: str
    name: str
    touches: frozenset[str]


@dataclass(frozen=True)
class Ran:
    """One hunt: the place of each fault among the suspects, whether it was named, sizes and spending."""

    faults: tuple[Fault, ...]
    place: tuple[int | None, ...]
    named: tuple[bool, ...]
    accused: int
    outcome: str
    set_size: int
    rounds: int
    messages: int
    seconds: float


def some_fault(field: Field, kind: str, rate: float, draw: Random) -> Fault:
    network = field.network
    left = f":{rate:g}"
    if kind == "cable":
        cable = draw.choice([c for c in range(field.cables) if network.low[c] < network.switches])
        a, b = (network.nodes[int(end[cable])] for end in (network.low, network.high))
        number = f"#{network.number[cable]}"
        return Fault(kind, f"{a}/{b}{number}{left}", f"{a} ↔ {b}{number}", frozenset({a, b}))
    if kind in ("nic", "dead nic"):
        rank = draw.randrange(len(field.host))
        node = int(field.nodes[rank])
        leaf = network.nodes[int(network.high[network.up[1][network.up[0][node]]])]
        nic = network.nodes[node]
        down = "" if kind == "dead nic" else left
        touches = frozenset({nic, leaf, field.hosts[int(field.host[rank])]})
        return Fault(kind, f"{nic}{down}", f"{nic} ↔ {leaf}", touches)
    if kind == "switch":
        names = [d.name for d in field.fabric.network_devices if d.kind in SWITCH_KINDS]
        name = draw.choice(names)
        return Fault(kind, f"{name}{left}", f"switch {name}", frozenset({name}))
    host = draw.choice(field.hosts)
    return Fault(kind, f"{host}/nic*{left}", f"host {host}", frozenset({host}))


def run(field: Field, pool: Pool, faults: Sequence[Fault], options: Any, seed: int) -> Ran:
    measure = simulated(field, [f.broken for f in faults], noise=options.noise, seed=seed)
    began = time.monotonic()
    found = hunt(field, measure, Budget(rounds=options.rounds), pool=pool)
    return Ran(
        faults=tuple(faults),
        place=tuple(_place(found, f.name) for f in faults),
        named=tuple(any(f.name in s.components for s in found.answer.faults) for f in faults),
        accused=len(found.answer.faults),
        outcome=found.outcome,
        set_size=max((_size(s) for s in found.answer.faults), default=0),
        rounds=len(found.rounds),
        messages=sum(len(made.probes) for made in found.rounds),
        seconds=time.monotonic() - began,
    )


def _size(suspect: Suspect) -> int:
    return suspect.kinds.count(suspect.kinds[0])


def _place(found: Hunted, name: str) -> int | None:
    for place, suspect in enumerate(found.answer.ranking):
        if name in suspect.components:
            return place
    return None


def in_top(ran: Ran) -> bool:
    return all(place is not None and place < TOP for place in ran.place)


def told(title: str, runs: Sequence[Ran]) -> dict[str, Any]:
    """The figures of some runs, printed and returned."""
    figures = {
        "what": title,
        "runs": len(runs),
        "top_three": sum(map(in_top, runs)) / len(runs),
        "named": sum(all(r.named) and r.accused == len(r.faults) for r in runs) / len(runs),
        "wrongly_accused": sum(r.accused > sum(r.named) for r in runs) / len(runs),
        "largest_set": max(r.set_size for r in runs),
        "rounds_median": statistics.median(r.rounds for r in runs),
        "rounds_most": max(r.rounds for r in runs),
        "messages_median": statistics.median(r.messages for r in runs),
        "seconds_median": statistics.median(r.seconds for r in runs),
        "seconds_most": max(r.seconds for r in runs),
    }
    print(
        f"{title:<24} {len(runs):>4} runs  top three {figures['top_three']:>6.1%}  named "
        f"{figures['named']:>6.1%}  wrongly accused {figures['wrongly_accused']:>5.1%}  rounds "
        f"{figures['rounds_median']:g} (most {figures['rounds_most']}), messages "
        f"{figures['messages_median']:g}, {figures['seconds_median']:.2f} s, sets up to "
        f"{figures['largest_set']}",
        flush=True,
    )
    return figures


def single(field: Field, pool: Pool, options: Any) -> list[dict[str, Any]]:
    found = []
    for rate in options.rates:
        draw, runs = Random(100 * rate), []
        for i in range(options.runs):
            fault = some_fault(field, KINDS[i % len(KINDS)], rate, draw)
            runs.append(run(field, pool, [fault], options, seed=i))
        found += [
            told(f"{kind} at {rate:.0%}", [r for r in runs if r.faults[0].kind == kind])
            for kind in KINDS
        ]
        found.append(told(f"all at {rate:.0%}", runs))
    return found


def curve(field: Field, pool: Pool, options: Any) -> list[dict[str, Any]]:
    found = []
    kinds = [kind for kind in KINDS if kind != "dead nic"]
    for rate in RATES:
        draw, runs = Random(1000 * rate), []
        for i in range(max(len(kinds), options.runs // 5)):
            fault = some_fault(field, kinds[i % len(kinds)], rate, draw)
            runs.append(run(field, pool, [fault], options, seed=1000 + i))
        found.append(told(f"{rate:.0%} left", runs))
    return found


def healthy(field: Field, pool: Pool, options: Any) -> list[dict[str, Any]]:
    runs = [run(field, pool, [], options, seed=5000 + i) for i in range(options.runs)]
    accused = sum(r.accused > 0 for r in runs) / len(runs)
    called = sum(r.outcome == "healthy" for r in runs) / len(runs)
    print(f"nothing broken: accused {accused:.1%}, called healthy {called:.1%}")
    return [{**told("healthy", runs), "accused": accused, "called_healthy": called}]


def two(field: Field, pool: Pool, options: Any) -> list[dict[str, Any]]:
    """Two at half rate that share no part: what one hides of the other is no finding of either."""
    draw, runs = Random(7), []
    for i in range(options.runs // 2):
        first = some_fault(field, draw.choice(KINDS), 0.5, draw)
        while True:
            second = some_fault(field, draw.choice(KINDS), 0.5, draw)
            if not first.touches & second.touches:
                break
        runs.append(run(field, pool, [first, second], options, seed=9000 + i))
    return [told("two at 50%", runs)]


def spread(options: Any) -> list[dict[str, Any]]:
    """Where switches spread packets: NICs, hosts and leaves show, a cable among 32 does not."""
    field = whole_field(open_fabric(FABRIC), "adaptive")
    pool = pool_of(field)
    found = []
    for kind in KINDS:
        draw, runs = Random(11), []
        for i in range(max(2, options.runs // 40)):
            fault = some_fault(field, kind, 0.5, draw)
            runs.append(run(field, pool, [fault], options, seed=i))
        found.append(told(f"spread: {kind} at 50%", runs))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", default="all")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--rates", type=float, nargs="+", default=[0.5, 0.8], help="of single")
    parser.add_argument("--noise", type=float, default=0.05)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    field = whole_field(open_fabric(FABRIC))
    pool = pool_of(field)
    print(f"{len(field.components)} components, {len(pool.probes)} messages to choose from")
    parts = {"single": single, "curve": curve, "healthy": healthy, "two": two}
    found = []
    for name, part in parts.items():
        if options.part in (name, "all"):
            found += part(field, pool, options)
    if options.part in ("spread", "all"):
        found += spread(options)
    if options.json:
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
