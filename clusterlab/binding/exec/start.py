"""Carry out a plan: bind this process, set its environment, start the command."""

from __future__ import annotations

import os
from collections.abc import Sequence

from clusterlab.binding.exec.command import become, run_tagged
from clusterlab.binding.exec.plan import Plan, Wanted, make_plan
from clusterlab.binding.exec.pump import complain
from clusterlab.core.order import number_list

TAGS = {"both": (1, 2), "stdout": (1,), "stderr": (2,), "none": ()}
"""Which streams are tagged."""


def start(command: Sequence[str], wanted: Wanted, *, tag: str, verbose: bool) -> int:
    """Bind, and run ``command`` with ``tag``ged streams; its exit code. ``none``: becomes the command.

    What was asked for and cannot be done is said on stderr, and so is a rank that cannot be made out; the
    command starts all the same.
    """
    plan = make_plan(os.environ, wanted)
    said = [line for line in plan.lines() if verbose]
    if wanted.asked or verbose or plan.world_size is None:
        said += [f"clusterlab exec: not bound: {what}" for what in plan.unfulfilled]
    said += _bind(plan)
    for line in said:
        complain(f"[{plan.tag}] {line}")
    environ = {**os.environ, **plan.environment}
    if not TAGS[tag]:
        return become(command, environ)
    return run_tagged(command, environ, f"[{plan.tag}] ", TAGS[tag])


def _bind(plan: Plan) -> list[str]:
    """Take the plan's CPUs; what came of it, if anything went wrong."""
    if plan.cpus is None:
        return []
    try:
        os.sched_setaffinity(0, plan.cpus)
    except OSError as error:  # the cgroup's set has changed since it was read
        return [f"clusterlab exec: not bound: CPUs {number_list(plan.cpus)}: {error.strerror}"]
    return []
