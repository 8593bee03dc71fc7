"""What a hunt says: a line a round while it goes on, hunt.json, findings, and the end in words."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from clusterlab.core.findings import Finding, Severity
from clusterlab.core.jsontext import json_text
from clusterlab.records.files import write_json
from clusterlab.runs.hunting.file import HUNT, read_hunt
from clusterlab.runs.hunting.localise import finding_of, suspect_json
from clusterlab.runs.hunting.plan import HuntConfig, Ready
from clusterlab.verdict.localise.evidence import Made
from clusterlab.verdict.localise.hunt import Hunted
from clusterlab.verdict.localise.types import OF_HOSTS, Answer, Suspect

_WORDS = {
    "host": "host's free cores",
    "clock": "host's clock",
    "port": "port's state",
    "send": "message one way",
    "send_recv": "message both ways",
    "ring": "group",
}


class HuntTeller:
    """Says on stderr what each round was for, and what it made likely."""

    def __init__(self, on: Ready, config: HuntConfig) -> None:
        self._number = 0
        where = on.field.fabric.name if on.known else "no known fabric"
        _say(
            f"hunting on {where}, routing {on.field.routing}: {len(on.field.host)} ranks on "
            f"{len(on.field.hosts)} hosts, {len(on.field.components)} suspects, "
            f"{config.budget_s:g} s at most"
        )

    def told(self, made: Made, answer: Answer) -> None:
        """A round is over."""
        self._number += 1
        _say(f"round {self._number}: {counted(made)} ({made.why}); {so_far(answer)}")


def _say(text: str) -> None:
    print(f"clusterlab: {text}", file=sys.stderr, flush=True)


def counted(made: Made) -> str:
    """``4 messages both ways``."""
    ways = list(dict.fromkeys(p.way for p in made.probes))
    said = []
    for way in ways:
        many = sum(p.way == way for p in made.probes)
        word = _WORDS[way]
        if many != 1:
            word = word.replace("message", "messages").replace("host's", "hosts'")
            word = word.replace("port's state", "ports' states").replace("group", "groups")
        said.append(f"{many} {word}")
    failed = sum(
        s.rate == 0 or (p.way == "port" and s.rate < 1)
        for p, s in zip(made.probes, made.seen, strict=True)
    )
    return ", ".join(said) + (f", {failed} failed or down" if failed else "")


def so_far(answer: Answer) -> str:
    """What is most likely."""
    if answer.faults:
        return "; ".join(in_words(f) for f in answer.faults)
    if answer.ranking and answer.ranking[0].confidence > 1 - answer.healthy - 1e-9 > 0.05:
        return f"perhaps {in_words(answer.ranking[0])}"
    return f"healthy with probability {answer.healthy:.0%} as far as was looked"


def in_words(fault: Suspect) -> str:
    """``n3/nic0 ↔ leaf1 has 50% left (probability 99.9%)``."""
    left = "nothing" if fault.left < 0.05 else f"{fault.left:.0%}"
    return f"{fault.name} has {left} left (probability {100 * fault.confidence:.4g}%)"


def findings_of(found: Hunted, on: Ready) -> list[Finding]:
    """One for each fault."""
    probes = found.measured
    fabric = on.field.fabric if on.known else None
    findings = []
    for fault in found.answer.faults:
        ranks = sorted(
            {
                rank
                for i in fault.slow
                for rank in (probes[i].ranks[:1] if probes[i].way in OF_HOSTS else probes[i].ranks)
            }
        )
        finding = finding_of(fault, tuple(ranks), fabric, severity=Severity.ERROR)
        kinds = {probes[i].way for i in fault.slow}
        findings.append(replace(finding, evidence=(_evidence(fault, kinds), *finding.evidence[1:])))
    return findings


def _evidence(fault: Suspect, ways: set[Any]) -> str:
    what = "measurements"
    if ways and ways <= {"send", "send_recv"}:
        what = "messages"
    said = (
        f"{in_words(fault)}: {len(fault.slow)} of {fault.crossing} {what} that it touches show it"
    )
    if what == "messages":
        said += f": {fault.rate:.3g} GB/s where others get {fault.usual:.3g}"
    return said


def write_hunt(folder: Path, found: Hunted, on: Ready, config: HuntConfig) -> None:
    """hunt.json: what was measured, why, and what it says. Raises StorageError."""
    findings = findings_of(found, on)
    nodes = on.field.network.nodes
    write_json(
        folder / HUNT,
        {
            "schema_version": 1,
            "outcome": found.outcome,
            "fabric": on.field.fabric.name if on.known else None,
            "routing": on.field.routing,
            "sure": config.sure,
            "healthy": found.answer.healthy,
            "noise": found.answer.noise,
            "pace": found.answer.pace,
            "faults": [
                suspect_json(fault, finding.ranks)
                for fault, finding in zip(found.answer.faults, findings, strict=True)
            ],
            "ranking": [suspect_json(s) for s in found.answer.ranking[:5]],
            "left": list(found.left),
            "nics": [nodes[n] if n >= 0 else None for n in on.field.nodes.tolist()],
            "findings": [f.to_json() for f in findings],
            "rounds": [
                {
                    "why": made.why,
                    "expected_bits": made.bits,
                    "probes": [
                        {
                            "way": p.way,
                            "ranks": list(p.ranks[:1] if p.way == "port" else p.ranks),
                            "of": nodes[p.ranks[1]] if p.way == "port" else None,
                            "rate": s.rate,
                            "rate_back": s.back,
                            "noise": s.noise,
                        }
                        for p, s in zip(made.probes, made.seen, strict=True)
                    ],
                }
                for made in found.rounds
            ],
        },
    )


def write_refused(folder: Path, reason: str) -> None:
    """hunt.json of ranks on which nothing can be hunted: why, and that nothing was measured."""
    fix = (
        "start it over several hosts, or with GPUs; for one machine's ranks: clusterlab bench pairs"
    )
    finding = Finding("NOTHING_TO_HUNT", Severity.WARNING, (reason,), fix)
    write_json(
        folder / HUNT,
        {
            "schema_version": 1,
            "outcome": "open",
            "reason": reason,
            "faults": [],
            "ranking": [],
            "left": [],
            "findings": [finding.to_json()],
            "rounds": [],
        },
    )


def tell_hunt(folder: Path, *, as_json: bool) -> bool:
    """The outcome on stdout; False where the hunt came to none."""
    found = read_hunt(folder)
    if found is None:
        return False
    if as_json:
        print(json_text({**found, "run": str(folder)}), flush=True)
    else:
        print("\n".join(lines_of(found)), flush=True)
    return True


def lines_of(found: dict[str, Any]) -> list[str]:
    """The outcome for people."""
    probes = [p for made in found["rounds"] for p in made["probes"]]
    messages = sum(p["way"] in ("send", "send_recv") for p in probes)
    spent = f"{len(found['rounds'])} rounds, {messages} messages"
    lines = []
    if found["outcome"] == "healthy":
        lines.append(
            f"healthy: nothing slower than 85% of its peers, probability {found['healthy']:.1%} ({spent})"
        )
    elif found["outcome"] == "open":
        lines.append(f"no verdict: {found.get('reason') or spent}")
        lines += [f"  suspected: {_suspected(s)}" for s in found["ranking"][:3]]
    for finding in () if "reason" in found else found["findings"]:
        lines.append(f"{finding['code']}: {finding['evidence'][0]}")
        lines += [f"  {text}" for text in finding["evidence"][1:]]
        lines.append(f"  fix: {finding['fix']}")
    if found["outcome"] == "named":
        lines.append(f"({spent})")
    return lines + [f"left: {text}" for text in found["left"]]


def _suspected(suspect: dict[str, Any]) -> str:
    return f"{suspect['name']}, {suspect['left']:.0%} left, probability {suspect['confidence']:.1%}"
