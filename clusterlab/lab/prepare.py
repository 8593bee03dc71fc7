"""Everything a lab needs on disk before its first process starts."""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from clusterlab.core.errors import UsageError
from clusterlab.lab import render
from clusterlab.lab.description import write_description
from clusterlab.lab.fabric_files import write_fabric, write_network
from clusterlab.lab.files import make_directory, write
from clusterlab.lab.layout import Layout
from clusterlab.lab.spec import LabSpec, Setup, node_names
from clusterlab.lab.wires import DataNetwork

if TYPE_CHECKING:
    from clusterlab.lab.fabric_of_lab import LabFabric


def prepare(
    layout: Layout,
    spec: LabSpec,
    setup: Setup,
    compiler: str | None,
    fabric: LabFabric | None = None,
) -> None:
    """Write the lab's directories, configuration, key, pretend GPUs and shim below ``run_dir``."""
    _directories(layout, spec)
    network = fabric.network() if fabric else None
    _configuration(layout, spec, setup, network)
    if fabric and network:
        write_fabric(layout, fabric)
        write_network(layout, network)
    if spec.auth == "munge":
        _munge_key(layout)
    if not spec.real_gpus:
        _pretend_gpus(setup)
    if setup.pmix_lib:
        _pmix_library(layout, setup)
    if compiler and (setup.affinity == "shim" or setup.user_namespace):
        _compile_shim(layout, compiler)
    if compiler and setup.source_nic:
        _compile(compiler, "source_nic.c", layout.source_nic)
    write_description(layout, spec, setup)


def _directories(layout: Layout, spec: LabSpec) -> None:
    make_directory(layout.run_dir)
    for folder in (layout.etc, layout.log, layout.state, layout.devices, layout.run_dir / "shm"):
        make_directory(folder)
    for name in node_names(spec):
        for folder in (layout.node(name), layout.node_spool(name), layout.node(name) / "shm"):
            make_directory(folder)


def _configuration(
    layout: Layout, spec: LabSpec, setup: Setup, network: DataNetwork | None
) -> None:
    machine_nsswitch = Path("/etc/nsswitch.conf")
    own = machine_nsswitch.read_text(encoding="utf-8") if machine_nsswitch.exists() else ""
    texts = {
        "slurm.conf": render.slurm_conf(spec, setup, layout),
        "gres.conf": render.gres_conf(spec, setup),
        "cgroup.conf": render.cgroup_conf(),
        # Over /etc/slurm goes the lab's etc/: a plugstack.conf of the machine must not act in it.
        "plugstack.conf": "",
        "hosts": render.hosts(spec, network.nics if network else ()),
        "nsswitch.conf": render.nsswitch(own),
    }
    if spec.topology_conf:
        texts["topology.conf"] = spec.topology_conf
    for name, text in texts.items():
        write(layout.etc / name, text)
    write(layout.task_prolog, render.task_prolog(spec, setup, layout), mode=0o755)
    for name in node_names(spec):
        write(layout.task_exports(name), render.task_exports(spec, setup, layout, name))


def _munge_key(layout: Layout) -> None:
    make_directory(layout.munge)
    key = layout.munge / "key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(1024))


def _pretend_gpus(setup: Setup) -> None:
    """Links to /dev/null: slurmd wants a device, and silently gives no GPU for a plain file."""
    for device in setup.devices:
        Path(device).symlink_to("/dev/null")


def _pmix_library(layout: Layout, setup: Setup) -> None:
    """A copy of PMIx's library directory with the link that Slurm's plugin opens."""
    shutil.copytree(setup.pmix_lib, layout.pmix_lib, symlinks=True)
    link = layout.pmix_lib / "libpmix.so"
    link.unlink(missing_ok=True)
    link.symlink_to("libpmix.so.2")


def _compile_shim(layout: Layout, compiler: str) -> None:
    _compile(compiler, "fakeaff.c", layout.shim)


def _compile(compiler: str, name: str, library: Path) -> None:
    """Compile the C file ``name`` of this package, whose source stays beside the library."""
    source = library.with_name(name)
    write(source, resources.files("clusterlab.lab").joinpath(name).read_text(encoding="utf-8"))
    command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(source)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if result.returncode:
        raise UsageError(
            f"the C compiler cannot compile {name}: {result.stderr.strip()}",
            where=compiler,
            fix="apt-get install gcc libc6-dev",
        )
