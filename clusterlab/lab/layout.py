"""Where the files of a lab lie: one run directory per lab. Pure, but for the environment's defaults."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from clusterlab.core.errors import UsageError

DEFAULT_NAME = "default"

# A unix socket's path has at most 107 characters. The longest below the run directory: slurmstepd's
# n199/spool/n199_<job>.<step>; flat mode's PMIx
# n199/tmp/spmix_appdir_<uid>_<job>.<step>/stepd.slurm.pmix.<job>.<step>
_MAX_RUN_DIR = 64
_MAX_RUN_DIR_FLAT = 40


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths of one lab below ``run_dir``."""

    DESIGN: ClassVar[str] = "design.yaml"
    NICS: ClassVar[str] = "nics"

    run_dir: Path

    @property
    def name(self) -> str:
        """The lab's name: its directory's."""
        return self.run_dir.name

    @property
    def etc(self) -> Path:
        """Slurm's configuration."""
        return self.run_dir / "etc"

    @property
    def slurm_conf(self) -> Path:
        """What SLURM_CONF points to."""
        return self.etc / "slurm.conf"

    @property
    def task_prolog(self) -> Path:
        """The TaskProlog script."""
        return self.etc / "taskprolog"

    @property
    def log(self) -> Path:
        """Logs of every daemon."""
        return self.run_dir / "log"

    @property
    def state(self) -> Path:
        """slurmctld's state."""
        return self.run_dir / "state"

    @property
    def devices(self) -> Path:
        """Stand-ins for GPU device files."""
        return self.run_dir / "dev"

    @property
    def munge(self) -> Path:
        """Key, socket and seed of this lab's munged."""
        return self.run_dir / "munge"

    @property
    def munge_socket(self) -> Path:
        """The one socket through which all hosts of the lab reach munged."""
        return self.munge / "sock"

    @property
    def pmix_lib(self) -> Path:
        """A copy of PMIx's library directory that has the link which the system's lacks."""
        return self.run_dir / "pmix"

    @property
    def shim(self) -> Path:
        """The affinity shim."""
        return self.run_dir / "libfakeaff.so"

    @property
    def description(self) -> Path:
        """LabSpec and Setup, for the processes inside."""
        return self.run_dir / "lab.json"

    @property
    def network(self) -> Path:
        """The data network of a lab with a fabric, as it is now."""
        return self.run_dir / "network.json"

    @property
    def design(self) -> Path:
        """The lab's fabric as it came up, where it is no design that travels with clusterlab."""
        return self.run_dir / self.DESIGN

    @property
    def fabric(self) -> Path:
        """The lab's fabric as it is now: what --fabric takes."""
        return self.run_dir / "fabric.yaml"

    @property
    def source_nic(self) -> Path:
        """The library that sends what a rank sends by the rank's own NIC."""
        return self.run_dir / "libsourcenic.so"

    @property
    def processes(self) -> Path:
        """The ids of the processes that hold the lab up."""
        return self.run_dir / "processes.json"

    @property
    def control(self) -> Path:
        """The socket that takes `kill`, `boot` and `status`."""
        return self.run_dir / "control"

    @property
    def controller_ready(self) -> Path:
        """Exists once slurmctld listens: a slurmd that registers earlier backs off for 9 to 17 s."""
        return self.run_dir / "controller-ready"

    def task_exports(self, name: str) -> Path:
        """What the TaskProlog prints on one node."""
        return self.node(name) / "task-exports"

    def task_nics(self, name: str) -> Path:
        """What the TaskProlog prints on one node for its task of local rank 0, 1, …: a file each."""
        return self.node(name) / self.NICS

    def node(self, name: str) -> Path:
        """The directory of one node."""
        return self.run_dir / name

    def slurmd_ready(self, name: str) -> Path:
        """Exists while the node's slurmd listens: until then Slurm may call a booting node idle."""
        return self.node(name) / "slurmd-ready"

    def node_spool(self, name: str) -> Path:
        """slurmd's spool directory (``%n`` as a name gives slurm.conf's pattern)."""
        return self.node(name) / "spool"

    def node_tmp(self, name: str) -> Path:
        """What the node sees as /tmp."""
        return self.node(name) / "tmp"

    def node_affinity(self, name: str) -> Path:
        """Where the affinity shim keeps the masks of the node's processes."""
        return self.node(name) / "aff"


def default_base(environ: Mapping[str, str], uid: int) -> Path:
    """Where labs lie: $CLUSTERLAB_LABS, else $XDG_RUNTIME_DIR if it is ours, else /tmp."""
    if given := environ.get("CLUSTERLAB_LABS"):
        return Path(given)
    runtime = Path(environ.get("XDG_RUNTIME_DIR") or "/nonexistent")
    if runtime.is_dir() and runtime.stat().st_uid == uid:
        return runtime / "clusterlab-lab"
    return Path("/tmp") / f"clusterlab-lab-{uid}"


def find_layout(name: str, base: Path | None = None) -> Layout:
    """The layout of lab ``name``, below ``base`` or the default. Raises UsageError for a bad name."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,19}", name):
        raise UsageError(
            f"lab name {name!r}",
            where="--name",
            expected="at most 20 lower-case letters, digits and '-'",
        )
    folder = default_base(os.environ, os.geteuid()) if base is None else base
    return Layout(folder.resolve() / name)


def check_base(layout: Layout, *, flat: bool) -> None:
    """Raise UsageError where sockets would not fit, or the folder belongs to somebody else."""
    limit = _MAX_RUN_DIR_FLAT if flat else _MAX_RUN_DIR
    if len(str(layout.run_dir)) > limit:
        raise UsageError(
            f"the path has {len(str(layout.run_dir))} characters",
            where=str(layout.run_dir),
            expected=f"at most {limit}: the sockets of Slurm and PMIx lie below it",
            fix="set CLUSTERLAB_LABS to a shorter folder",
        )
    if not re.fullmatch(r"[A-Za-z0-9_./+@-]+", str(layout.run_dir)):
        raise UsageError(
            "Slurm's configuration cannot hold this path",
            where=str(layout.run_dir),
            expected="letters, digits and any of _ . / + @ -",
            fix="set CLUSTERLAB_LABS to another folder",
        )
    for folder in (layout.run_dir.parent, layout.run_dir):
        try:
            found = folder.lstat()
        except FileNotFoundError:
            continue
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise UsageError(
                "is not a directory of yours",
                where=str(folder),
                fix="set CLUSTERLAB_LABS to a folder of your own",
            )
