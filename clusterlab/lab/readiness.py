"""Watching a lab come up: what it is doing, whether it is done, why it never will be."""

from __future__ import annotations

import time
from collections.abc import Callable

from clusterlab.core.errors import DeadlineError
from clusterlab.lab import control
from clusterlab.lab.description import read_holder
from clusterlab.lab.layout import Layout

Progress = Callable[[str], None]

_POLL_S = 0.03


def silent(_: str) -> None:
    """Progress for those who do not look."""


def wait_until_idle(layout: Layout, timeout_s: float, progress: Progress) -> None:
    """Return when Slurm calls every node idle.

    Raises DeadlineError with the end of the log when a part of the lab died, or after ``timeout_s``.
    """
    deadline = time.monotonic() + timeout_s
    said = ""
    while True:
        text, idle = _phase(layout)
        if text != said:
            progress(text)
            said = text
        if idle:
            return
        if time.monotonic() > deadline:
            raise DeadlineError(
                f"the nodes were not idle after {timeout_s:g} s ({said})",
                where=f"lab {layout.name}",
                fix=f"see the logs in {layout.log}",
            )
        time.sleep(_POLL_S)


def _phase(layout: Layout) -> tuple[str, bool]:
    """What the lab is doing, and whether all nodes are idle. Raises DeadlineError for a dead part."""
    if read_holder(layout) is None:
        raise _died(layout, "the login host", "lab.log")
    if not layout.control.exists():
        return "starting the login host", False
    alive = control.ask(layout.control, "status")
    for daemon, state in alive["daemons"].items():
        if state != "running":
            raise _died(layout, f"{daemon} ({state})", f"{daemon}.out", f"{daemon}.log")
    for node, power in alive["nodes"].items():
        if alive["controller_ready"] and power == "off":
            raise _died(layout, node, f"{node}.log")
    if not alive["controller_ready"]:
        return "starting munged and slurmctld", False
    states = control.ask(layout.control, "states")["states"]
    # Slurm may call a node idle a moment before we have seen its slurmd listen.
    idle = sum(
        power == "on" and states.get(node) == "idle" for node, power in alive["nodes"].items()
    )
    return f"{idle} of {len(alive['nodes'])} nodes idle", idle == len(alive["nodes"])


def _died(layout: Layout, who: str, *logs: str) -> DeadlineError:
    tails = filter(None, (_tail(layout, log) for log in logs))
    return DeadlineError(
        f"{who} ended while the lab came up: {next(tails, 'it logged nothing')}",
        where=f"lab {layout.name}",
        fix=f"see the logs in {layout.log}",
    )


def _tail(layout: Layout, log: str) -> str:
    """The last lines of a log, on one line."""
    try:
        lines = (layout.log / log).read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return ""
    return " | ".join(line.strip() for line in lines[-3:])
