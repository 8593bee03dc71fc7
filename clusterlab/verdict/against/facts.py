"""What differs between two sides: configuration, versions, environment, placement, fabric. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clusterlab.verdict.against.side import Side

_OF_EVERY_RUN = (
    "SLURM_JOB", "SLURM_STEP", "SLURM_TASK_PID", "SLURM_LAUNCH_NODE", "SLURM_SRUN_COMM", "SLURM_GTIDS",
    "PMIX_", "CLUSTERLAB_RUN", "NCCL_DEBUG_FILE", "NCCL_GRAPH_DUMP_FILE", "NCCL_TOPO_DUMP_FILE",
    "NCCL_COMM_ID",
)  # fmt: skip
"""Variables that name one job, one step or one file: other in every run, and no difference."""


@dataclass(frozen=True, slots=True)
class Difference:
    """``first`` and ``second`` are the values of both sides, None where one has none."""

    group: str
    name: str
    first: Any
    second: Any


def differences(first: Side, second: Side) -> tuple[Difference, ...]:
    """Every fact that the two do not share, by group, in order of name. What another tool's file leaves
    unsaid is no difference.
    """
    found = []
    one_sided = not (first.foreign or second.foreign)
    for group in dict.fromkeys((*first.facts, *second.facts)):
        ours, theirs = _flat(first.facts.get(group, {})), _flat(second.facts.get(group, {}))
        if not ours or not theirs:  # one side's file says nothing of it
            continue
        for name in sorted({*ours, *theirs}):
            if name.startswith(_OF_EVERY_RUN):
                continue
            mine, other = ours.get(name), theirs.get(name)
            if mine != other and (one_sided or not (mine is None or other is None)):
                found.append(Difference(group, name, mine, other))
    return tuple(found)


def _flat(facts: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in facts.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{before}{name}.")
        else:
            flat[f"{before}{name}"] = value
    return flat


def value_words(value: Any) -> str:
    """A value for people; a long list by its ends."""
    if value is None:
        return "–"
    if isinstance(value, Sequence) and not isinstance(value, str):
        if not value:
            return "none"
        texts = [str(one) for one in value]
        text = ", ".join(texts)
        return text if len(text) <= 40 else f"{texts[0]} … {texts[-1]} ({len(texts)})"
    return str(value)
