"""Bringing labs up and down, and cutting and restoring the power of a node."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from clusterlab.core.errors import ClusterlabError, DeadlineError, StorageError, UsageError
from clusterlab.lab import control
from clusterlab.lab.commands import module_environment, python_module
from clusterlab.lab.description import read_description, read_holder, write_holder
from clusterlab.lab.doctor import require
from clusterlab.lab.files import locked, remove_tree
from clusterlab.lab.labs import Lab, load, status
from clusterlab.lab.layout import DEFAULT_NAME, Layout, check_base, find_layout
from clusterlab.lab.machine import Machine, observe, resolve
from clusterlab.lab.namespaces import unshare
from clusterlab.lab.prepare import prepare
from clusterlab.lab.processes import descendants, kill_tree, process, spawn, wait_until
from clusterlab.lab.readiness import Progress, silent, wait_until_idle
from clusterlab.lab.spec import LabSpec, Setup, node_index

if TYPE_CHECKING:  # a lab without a fabric comes up without numpy and YAML
    from clusterlab.lab.fabric_of_lab import LabFabric

DEFAULT_TIMEOUT_S = 60.0


def up(
    spec: LabSpec,
    *,
    name: str = DEFAULT_NAME,
    base: Path | None = None,
    share: Iterable[Path] = (),
    fabric: LabFabric | None = None,
    machine: Machine | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    progress: Progress = silent,
) -> Lab:
    """Bring a lab up and wait until every node is idle; the lab of the same spec that is up already.

    ``share`` are directories below a node-local root (/tmp, /dev/shm) that the nodes must see, beside
    those of ``needed_directories``; ``fabric`` is that of ``spec``. Raises UsageError (machine lacks
    something, another lab of this name is up) or DeadlineError (a daemon died, or ``timeout_s`` passed);
    nothing is left running.
    """
    machine = observe() if machine is None else machine
    layout = find_layout(name, base)
    check_base(layout, flat=spec.flat)
    if load(layout) is None:
        for warning in require(machine, flat=spec.flat):
            progress(f"warning: {warning.name}: {warning.detail}; {warning.fix}")
    with locked(layout.run_dir):
        if running := load(layout):
            return _same(running, spec)
        progress("writing configuration")
        setup = _write(layout, spec, machine, share, fabric)
        try:
            _start(layout, user_namespace=setup.user_namespace, flat=spec.flat)
            wait_until_idle(layout, timeout_s, progress)
            lab = load(layout)
            if lab is None:
                raise DeadlineError("it ended as soon as it was up", where=f"lab {name}")
            return lab
        except BaseException:
            # Ctrl-C too: daemons must not stay. The logs do, until the next `up` or `down`.
            _stop(layout)
            raise


def needed_directories() -> tuple[Path, ...]:
    """Where this Python, this package, the working directory, $HOME and $CLUSTERLAB_RUNS lie."""
    texts = [sys.prefix, sys.base_prefix, *filter(os.path.isdir, sys.path)]
    texts += [os.environ.get("HOME", ""), os.environ.get("CLUSTERLAB_RUNS", "")]
    paths = [Path(text) for text in texts if text]
    paths += [Path(__file__).parent.parent.parent, Path.cwd()]
    # As it is spelled, and what it is: a virtual environment's python is found by its spelling.
    return tuple(path for p in paths if p.is_absolute() and p.is_dir() for path in {p, p.resolve()})


def down(*, name: str = DEFAULT_NAME, base: Path | None = None) -> bool:
    """Take the lab down and remove its run directory; whether it was up."""
    layout = find_layout(name, base)
    if not layout.run_dir.exists():
        return False
    read_holder(layout)  # Another user's lab, or one seen from inside, is refused here.
    with locked(layout.run_dir):
        was_up = _stop(layout)
        remove_tree(layout.run_dir)
    if base is None and "CLUSTERLAB_LABS" not in os.environ:
        # Ours, where no other lab is in it; a folder that the user named stays.
        with contextlib.suppress(OSError):
            layout.run_dir.parent.rmdir()
    return was_up


def kill_node(lab: Lab, name: str) -> None:
    """Cut the power of node ``name``: no process on it gets a warning. Raises UsageError if it is off."""
    node_index(lab.spec, name)
    answer = control.ask(lab.layout.control, "kill", node=name)
    if "error" in answer:
        raise UsageError(answer["error"], where=f"lab {lab.name}")


def boot_node(
    lab: Lab, name: str, *, timeout_s: float = DEFAULT_TIMEOUT_S, progress: Progress = silent
) -> bool:
    """Switch node ``name`` on and wait until Slurm uses it; False when it was on and serving.

    Raises DeadlineError when it does not serve within ``timeout_s``.
    """
    node_index(lab.spec, name)
    answer = control.ask(lab.layout.control, "boot", node=name)
    if "error" in answer:
        raise DeadlineError(answer["error"], where=f"lab {lab.name}")
    if not answer["already"]:
        progress(f"{name} boots")

    def serves() -> bool:
        return next(node for node in status(lab).nodes if node.name == name).serving

    if not wait_until(serves, timeout_s=timeout_s, step_s=0.1):
        state = next(node for node in status(lab).nodes if node.name == name).state
        raise DeadlineError(
            f"{name} is {state} {timeout_s:g} s after it was switched on",
            where=f"lab {lab.name}",
            fix=f"see {lab.layout.log}/slurmd.{name}.log",
        )
    return not answer["already"]


def _same(running: Lab, spec: LabSpec) -> Lab:
    if running.spec != spec:
        ours, theirs = spec.to_json(), running.spec.to_json()
        other = ", ".join(f"{k} {theirs[k]} not {ours[k]}" for k in ours if ours[k] != theirs[k])
        raise UsageError(
            f"lab {running.name} is up with another configuration ({other})",
            fix="clusterlab lab down first, or choose another --name",
        )
    return running


def _write(
    layout: Layout,
    spec: LabSpec,
    machine: Machine,
    share: Iterable[Path],
    fabric: LabFabric | None,
) -> Setup:
    """Put everything on disk that the lab's processes need."""
    _empty(layout)
    ports = _free_ports(spec.nodes + 1) if spec.flat else ()
    wanted = (*needed_directories(), *(path.resolve() for path in share))
    several = fabric is not None and fabric.several_nics
    setup = resolve(spec, machine, layout, ports=ports, share=wanted, several_nics=several)
    try:
        prepare(layout, spec, setup, machine.compiler, fabric)
    except OSError as error:
        raise StorageError(
            f"cannot be written: {error.strerror}",
            where=str(error.filename or layout.run_dir),
            fix="set CLUSTERLAB_LABS to a folder with room",
        ) from error
    return setup


