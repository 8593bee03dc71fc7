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
        checks += [_munge(), *_pmix(machine, flat=flat)]
    if flat:
        checks.append(_program("setpriv", "util-linux"))
    else:
        checks.append(_program("ip", "iproute2"))
        # The trial of namespaces makes links, too.
        checks += [_namespaces(machine)] if checks[-1].status == OK else []
        checks.append(_shaping())
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
    if not _plugins("auth_munge.so"):
        return Check("munge", MISSING, "Slurm has no plugin auth/munge", _install(_ALWAYS))
    return Check("munge", OK, said.partition(" (")[0])


def _pmix(machine: Machine, *, flat: bool) -> list[Check]:
    """The plugin, and the library that it opens only when a step starts: a slurmd that cannot, hangs."""
    plugins = [path.stem for path in _plugins("mpi_pmix_v*.so")]
    if not plugins:
        what = "Slurm has none: srun --mpi=pmix will not work"
        return [Check("PMIx plugin", WARNING, what, _install(_ALWAYS))]
    plugin = Check("PMIx plugin", OK, ", ".join(plugins))
    return [plugin, _pmix_library(machine, [name[-1] for name in plugins], flat=flat)]


def _pmix_library(machine: Machine, majors: list[str], *, flat: bool) -> Check:
    name, hangs = "PMIx library", "every srun --mpi=pmix would hang"
    mend = machine.pmix_lib_to_mend
    library = f"{mend}/libpmix.so.2" if mend else _pmix_path()
    version, works = _output([sys.executable, "-S", "-c", _PMIX_VERSION, library])
    if not works:
        what = f"cannot be loaded ({version}): {hangs}"
        return Check(name, MISSING, what, f"install the library it names, or {_install(_ALWAYS)}")
    if version[0] not in majors:
        what = f"{library} is PMIx {version}, Slurm's plugin is for PMIx {majors[0]}: {hangs}"
        return Check(name, MISSING, what, f"install libpmix2 of PMIx {majors[0]}")
    if mend and flat:
        what = f"{mend}/libpmix.so is not {library}: {hangs}"
        return Check(name, MISSING, what, f"ln -sfn libpmix.so.2 {mend}/libpmix.so")
    own = f"; {mend}/libpmix.so is something else, and the lab has its own" if mend else ""
    return Check(name, OK, f"PMIx {version}{own}")


_PMIX_VERSION = """
import ctypes, re, sys
try:
    library = ctypes.CDLL(sys.argv[1])
except OSError as error:
    sys.exit(str(error))
library.PMIx_Get_version.restype = ctypes.c_char_p
print(re.search(r"[0-9.]+", library.PMIx_Get_version().decode())[0])
"""


def _pmix_path() -> str:
    """What Slurm's plugin opens: Debian's absolute path, else what the loader finds."""
    return str(next(iter(sorted(Path("/usr/lib").glob("*/pmix2/lib/libpmix.so"))), "libpmix.so.2"))


def _program(program: str, package: str) -> Check:
    found = which(program)
    if found is None:
        return Check(program, MISSING, "not found", _install([package]))
    return Check(program, OK, found)


def _shaping() -> Check:
    found = which("tc")
    if found is None:
        what = "not found: lab up --fabric cannot shape its links"
        return Check("tc", WARNING, what, _install(["iproute2"]))
    return Check("tc", OK, found)


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


def _plugins(pattern: str) -> list[Path]:
    """Slurm's plugins of a name, wherever distributions put them."""
    folders = [path for place in _PLUGINS for path in Path("/").glob(place.removeprefix("/"))]
    return [found for folder in folders for found in sorted(folder.glob(pattern))]


def _output(command: list[str]) -> tuple[str, bool]:
    path = which(command[0]) or command[0]
    result = subprocess.run(
        [path, *command[1:]], capture_output=True, text=True, timeout=20, check=False
    )
    said = (result.stdout.strip() or result.stderr.strip() or "says nothing").splitlines()[0]
    return re.sub(r"\s+", " ", said), result.returncode == 0
