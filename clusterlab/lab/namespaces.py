"""Linux namespaces: how a host of the lab is cut off from the machine."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from clusterlab.lab.processes import process, wait_until


def unshare(command: Sequence[str], *, user: bool = False) -> list[str]:
    """``command`` as process 1 of new pid, net, mount, uts and ipc namespaces.

    ``user`` adds a user namespace in which we are uid 0. When process 1 ends, the kernel ends every
    other process in it and drops the mounts and links.
    """
    return [
        "unshare",
        *(["--user", "--map-root-user"] if user else []),
        "--net",
        "--uts",
        "--ipc",
        "--mount",
        "--propagation=private",
        "--pid",
        "--fork",
        "--kill-child=SIGKILL",
        "--mount-proc",
        "--",
        *command,
    ]


def namespace_of(pid: int | str, kind: str) -> str | None:
    """The identity of a process's namespace (``net``, ``pid``, …); None when it cannot be seen."""
    try:
        return str(Path(f"/proc/{pid}/ns/{kind}").readlink())
    except OSError:
        return None


def wait_for_network(pid: int, *, timeout_s: float) -> bool:
    """Wait until process ``pid`` is in another network namespace than we are."""
    ours = namespace_of("self", "net")

    def moved() -> bool:
        return namespace_of(pid, "net") not in (ours, None) or process(pid) is None

    return wait_until(moved, timeout_s=timeout_s, step_s=0.001) and process(pid) is not None


_PROBE = (
    "mount -t tmpfs tmpfs /tmp && ip link add br0 type bridge && "
    "ip link add v0 type veth peer name v1 && unshare --net --mount --pid --fork --mount-proc true"
)


def probe(*, user: bool) -> str | None:
    """Try what a lab needs of the kernel; None when all of it works, else what was said."""
    try:
        result = subprocess.run(
            unshare(["sh", "-c", _PROBE], user=user),
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
            env={"PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin", "LC_ALL": "C"},
        )
    except FileNotFoundError:
        return "unshare: command not found"
    if result.returncode == 0:
        return None
    said = (result.stderr or result.stdout).strip().splitlines()
    return said[-1] if said else f"unshare ended with status {result.returncode}"
