"""Which mounts make a host of the lab: what is its own, what stays shared. Plans, not actions. Pure.

The machine's file system is the shared file system. Only PRIVATE_ROOTS are each node's own, and
directories below them that a task cannot do without (the virtual environment, the checkout, the
working directory) are bound back in.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from clusterlab.lab.layout import Layout
from clusterlab.lab.spec import Setup

Command = tuple[str, ...]

PRIVATE_ROOTS = (Path("/tmp"), Path("/dev/shm"))

SYSTEM_FILES = (Path("/etc/hosts"), Path("/etc/nsswitch.conf"))
"""Replaced inside the lab by files of the same name in the lab's etc/."""


def shared_directories(candidates: Iterable[Path]) -> tuple[str, ...]:
    """The candidates (absolute, resolved) that lie below a private root, without those inside another.

    A private root itself cannot be shared: it would no longer be private.
    """
    below = {path for path in candidates if any(root in path.parents for root in PRIVATE_ROOTS)}
    return tuple(sorted(str(path) for path in below if not below.intersection(path.parents)))


def hidden_from_nodes(path: Path, shared: Iterable[str]) -> bool:
    """Whether a node has something else, or nothing, where the login host has ``path``."""
    if not any(root == path or root in path.parents for root in PRIVATE_ROOTS):
        return False
    return not any(Path(kept) == path or Path(kept) in path.parents for kept in shared)


def login_mounts(setup: Setup, layout: Layout, present: Iterable[Path]) -> list[Command]:
    """Commands for the lab's outer namespace; ``present`` are the system paths that exist.

    /etc/slurm becomes the lab's, so that a tool that ignores SLURM_CONF finds it too.
    """
    there = set(present)
    commands = [bind(layout.etc / path.name, path) for path in SYSTEM_FILES if path in there]
    if Path("/etc/slurm") in there:
        commands.append(bind(layout.etc, Path("/etc/slurm")))
    if setup.pmix_lib:
        commands.append(bind(layout.pmix_lib, Path(setup.pmix_lib)))
    commands += private_root(layout.run_dir / "shm", Path("/dev/shm"), setup.shared, memory=True)
    return commands


def node_mounts(setup: Setup, layout: Layout, name: str) -> list[Command]:
    """Commands for one node's namespace: its own /tmp (on disk, inspectable) and /dev/shm (memory)."""
    # The shm stage is used first: it must not carry /tmp's binds, nor be hidden by the new /tmp.
    return [
        *private_root(layout.node(name) / "shm", Path("/dev/shm"), setup.shared, memory=True),
        *private_root(layout.node_tmp(name), Path("/tmp"), setup.shared, memory=False),
    ]


def private_root(stage: Path, root: Path, shared: Iterable[str], *, memory: bool) -> list[Command]:
    """Put ``stage`` over ``root``, with the shared directories below ``root`` still visible.

    They are bound into the stage first, while their old paths can still be reached.
    """
    commands: list[Command] = []
    if memory:
        commands.append(("mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", str(stage)))
    for kept in map(Path, shared):
        if root in kept.parents:
            target = stage / kept.relative_to(root)
            commands += [("mkdir", "-p", str(target)), bind(kept, target)]
    commands.append(bind(stage, root))
    return commands


def bind(source: Path, target: Path) -> Command:
    """Bind with everything mounted below: a user namespace may not uncover what a mount hides."""
    return ("mount", "--rbind", str(source), str(target))
