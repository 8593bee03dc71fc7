"""What this machine lacks for a lab, and the command that mends each."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from clusterlab.core.errors import UsageError
from clusterlab.lab.commands import which
from clusterlab.lab.machine import Machine
from clusterlab.lab.namespaces import probe

OK, WARNING, MISSING = "ok", "warning", "missing"

_PACKAGES = {
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "slurmstepd": "slurmd",
    "srun": "slurm-client",
    "sbatch": "slurm-client",
    "sinfo": "slurm-client",
    "scontrol": "slurm-client",
    "munged": "munge",
}
# Debian's split: authentication and PMIx plugins are a package of their own, as is the PMIx library.
_ALWAYS = ("slurm-wlm-basic-plugins", "libpmix2")
_PLUGINS = ("/usr/lib/*/slurm-wlm", "/usr/lib64/slurm", "/usr/lib/slurm", "/usr/local/lib/slurm")


@dataclass(frozen=True, slots=True)
class Check:
    """One thing a lab needs. ``status`` is ok, warning (the lab comes up with less) or missing."""

    name: str
    status: str
    detail: str
    fix: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def examine(machine: Machine, *, flat: bool) -> list[Check]:
    """Everything a lab needs of this machine, in the order to mend it."""
    slurm = _slurm()
    checks = [slurm]
    if slurm.status == OK:
        checks += [_munge(), _pmix_plugin()]
    if slurm.status == OK and checks[-1].status == OK:
        checks.append(_pmix_library(machine, flat=flat))
    if flat:
        checks.append(_program("setpriv", "util-linux"))
    else:
        checks += [_program("ip", "iproute2"), _namespaces(machine)]
    checks.append(_compiler(machine, flat=flat))
    return checks


def require(machine: Machine, *, flat: bool) -> list[Check]:
    """The warnings there are. Raises UsageError listing whatever is missing, each with its fix."""
    checks = examine(machine, flat=flat)
    missing = [check for check in checks if check.status == MISSING]
    if missing:
        lines = [f"  {c.name}: {c.detail}\n    {c.fix}" for c in missing]
        raise UsageError("this machine cannot hold a lab yet:\n" + "\n".join(lines))
    return [check for check in checks if check.status == WARNING]


def _install(packages: Iterable[str]) -> str:
    names = " ".join(dict.fromkeys(packages))
    if which("apt-get"):
        return f"apt-get install -y --no-install-recommends {names}"
    return f"install what Debian calls {names} (Slurm 22.05 or newer, built with munge and PMIx)"


def _slurm() -> Check:
    absent = [program for program in _PACKAGES if which(program) is None]
    # Packages unpacked by hand: Debian's alternatives (slurmd -> slurmd-wlm) were not set up.
    unlinked = {program: found for program in absent if (found := which(f"{program}-wlm"))}
    if absent and len(unlinked) == len(absent):
        links = "; ".join(f"ln -s {p}-wlm {Path(f).parent / p}" for p, f in unlinked.items())
        return Check("Slurm", MISSING, f"no program {', '.join(absent)} but {absent[0]}-wlm", links)
    if absent:
        packages = [_PACKAGES[p] for p in absent] + list(_ALWAYS)
        return Check("Slurm", MISSING, f"no program {', '.join(absent)}", _install(packages))
    said, works = _output(["slurmd", "-V"])
    if not works:
        return Check("Slurm", MISSING, said, "install the library it names")
    return Check("Slurm", OK, said)


def _munge() -> Check:
    said, works = _output(["munged", "--version"])
    if not works:
        return Check("munge", MISSING, said, "install the library it names")
    if not _plugin("auth_munge.so"):
        return Check("munge", MISSING, "Slurm has no plugin auth/munge", _install(_ALWAYS))
    return Check("munge", OK, said.partition(" (")[0])


def _pmix_plugin() -> Check:
    if not _plugin("mpi_pmix*.so"):
        return Check("PMIx plugin", WARNING, "srun --mpi=pmix will not work", _install(_ALWAYS))
    return Check("PMIx plugin", OK, "mpi/pmix")


def _pmix_library(machine: Machine, *, flat: bool) -> Check:
    """Slurm opens the library only when a step starts, and a slurmd that cannot hangs: so look now."""
    name = "PMIx library"
    unlinked = machine.pmix_lib_without_link
    if unlinked is not None and flat:
        what = f"{unlinked}/libpmix.so is not there: every srun --mpi=pmix would hang"
        return Check(name, MISSING, what, f"ln -s libpmix.so.2 {unlinked}/libpmix.so")
    library = f"{unlinked}/libpmix.so.2" if unlinked else _pmix_path()
    said, works = _output([sys.executable, "-S", "-c", _LOAD, library])
    if not works:
        what = f"cannot be loaded ({said}): every srun --mpi=pmix would hang"
        return Check(name, MISSING, what, f"install the library it names, or {_install(_ALWAYS)}")
    if unlinked is not None:
        return Check(name, OK, f"{unlinked}/libpmix.so is not there; the lab has its own")
    return Check(name, OK, said)


_LOAD = """
import ctypes, sys
try:
    ctypes.CDLL(sys.argv[1])
