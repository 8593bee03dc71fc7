"""Process 1 of one node of a lab: makes it a host of its own, then runs slurmd.

    python -m clusterlab.lab.node_init RUN_DIR NAME

Killing it is cutting the node's power.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from clusterlab.core.errors import ClusterlabError
from clusterlab.lab import mounts, network, render
from clusterlab.lab.commands import module_environment, run_commands, run_ip
from clusterlab.lab.description import read_description
from clusterlab.lab.files import make_directory, remove_tree
from clusterlab.lab.kernel import (
    adopt_orphans,
    end_tree_on_sigterm,
    end_with_parent,
    set_hostname,
    with_death_signal,
)
from clusterlab.lab.layout import Layout
from clusterlab.lab.processes import listening, process, spawn, wait_until
from clusterlab.lab.spec import LabSpec, Setup, node_index

_INTERFACE_S = 10.0
# `up` has a deadline of its own, and takes the lab down at it: these only end a forgotten node.
_CONTROLLER_S = 600.0
_SLURMD_S = 600.0


def isolate(layout: Layout, spec: LabSpec, setup: Setup, name: str) -> None:
    """Give the node its name, its own /tmp and /dev/shm, and its address."""
    set_hostname(name)
    run_commands(mounts.node_mounts(setup, layout, name))
    # /sys still shows the machine's interfaces; /proc/self/net shows ours.
    interfaces = Path("/proc/self/net/dev")
    if not wait_until(
        lambda: f"{network.INTERFACE}:" in interfaces.read_text(encoding="ascii"),
        timeout_s=_INTERFACE_S,
    ):
        raise ClusterlabError(f"no {network.INTERFACE} after {_INTERFACE_S:g} s", where=name)
    run_ip(network.node_links(node_index(spec, name)))


def fresh_directories(layout: Layout, name: str) -> None:
    """Empty the node's local file systems, as a boot does."""
    for folder in (layout.node_tmp(name), layout.node_affinity(name)):
        remove_tree(folder)
        make_directory(folder, mode=0o1777)


def hold(layout: Layout, name: str, slurmd: int) -> None:
    """Collect every process that ends on this node, for ever."""
    while True:
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            time.sleep(0.2)
            continue
        if pid == slurmd:
            layout.slurmd_ready(name).unlink(missing_ok=True)
            print(f"slurmd ended: {os.waitstatus_to_exitcode(status)}", flush=True)


def main() -> None:
    """Boot the node and hold it."""
    layout, name = Layout(Path(sys.argv[1])), sys.argv[2]
    spec, setup = read_description(layout)
    fresh_directories(layout, name)
    if spec.flat:
        adopt_orphans()
        end_tree_on_sigterm()
        end_with_parent()
    else:
        isolate(layout, spec, setup, name)
    if not wait_until(layout.controller_ready.exists, timeout_s=_CONTROLLER_S, step_s=0.01):
        raise ClusterlabError(f"slurmctld was not ready after {_CONTROLLER_S:g} s", where=name)
    for left in layout.node_spool(name).glob("stepd.*"):
        left.unlink()  # sockets of steps that lost their node: a requeued job would find them in use
    command = ["slurmd", "-D", "-N", name]
    environment = render.slurmd_environment(spec, setup, layout, name)
    slurmd = spawn(
        with_death_signal(command) if spec.flat else command,
        {"PATH": module_environment()["PATH"], **environment},
        layout.log / f"slurmd.{name}.out",
    )
    port = render.node_port(spec, setup, name)
    if wait_until(lambda: listening(port) or process(slurmd) is None, timeout_s=_SLURMD_S):
        layout.slurmd_ready(name).touch()
    hold(layout, name, slurmd)


if __name__ == "__main__":
    try:
        main()
    except ClusterlabError as error:
        sys.exit(f"clusterlab: {error}")
