"""What is typed on the command line of a prediction, checked: variables, releases, timing, backend."""

from __future__ import annotations

import re
from typing import get_args

from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import unknown
from clusterlab.cost.issue import ISSUE_OF_TIMING
from clusterlab.cost.nccl.constants import typed_version
from clusterlab.cost.nccl.overrides import parse_overrides
from clusterlab.cost.nccl.value_types import check_values
from clusterlab.cost.types import Issue
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import PRETENDED


def checked_variables(words: tuple[str, ...]) -> dict[str, str]:
    """``NAME=VALUE`` words as a mapping of NCCL's variables. Raises UsageError naming the word."""
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not re.fullmatch(r"(NCCL|RCCL)_[A-Z0-9_]+", name):
            raise UsageError(
                f"{word!r}",
                where="-x",
                expected="NAME=VALUE with a variable of NCCL, as NCCL_ALGO=ring",
            )
        if not equals or not value.strip():
            raise UsageError(
                f"{name} has no value", where="-x", expected=f"{name}=VALUE",
                fix="the environment is not read: write the value",
            )  # fmt: skip
        if found.get(name, value) != value:
            raise UsageError(
                f"{name} is {found[name]!r} and {value!r}", where="-x", expected="one value each"
            )
        found[name] = value
    check_values(found)
    parse_overrides(found)
    return found


def version_named(text: str | None) -> str | None:
    """A release as typed. Raises UsageError for other text."""
    return None if text is None else typed_version(text, where="--nccl-version")


def issue_named(text: str | None) -> Issue:
    """The way calls are issued; nccl-tests' unless said. ``direct``, as a run's rows call nccl-tests' way, is
    understood. Raises UsageError with the nearest name.
    """
    if text in ISSUE_OF_TIMING:
        return ISSUE_OF_TIMING[text]
    known: tuple[Issue, ...] = get_args(Issue)
    for issue in known:
        if issue == (text or "library"):
            return issue
    raise unknown("timing", text or "", known, where="--timing")


def check_backend(asked: str) -> None:
    """Raises UsageError for what is no backend."""
    if asked not in ("auto", "gloo", "nccl"):
        raise UsageError(f"{asked!r}", where="--backend", expected="auto, gloo or nccl")


def backend_of(asked: str, fabric: Fabric) -> str:
    """NCCL where there are GPUs, also those whose model nobody says; a lab's pretended GPUs run none.
    Raises UsageError for NCCL without GPUs.
    """
    real = _real_gpus(fabric)
    if asked == "nccl" and not real:
        gpus = "pretended GPUs, on which no NCCL runs" if fabric.models("gpu") else "no GPUs"
        raise UsageError(
            f"the fabric has {gpus}",
            where=f"--backend nccl on {fabric.name}",
            expected="auto or gloo",
        )
    if asked != "auto":
        return asked
    return "nccl" if real else "gloo"


def _real_gpus(fabric: Fabric) -> bool:
    return bool(fabric.models("gpu").keys() - {PRETENDED})


def refuse_unmeasured(fabric: Fabric) -> None:
    """gloo's time is the work of the hosts' cores, which only a calibration of that host knows
    (cost/gloo/host.py). Links alone would make it next to nothing, but for a lab's, which are slowed down.
    """
    if _real_gpus(fabric):
        raise UsageError(
            f"gloo on {fabric.name}: its time is the work of the hosts' cores, which nobody measured",
            where="--backend", expected="nccl (what auto takes for GPUs)",
            fix="for gloo on such a host, run there: clusterlab predict --fabric host --backend gloo",
        )  # fmt: skip
