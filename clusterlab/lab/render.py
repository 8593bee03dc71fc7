"""The configuration texts of a lab. Pure: LabSpec, Setup and Layout in, text out."""

from __future__ import annotations

import re
from collections.abc import Sequence

from clusterlab.lab.layout import Layout
from clusterlab.lab.spec import (
    LOGIN_HOST,
    LabSpec,
    Setup,
    gpu_socket,
    hosts_of,
    login_address,
    node_index,
    node_names,
)
from clusterlab.lab.wires import Nic

LOGIN_PORT = 6817
NODE_PORT = 6818
"""The ports of slurmctld and slurmd where they have a network namespace of their own: Slurm's own."""

_SLURM_CONF = """\
ClusterName=lab
SlurmctldHost={controller}
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser={user}
SlurmdUser={user}
{auth}
StateSaveLocation={state}
SlurmdSpoolDir={spool}
TmpFS={tmp}
SlurmctldPidFile={state}/slurmctld.pid
SlurmdPidFile={node}/slurmd.pid
SlurmctldLogFile={log}/slurmctld.log
SlurmdLogFile={log}/slurmd.%n.log
SlurmctldDebug=verbose
SlurmdDebug=verbose
ProctrackType=proctrack/linuxproc
TaskPlugin={task_plugin}
TaskProlog={task_prolog}
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
SwitchType=switch/none
MpiDefault=none
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
SlurmdParameters=config_overrides
ReturnToService=2
SlurmctldTimeout=30
SlurmdTimeout={slurmd_timeout_s}
KillWait={kill_wait_s}
InactiveLimit=0
MinJobAge=3600
JobRequeue=1
{extra}{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE OverSubscribe=NO State=UP
"""


def slurm_conf(spec: LabSpec, setup: Setup, layout: Layout) -> str:
    """slurm.conf for slurmctld and every slurmd.

    ``config_overrides``: slurmctld believes CPUs and memory as written here, whatever the machine has.
    ``TmpFS`` must differ per node: Slurm's PMIx plugin makes a directory of the same name in each.
    """
    return _SLURM_CONF.format(
        controller=f"{setup.hostname}(127.0.0.1)"
        if spec.flat
        else f"{LOGIN_HOST}({login_address()})",
        user=setup.user,
        controller_port=controller_port(spec, setup),
        node_port=NODE_PORT,
        auth=_auth(spec, layout),
        state=layout.state,
        node=layout.node("%n"),
        spool=layout.node_spool("%n"),
        # In a namespace /tmp is the node's own, and short: PMIx puts unix sockets below it.
        tmp=layout.node_tmp("%n") if spec.flat else "/tmp",
        log=layout.log,
        task_plugin="task/none" if setup.affinity == "none" else "task/affinity",
        task_prolog=layout.task_prolog,
        slurmd_timeout_s=spec.slurmd_timeout_s,
        kill_wait_s=spec.kill_wait_s,
        extra="".join(f"{line}\n" for line in (*_topology(spec), *spec.extra_conf)),
        nodes="\n".join(_node_lines(spec, setup)),
    )


def _topology(spec: LabSpec) -> tuple[str, ...]:
    return ("TopologyPlugin=topology/tree",) if spec.topology_conf else ()


def controller_port(spec: LabSpec, setup: Setup) -> int:
    """Where slurmctld listens."""
    return setup.ports[0] if spec.flat else LOGIN_PORT


def node_port(spec: LabSpec, setup: Setup, name: str) -> int:
    """Where slurmd of node ``name`` listens."""
    return setup.ports[1 + node_index(spec, name)] if spec.flat else NODE_PORT


def _auth(spec: LabSpec, layout: Layout) -> str:
    socket = f"socket={layout.munge_socket}," if spec.auth == "munge" else ""
    return (
        f"AuthType=auth/{spec.auth}\nCredType=cred/{spec.auth}\n"
        f"AuthInfo={socket}cred_expire={spec.cred_expire_s}"
    )


def _node_lines(spec: LabSpec, setup: Setup) -> list[str]:
    kind = f"{spec.gpu_type}:" if spec.gpu_type else ""
    hardware = (
        f"CPUs={spec.cpus} Boards=1 SocketsPerBoard={spec.sockets} "
        f"CoresPerSocket={spec.cores_per_socket} ThreadsPerCore=1 RealMemory={spec.memory_mb}"
        + (f" Gres=gpu:{kind}{spec.gpus}" if spec.gpus else "")
        + " State=UNKNOWN"
    )
    names = node_names(spec)
    if spec.flat:
        return [
            f"NodeName={name} NodeHostname={setup.hostname} NodeAddr=127.0.0.1 "
            f"Port={node_port(spec, setup, name)} {hardware}"
            for name in names
        ]
    compact = f"n[0-{spec.nodes - 1}]" if spec.nodes > 1 else names[0]
    return [f"NodeName={compact} {hardware}"]


