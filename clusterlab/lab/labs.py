"""A lab that is up: finding it, running commands in it, asking after it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clusterlab.core.errors import DeadlineError, UsageError
from clusterlab.lab import control
from clusterlab.lab.commands import search_path
from clusterlab.lab.description import Holder, read_description, read_holder
from clusterlab.lab.layout import DEFAULT_NAME, Layout, find_layout
from clusterlab.lab.processes import command_line, descendants, process
from clusterlab.lab.spec import LOGIN_HOST, LabSpec, Setup, node_address, node_index, node_names
from clusterlab.lab.switches import SWITCH_MARK, read_data_network

_IDLE = ("idle", "mixed", "allocated", "completing")


@dataclass(frozen=True, slots=True)
class Lab:
    """A lab that is up."""

    layout: Layout
    spec: LabSpec
    setup: Setup
    holder: Holder

    @property
    def name(self) -> str:
        """The lab's name."""
        return self.layout.name

    @property
    def slurm_conf(self) -> Path:
        """What SLURM_CONF is inside."""
        return self.layout.slurm_conf


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """One node: ``power`` is on, booting or off, ``state`` what Slurm says (``idle``, ``down*``, …)."""

    name: str
    power: str
    state: str
    address: str
    gpus: int
    cpus: int

    @property
    def serving(self) -> bool:
        """Whether Slurm can run, or runs, jobs on it."""
        return self.power == "on" and self.state in _IDLE


@dataclass(frozen=True, slots=True)
class LabStatus:
    """A lab as it is now. ``daemons``: ``running`` or how each ended. ``fabric`` to ``broken`` are of the
    data network, empty without: the design it came up with, what --fabric takes, and what is broken.
    """

    name: str
    up: bool
    run_dir: str
    flat: bool = False
    slurm_conf: str = ""
    daemons: Mapping[str, str] | None = None
    nodes: tuple[NodeStatus, ...] = ()
    fabric: str = ""
    routing: str = ""
    fabric_file: str = ""
    broken: tuple[str, ...] = ()

    @property
    def healthy(self) -> bool:
        """Whether every daemon runs and every node serves."""
        running = all(state == "running" for state in (self.daemons or {}).values())
        return self.up and running and all(node.serving for node in self.nodes)


def load(layout: Layout) -> Lab | None:
    """The lab at ``layout``; None when it is not up."""
    holder = read_holder(layout)
    if holder is None:
        return None
    return Lab(layout, *read_description(layout), holder)


def find(name: str = DEFAULT_NAME, *, base: Path | None = None) -> Lab:
    """The lab called ``name``. Raises UsageError when it is not up."""
    lab = load(find_layout(name, base))
    if lab is None:
        option = "" if name == DEFAULT_NAME else f" --name {name}"
        raise UsageError(f"lab {name} is not up", fix=f"clusterlab lab up{option}")
    return lab


def names(base: Path | None = None) -> list[str]:
    """Labs that have a run directory below ``base`` or the default."""
    folder = find_layout(DEFAULT_NAME, base).run_dir.parent
    if not folder.is_dir():
        return []
    return sorted(path.name for path in folder.iterdir() if path.is_dir())


def status(lab: Lab) -> LabStatus:
    """The lab as it is now. Raises DeadlineError when it does not answer."""
    alive = control.ask(lab.layout.control, "status")
    states = control.ask(lab.layout.control, "states")["states"]
    network = read_data_network(lab.layout)
    nodes = tuple(
        NodeStatus(
            name=name,
            power=alive["nodes"][name],
            state=states.get(name, "unknown"),
            address="127.0.0.1" if lab.spec.flat else node_address(index),
            gpus=lab.spec.gpus,
            cpus=lab.spec.cpus,
        )
        for index, name in enumerate(node_names(lab.spec))
    )
    return LabStatus(
        name=lab.name,
        up=True,
        run_dir=str(lab.layout.run_dir),
        flat=lab.spec.flat,
        slurm_conf=str(lab.slurm_conf),
        daemons=alive["daemons"],
        nodes=nodes,
        fabric=lab.spec.fabric,
        routing=lab.spec.routing if network else "",
        fabric_file=str(lab.layout.fabric) if network else "",
        broken=network.broken if network else (),
    )


def environment(lab: Lab, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """``base`` (default: this process's environment) as it should be inside the lab.

    Variables of a Slurm job that we ourselves run in would send srun to that job: they are left out.
    SBATCH_GPUS_PER_NODE fits job files to the lab's nodes, as a site's own defaults would (sbatch's
    command line still wins). With a fabric CLUSTERLAB_FABRIC names it as it is now.
    """
    own = dict(os.environ if base is None else base)
    if "SLURM_JOB_ID" in own:
        own = {k: v for k, v in own.items() if not k.startswith(("SLURM_", "SLURMD_", "PMIX_"))}
    own.setdefault("SBATCH_GPUS_PER_NODE", str(lab.spec.gpus))
    if lab.spec.fabric:
        own.setdefault("CLUSTERLAB_FABRIC", str(lab.layout.fabric))
    return own | {"SLURM_CONF": str(lab.slurm_conf), "PATH": search_path(own)}


def enter_command(
    lab: Lab, command: Sequence[str], *, node: str | None = None, cwd: Path | None = None
) -> list[str]:
    """The command line that runs ``command`` on the login host (``ctl``), or on ``node`` (or a switch).

    It gives back the command's exit status (128+n where signal n ended it) and hands on signals; run
    it with ``environment(lab)``. Raises UsageError for an unknown node, DeadlineError for one that
    is off.
    """
    request: dict[str, Any] = {
        "pid": 0,
        "start": "",
        "user": lab.setup.user_namespace,
        "cwd": str(Path.cwd() if cwd is None else cwd),
        "host": node or LOGIN_HOST,
    }
    elsewhere = node if node not in (None, LOGIN_HOST) else None
    if elsewhere is not None and elsewhere not in switch_names(lab):
        node_index(lab.spec, elsewhere)
    if not lab.spec.flat:
        target = lab.holder.login if elsewhere is None else _holder_of(lab, elsewhere)
        found = process(target)
        request |= {"pid": target, "start": found.start if found else ""}
    script = str(Path(__file__).with_name("enter.py"))
    return [sys.executable, "-I", "-S", script, json.dumps(request), *command]


def switch_names(lab: Lab) -> tuple[str, ...]:
    """The switches of the lab's fabric; none without one."""
    network = read_data_network(lab.layout)
    return tuple(network.switches) if network else ()


def _holder_of(lab: Lab, name: str) -> int:
    """The machine's pid of process 1 of a node, or of the process that holds a switch: the one whose
    command line says so.
    """
    mark = SWITCH_MARK if name in switch_names(lab) else "clusterlab.lab.node_init"
    wanted = [mark, str(lab.layout.run_dir), name]
    for pid in descendants(lab.holder.login):
        words = command_line(pid)
        # `unshare`, its parent, has the same words behind its own.
        if words[-3:] == wanted and not words[0].endswith("unshare"):
            return pid
    raise DeadlineError(f"node {name} is off", fix=f"clusterlab lab boot-node {name}")


def run(
    lab: Lab,
    command: Sequence[str],
    *,
    node: str | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 60.0,
) -> subprocess.CompletedProcess[str]:
    """Run ``command`` in the lab and capture what it prints. Raises subprocess.TimeoutExpired.

    ``env`` is added to this process's environment.
    """
    return subprocess.run(
        enter_command(lab, command, node=node, cwd=cwd),
        env=environment(lab) | dict(env or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