except OSError as error:
    sys.exit(str(error))
print(sys.argv[1])
"""


def _pmix_path() -> str:
    """What Slurm's plugin opens: Debian's absolute path, else what the loader finds."""
    return str(next(iter(sorted(Path("/usr/lib").glob("*/pmix2/lib/libpmix.so"))), "libpmix.so.2"))


def _program(program: str, package: str) -> Check:
    found = which(program)
    if found is None:
        return Check(program, MISSING, "not found", _install([package]))
    return Check(program, OK, found)


def _namespaces(machine: Machine) -> Check:
    refused = probe(user=not machine.root)
    name = "namespaces" if machine.root else "user namespaces"
    if refused is None:
        return Check(name, OK, "pid, net, mount, uts, ipc; bridge and veth")
    return Check(name, MISSING, refused, f"{_namespace_fix(machine)}, or clusterlab lab up --flat")


def _namespace_fix(machine: Machine) -> str:
    if machine.root:
        return "run where root may make namespaces (docker: --privileged)"
    # The switches that close user namespaces to unprivileged users: Debian's, Ubuntu's, the kernel's.
    switches = {
        "kernel.unprivileged_userns_clone": ("0", "1"),
        "kernel.apparmor_restrict_unprivileged_userns": ("1", "0"),
        "user.max_user_namespaces": ("0", "10000"),
    }
    for name, (closed, opened) in switches.items():
        file = Path("/proc/sys") / name.replace(".", "/")
        if file.is_file() and file.read_text(encoding="ascii").strip() == closed:
            return f"sysctl -w {name}={opened} (as root)"
    return "run as root"


def _compiler(machine: Machine, *, flat: bool) -> Check:
    fix = _install(["gcc", "libc6-dev"])
    if machine.compiler:
        return Check("C compiler", OK, machine.compiler)
    if not machine.root and not flat:
        what = "without root, Slurm's daemons need the compiled setgroups() of the shim"
        return Check("C compiler", MISSING, what, fix)
    what = "tasks are not bound to CPUs that this machine lacks (TaskPlugin=task/none)"
    return Check("C compiler", WARNING, what, fix)


def _plugin(pattern: str) -> bool:
    return any(
        any(folder.glob(pattern))
        for place in _PLUGINS
        for folder in Path("/").glob(place.removeprefix("/"))
    )


def _output(command: list[str]) -> tuple[str, bool]:
    path = which(command[0]) or command[0]
    result = subprocess.run(
        [path, *command[1:]], capture_output=True, text=True, timeout=20, check=False
    )
    said = (result.stdout.strip() or result.stderr.strip() or "says nothing").splitlines()[0]
    return re.sub(r"\s+", " ", said), result.returncode == 0