def _empty(layout: Layout) -> None:
    """Clear what a lab that died has left, without giving up the lock on the directory."""
    for path in layout.run_dir.iterdir():
        if path.is_dir() and not path.is_symlink():
            remove_tree(path)
        else:
            path.unlink()


def _free_ports(count: int) -> tuple[int, ...]:
    """TCP ports that nobody uses now, below the range from which the kernel gives ports away."""
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    found: list[int] = []
    # Start at another place per process, so that labs that start together do not meet.
    start = 10000 + os.getpid() * 61 % 10000
    for port in [*range(start, lowest), *range(1025, start)]:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("", port))
            found.append(port)
        if len(found) == count:
            return tuple(found)
    raise UsageError(f"no {count} free TCP ports below {lowest}", where="lab")


def _start(layout: Layout, *, user_namespace: bool, flat: bool) -> None:
    command = python_module("clusterlab.lab.login_init", str(layout.run_dir))
    if not flat:
        command = unshare(command, user=user_namespace)
    outer = spawn(command, module_environment(), layout.log / "lab.log")
    # At once: whatever happens to us, `down` can find it.
    write_holder(layout, outer, outer)
    if not flat:
        wait_until(lambda: bool(descendants(outer)) or process(outer) is None, timeout_s=5)
        write_holder(layout, outer, next(iter(descendants(outer)), outer))


def _stop(layout: Layout) -> bool:
    """End every process of the lab; whether it was up. Raises ClusterlabError if some survive."""
    holder = read_holder(layout)
    if holder is None:
        return False
    spec, _ = read_description(layout)
    if spec.flat:
        os.kill(holder.login, signal.SIGTERM)
        if not wait_until(lambda: process(holder.login) is None, timeout_s=10):
            kill_tree(holder.login)
    else:
        # Process 1 of the pid namespace: the kernel ends the rest, and it is gone only after them.
        os.kill(holder.login, signal.SIGKILL)
    gone = wait_until(
        lambda: process(holder.login) is None and process(holder.outer) is None, timeout_s=10
    )
    with contextlib.suppress(ChildProcessError):
        # Where `up` ran in this very process, nobody else collects it.
        os.waitpid(holder.outer, os.WNOHANG)
    if not gone:
        raise ClusterlabError(f"processes of lab {layout.name} do not end", where=str(holder.login))
    layout.processes.unlink(missing_ok=True)
    return True
