"""Process 1 of a lab: the login host, where munged and slurmctld run and nodes are switched on and off.

    python -m clusterlab.lab.login_init RUN_DIR

Killing it ends the lab: with namespaces the kernel ends everything inside; in flat mode it is the
subreaper below which everything runs, and SIGTERM makes it end all of that.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clusterlab.core.errors import ClusterlabError
from clusterlab.lab import control, mounts, network, render
from clusterlab.lab.commands import module_environment, python_module, run_commands, run_ip
from clusterlab.lab.description import read_description
from clusterlab.lab.kernel import (
    adopt_orphans,
    end_tree_on_sigterm,
    set_hostname,
    with_death_signal,
)
from clusterlab.lab.layout import Layout
from clusterlab.lab.namespaces import unshare, wait_for_network
from clusterlab.lab.processes import kill_tree, listening, spawn
from clusterlab.lab.spec import LOGIN_HOST, LabSpec, Setup, node_index, node_names
from clusterlab.lab.switches import Switches, read_data_network

_STEP_S = 0.005


class LoginHost:
    """The daemons and nodes of one lab, and the answers to what is asked about them."""

    def __init__(self, layout: Layout, spec: LabSpec, setup: Setup) -> None:
        self.layout = layout
        self.spec = spec
        self.setup = setup
        self.running: dict[int, str] = {}
        self.ended: dict[str, str] = {}
        network = read_data_network(layout)
        self.switches = Switches(layout, network) if network else None

    def isolate(self) -> None:
        """Make this process the lab's login host, apart from the machine."""
        if self.spec.flat:
            adopt_orphans()
            end_tree_on_sigterm()
            return
        set_hostname(LOGIN_HOST)
        run_ip(network.login_links())
        wanted = (*mounts.SYSTEM_FILES, Path("/etc/slurm"))
        present = [path for path in wanted if path.exists()]
        run_commands(mounts.login_mounts(self.setup, self.layout, present))
        if self.switches:
            self.switches.start()

    def start_munged(self) -> None:
        """Start munged, where the lab has one."""
        if self.spec.auth == "munge":
            self._daemon("munged", _munged(self.layout), {})

    def advance(self) -> bool:
        """Take the next step of coming up if its time has come; whether slurmctld is ready.

        munged answers, then slurmctld starts and listens, then the nodes' slurmd start: one that
        registers earlier backs off for 9 to 17 s.
        """
        if self.layout.controller_ready.exists():
            return True
        if "slurmctld" not in self.running.values():
            ready = self.spec.auth != "munge" or _accepts(self.layout.munge_socket)
            if ready and "slurmctld" not in self.ended:
                # -c: no state of an earlier lab. -i: start whatever state there is.
                environment = render.daemon_environment(self.setup, self.layout)
                self._daemon("slurmctld", ["slurmctld", "-D", "-c", "-i"], environment)
        elif listening(render.controller_port(self.spec, self.setup)):
            self.layout.controller_ready.touch()
            return True
        return False

    def boot(self, name: str) -> dict[str, Any]:
        """Switch node ``name`` on."""
        index = node_index(self.spec, name)
        if name in self.running.values():
            return {"ok": True, "already": True}
        command = python_module("clusterlab.lab.node_init", str(self.layout.run_dir), name)
        if not self.spec.flat:
            command = unshare(command)
        self.layout.slurmd_ready(name).unlink(missing_ok=True)
        pid = spawn(command, module_environment(), self.layout.log / f"{name}.log")
        self.running[pid] = name
        if not self.spec.flat:
            if not wait_for_network(pid, timeout_s=5):
                raise ClusterlabError(f"{name} got no network namespace", where=name)
            if name in self.ended:
                # The link of its last life goes with the old namespace, but only some time later.
                with contextlib.suppress(ClusterlabError):
                    run_ip(network.detach_links(self.spec, index))
            if self.switches:
                self.switches.attach(name, pid)
            # Last: the node goes on as soon as this link is there.
            run_ip(network.attach_links(self.spec, index, pid))
        self.ended.pop(name, None)
        return {"ok": True, "already": False}

    def kill(self, name: str) -> dict[str, Any]:
        """Cut the power of node ``name``: every process on it ends at once."""
        node_index(self.spec, name)
        for pid, running in list(self.running.items()):
            if running == name:
                gone = kill_tree(pid)
                self.reap()
                return {"ok": gone} if gone else {"error": f"processes of {name} did not end"}
        return {"error": f"{name} is off already"}

    def change_network(self) -> dict[str, Any]:
        """Take over the data network as its file has it now."""
        if self.switches is None:
            return {"error": "this lab has no fabric"}
        self.switches.apply()
        return {"ok": True}

    def states(self) -> dict[str, Any]:
        """What Slurm says of each node."""
        command = ["sinfo", "--noheader", "--Node", "--format=%N %T"]
        environment = module_environment() | {"SLURM_CONF": str(self.layout.slurm_conf)}
        try:
            result = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=8, check=False
            )
        except subprocess.TimeoutExpired:
            return {"states": {}, "error": "slurmctld does not answer"}
        pairs = (line.split() for line in result.stdout.splitlines())
        return {"states": dict(pairs), "error": result.stderr.strip()}

    def status(self) -> dict[str, Any]:
        """Daemons and nodes: running, or how they ended."""
        on = set(self.running.values())
        names = [name for name in ("munged", "slurmctld") if name in on or name in self.ended]
        return {
            "daemons": {name: self.ended.get(name, "running") for name in names},
            "nodes": {name: self._power(name) for name in node_names(self.spec)},
            "controller_ready": self.layout.controller_ready.exists(),
        }

    def _power(self, name: str) -> str:
        if name not in self.running.values():
            return "off"
        return "on" if self.layout.slurmd_ready(name).exists() else "booting"

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to one request on the control socket."""
        actions: dict[str, Callable[[], dict[str, Any]]] = {
            "status": self.status,
            "states": self.states,
            "boot": lambda: self.boot(request["node"]),
            "kill": lambda: self.kill(request["node"]),
            "network": self.change_network,
        }
        try:
            return actions[request["do"]]()
        except ClusterlabError as error:
            return {"error": str(error)}

    def reap(self) -> None:
        """Collect every child that ended, our own and adopted ones."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if name := self.running.pop(pid, None):
                if self.switches:
                    self.switches.detach(name)
                code = os.waitstatus_to_exitcode(status)
                self.ended[name] = f"exit status {code}" if code >= 0 else f"signal {-code}"
                print(f"{name} ended: {self.ended[name]}", flush=True)

    def _daemon(self, name: str, command: list[str], environment: dict[str, str]) -> None:
        if self.spec.flat:
            command = with_death_signal(command)
        log = self.layout.log / f"{name}.out"
        path = module_environment()["PATH"]
        self.running[spawn(command, {"PATH": path, **environment}, log)] = name