def gres_conf(spec: LabSpec, setup: Setup) -> str:
    """gres.conf: one line per GPU, so that each has its own socket's cores and its links.

    Real GPUs get neither: which cores are theirs is for the machine to say. Without Flags a step gets the
    masks of every vendor (gres.conf(5)), which Ray and vLLM refuse.
    """
    kind = f"Type={spec.gpu_type} " if spec.gpu_type else ""
    lines = []
    for gpu, device in enumerate(setup.devices):
        line = f"Name=gpu {kind}File={device} Flags=nvidia_gpu_env"
        if not spec.real_gpus:
            first = gpu_socket(spec, gpu) * spec.cores_per_socket
            links = ",".join(
                "-1" if other == gpu else str(spec.nvlinks) for other in range(spec.gpus)
            )
            line += f" Cores={first}-{first + spec.cores_per_socket - 1} Links={links}"
        lines.append(line + "\n")
    return "".join(lines)


def cgroup_conf() -> str:
    """cgroup.conf: no cgroup is made.

    Slurm 22.05 has no ``disabled``; the v1 plugin without automount does nothing, on cgroup v2 too,
    where the v2 plugin would want systemd.
    """
    return "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n"


def hosts(spec: LabSpec, nics: Sequence[Nic] = ()) -> str:
    """/etc/hosts of every host in the lab. A NIC of the data network is called n0-nic0.

    The v4-mapped forms answer the reverse look-up that torch's TCPStore, an IPv6 socket, makes for
    each connection; without them each costs a warning.
    """
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost"]
    every = [*hosts_of(spec), *((nic.address, f"{nic.node}-{nic.name}") for nic in nics)]
    lines += [f"{address} {name}" for address, name in every]
    lines += [f"::ffff:{address} {name}" for address, name in every]
    return "\n".join(lines) + "\n"


def nsswitch(machine: str) -> str:
    """The machine's nsswitch.conf with host names from files only: no DNS time-outs in a lab."""
    if re.search(r"(?m)^\s*hosts:", machine):
        return re.sub(r"(?m)^\s*hosts:.*$", "hosts: files", machine)
    return machine + ("" if machine.endswith("\n") or not machine else "\n") + "hosts: files\n"


def task_prolog(spec: LabSpec, setup: Setup, layout: Layout) -> str:
    """The TaskProlog: its ``export`` lines reach every task's environment, here the affinity shim.

    With a fabric also the NIC of the task's GPU, unless the user has chosen an interface.
    """
    lines = ["#!/bin/sh"]
    if setup.affinity == "shim":
        lines += [
            f'cat {layout.run_dir}/"$SLURMD_NODENAME"/task-exports',
        ]
    libraries = [str(layout.shim)] if setup.affinity == "shim" else []
    libraries += [str(layout.source_nic)] if setup.source_nic else []
    if libraries:
        preload = ":".join(libraries)
        lines.append(f'echo export LD_PRELOAD={preload}"${{LD_PRELOAD:+:$LD_PRELOAD}}"')
    if spec.fabric:
        nics = f'{layout.run_dir}/"$SLURMD_NODENAME"/{layout.NICS}'
        lines.append(f'[ -n "$GLOO_SOCKET_IFNAME" ] || cat {nics}/$((SLURM_LOCALID % {spec.gpus}))')
    return "\n".join(lines) + "\n"


def task_nic(nic: Nic) -> str:
    """What the TaskProlog prints for a task whose GPU uses ``nic``."""
    return f"export GLOO_SOCKET_IFNAME={nic.name}\nexport SOURCENIC={nic.address}\n"


def task_exports(spec: LabSpec, setup: Setup, layout: Layout, name: str) -> str:
    """What the TaskProlog prints on node ``name``."""
    variables = affinity_environment(spec, setup, layout, name)
    return "".join(f"export {key}={value}\n" for key, value in variables.items())


def affinity_environment(spec: LabSpec, setup: Setup, layout: Layout, name: str) -> dict[str, str]:
    """What the affinity shim reads on node ``name``; empty without the shim.

    Each node starts at another real CPU, so that on a large machine nodes do not share CPUs.
    """
    if setup.affinity != "shim":
        return {}
    start = node_index(spec, name) * spec.cpus % len(setup.real_cpus)
    rotated = setup.real_cpus[start:] + setup.real_cpus[:start]
    return {
        "FAKEAFF_DIR": str(layout.node_affinity(name)),
        "FAKEAFF_NCPU": str(spec.cpus),
        "FAKEAFF_REAL": ",".join(map(str, rotated)),
    }


def slurmd_environment(spec: LabSpec, setup: Setup, layout: Layout, name: str) -> dict[str, str]:
    """What slurmd of node ``name`` needs beyond PATH to see its pretend CPUs.

    HWLOC_SYNTHETIC tells hwloc, and so slurmd, task/affinity and gres.conf's Cores=, of CPUs that
    the machine lacks.
    """
    environment = daemon_environment(setup, layout)
    if not (spec.real_gpus and setup.affinity == "native"):
        environment["HWLOC_SYNTHETIC"] = (
            f"pack:{spec.sockets} numa:1 core:{spec.cores_per_socket} pu:1"
        )
    return environment | affinity_environment(spec, setup, layout, name)


def daemon_environment(setup: Setup, layout: Layout) -> dict[str, str]:
    """What any Slurm daemon needs: its configuration, and setgroups() where that is denied."""
    environment = {"SLURM_CONF": str(layout.slurm_conf)}
    if setup.affinity == "shim" or setup.user_namespace:
        environment["LD_PRELOAD"] = str(layout.shim)
    if setup.user_namespace:
        environment["FAKEAFF_USERNS"] = "1"
    return environment
