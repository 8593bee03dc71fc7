"""The files that say what a lab is and who holds it up, for `up`, `status`, `down` and the hosts inside."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass

from clusterlab.core.errors import UsageError
from clusterlab.lab.files import write
from clusterlab.lab.layout import Layout
from clusterlab.lab.namespaces import namespace_of
from clusterlab.lab.processes import process
from clusterlab.lab.spec import LabSpec, Setup

_SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Holder:
    """The processes that hold a lab up, by (pid, start time), as seen in pid namespace ``pid_namespace``.

    ``outer`` is the one on the machine; ``login`` is the lab's login host (the same in flat mode).
    """

    outer: int
    outer_start: str
    login: int
    login_start: str
    pid_namespace: str
    uid: int


def write_description(layout: Layout, spec: LabSpec, setup: Setup) -> None:
    """Record what the lab is."""
    data = {"schema": _SCHEMA, "spec": spec.to_json(), "setup": setup.to_json()}
    write(layout.description, json.dumps(data, indent=1) + "\n")


def read_description(layout: Layout) -> tuple[LabSpec, Setup]:
    """What the lab is. Raises UsageError where it was written by another version."""
    data = json.loads(layout.description.read_text(encoding="utf-8"))
    if data.get("schema") != _SCHEMA:
        raise UsageError(
            f"schema {data.get('schema')}",
            where=str(layout.description),
            expected=str(_SCHEMA),
            fix="clusterlab lab down, then up",
        )
    return LabSpec.from_json(data["spec"]), Setup.from_json(data["setup"])


def write_holder(layout: Layout, outer: int, login: int) -> None:
    """Record who holds the lab up."""
    started = {pid: found.start for pid in (outer, login) if (found := process(pid))}
    holder = Holder(
        outer=outer,
        outer_start=started.get(outer, ""),
        login=login,
        login_start=started.get(login, ""),
        pid_namespace=namespace_of("self", "pid") or "",
        uid=os.geteuid(),
    )
    write(layout.processes, json.dumps(asdict(holder)) + "\n")


def read_holder(layout: Layout) -> Holder | None:
    """Who holds the lab up; None when nobody does.

    Raises UsageError where that cannot be judged: from inside the lab, or for another user's.
    """
    try:
        holder = Holder(**json.loads(layout.processes.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise UsageError(f"not readable ({error})", where=str(layout.processes)) from error
    if holder.pid_namespace != namespace_of("self", "pid"):
        raise UsageError(
            f"lab {layout.name} was started outside of here",
            fix="run this on the machine itself, not inside a lab",
        )
    if holder.uid != os.geteuid():
        raise UsageError(
            f"lab {layout.name} belongs to uid {holder.uid}, you are uid {os.geteuid()}"
        )
    found = process(holder.login)
    return holder if found is not None and found.start == holder.login_start else None