def _munged(layout: Layout) -> list[str]:
    # --force: any uid may run it, and the folder's owner need not be root.
    return [
        "munged",
        "--foreground",
        "--force",
        "--num-threads=4",
        f"--key-file={layout.munge / 'key'}",
        f"--socket={layout.munge_socket}",
        f"--pid-file={layout.munge / 'pid'}",
        f"--log-file={layout.log / 'munged.log'}",
        f"--seed-file={layout.munge / 'seed'}",
    ]


def _accepts(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        return client.connect_ex(str(path)) == 0


def serve(host: LoginHost, server: socket.socket) -> None:
    """Bring the daemons up, answer requests and collect children, for ever."""
    waker, wake = socket.socketpair()
    wake.setblocking(False)
    waker.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    coming_up = True
    while True:
        host.reap()
        coming_up = coming_up and not host.advance()
        ready, _, _ = select.select([server, waker], [], [], _STEP_S if coming_up else None)
        if waker in ready:
            waker.recv(4096)
        if server in ready:
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError, ValueError):
                control.reply(connection, host.answer(control.receive(connection)))


def main() -> None:
    """Bring the lab up and hold it."""
    layout = Layout(Path(sys.argv[1]))
    spec, setup = read_description(layout)
    host = LoginHost(layout, spec, setup)
    host.isolate()
    server = control.listen(layout.control)
    host.start_munged()
    for name in node_names(spec):
        host.boot(name)
    serve(host, server)


if __name__ == "__main__":
    try:
        main()
    except ClusterlabError as error:
        sys.exit(f"clusterlab: {error}")
