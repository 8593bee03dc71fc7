"""Exported topology.conf under a real slurmctld."""

from __future__ import annotations

import getpass
import os
import re
import socket
import subprocess
import time
from pathlib import Path

import pytest

from clusterlab.formats.hostlist import compress_hostlist, expand_hostlist
from clusterlab.lab.labs import Lab, run
from clusterlab.topology.design.load import load_fabric
from clusterlab.topology.exporting.slurm import slurm_tree
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.importing.slurm_topology import read_slurm_topology
from clusterlab.topology.parts import Device, Link
from tests.slurm.conftest import MakeLab


def rail_fabric(nodes: int, per_unit: int) -> Fabric:
    """Nodes with two NICs on two leaves per unit, and two spines above all leaves."""
    devices: list[Device] = []
    links: list[Link] = []
    for i in range(nodes):
        for rail in (0, 1):
            nic = f"n{i}/nic{rail}"
            devices.append(Device(nic, "nic", host=f"n{i}", rail=rail))
            leaf = f"leaf{i // per_unit * 2 + rail}"
            links += [Link(nic, leaf, "ib", 48.0), Link(leaf, nic, "ib", 48.0)]
    leaves = [f"leaf{i}" for i in range(nodes // per_unit * 2)]
    devices += [Device(leaf, "leaf") for leaf in leaves]
    devices += [Device(f"spine{i}", "spine") for i in (0, 1)]
    for leaf in leaves:
        for spine in ("spine0", "spine1"):
            links += [Link(leaf, spine, "ib", 48.0), Link(spine, leaf, "ib", 48.0)]
    return Fabric("rails", tuple(devices), tuple(links))


def shown(lab: Lab) -> dict[str, dict[str, str]]:
    """``scontrol show topology`` as fields by switch."""
    found = run(lab, ["scontrol", "show", "topology"])
    assert found.returncode == 0, found.stderr
    lines = [dict(re.findall(r"(\w+)=(\S*)", line)) for line in found.stdout.splitlines()]
    return {fields["SwitchName"]: fields for fields in lines if "SwitchName" in fields}


def test_slurmctld_takes_the_tree_of_a_rail_fabric_and_places_jobs_by_it(make_lab: MakeLab) -> None:
    conf = slurm_tree(rail_fabric(4, 2))
    lab = make_lab(nodes=4, topology_conf=conf)
    switches = shown(lab)
    assert {name: fields["Nodes"] for name, fields in switches.items()} == {
        "su1": "n[0-1]",
        "su2": "n[2-3]",
        "spine1": "n[0-3]",
    }
    assert switches["spine1"]["Switches"] == "su[1-2]"
    assert (switches["su1"]["Level"], switches["spine1"]["Level"]) == ("0", "1")
    placed = run(lab, ["srun", "-N2", "--switches=1", "hostname"])
    assert sorted(placed.stdout.split()) in (["n0", "n1"], ["n2", "n3"]), placed.stderr
    # What slurmctld shows reads back as the same tree.
    text = run(lab, ["cat", str(lab.layout.etc / "topology.conf")]).stdout
    fabric = read_slurm_topology(text, file="topology.conf").fabric
    assert {d.name for d in fabric.devices} == {"n0", "n1", "n2", "n3", *switches}


_BARE_CONF = """\
ClusterName=tree
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
AuthType=auth/none
CredType=cred/none
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdSpoolDir={folder}/spool
SlurmctldLogFile={folder}/slurmctld.log
ProctrackType=proctrack/linuxproc
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
MpiDefault=none
TopologyPlugin=topology/tree
NodeName={nodes} CPUs=1 NodeAddr=127.0.0.1 Port=1
PartitionName=main Nodes=ALL
"""


def topology_of_bare_slurmctld(folder: Path, conf: str, nodes: str) -> str:
    """What a slurmctld without any slurmd shows of ``conf``."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (folder / "state").mkdir()
    (folder / "topology.conf").write_text(conf)
    slurm_conf = folder / "slurm.conf"
    user = getpass.getuser()
    slurm_conf.write_text(_BARE_CONF.format(port=port, user=user, folder=folder, nodes=nodes))
    environment = {**os.environ, "SLURM_CONF": str(slurm_conf)}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    daemon = subprocess.Popen(
        ["slurmctld", "-D", "-f", str(slurm_conf)],
        env=environment,
        **quiet,  # type: ignore[call-overload]
    )
    try:
        deadline = time.monotonic() + 30
        while daemon.poll() is None and time.monotonic() < deadline:
            found = subprocess.run(
                ["scontrol", "show", "topology"],
                env=environment,
                capture_output=True,
                text=True,
                timeout=30,
                check=False,
            )
            if found.returncode == 0:
                return found.stdout
            time.sleep(0.1)
        pytest.fail((folder / "slurmctld.log").read_text()[-2000:])
    finally:
        daemon.kill()
        daemon.wait(timeout=10)


@pytest.mark.parametrize(
    "design", ["dgx-h100-2node", "superpod-h100-4su", "superpod-b200-16su", "rail-only"]
)
def test_slurmctld_takes_the_trees_of_shipped_designs(
    can_hold_flat_labs: None, tmp_path: Path, design: str
) -> None:
    fabric = load_fabric(design)
    conf = slurm_tree(fabric)
    shown_text = topology_of_bare_slurmctld(tmp_path, conf, compress_hostlist(fabric.hosts))
    nodes = dict(re.findall(r"SwitchName=(\S+) .*?Nodes=(\S+)", shown_text))
    exported = read_slurm_topology(conf, file="topology.conf").fabric
    assert set(nodes) == {d.name for d in exported.devices if d.kind != "host"}
    assert max(len(expand_hostlist(n)) for n in nodes.values()) == len(fabric.hosts)
