"""Which of NCCL's variables make it say what it does, and when they are not ours to set. Pure.

NCCL's log is this program's only while nobody else asked for it: what the user set, in the environment or in
NCCL's configuration files, stays as it is, and what this keeps from being learnt is said.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

TOPOLOGY_DUMP = "NCCL_TOPO_DUMP_FILE"
LOG, TOPOLOGY, GRAPH = "rank0.log", "topology.xml", "graph.xml"
"""Names in the folder of a run."""

_LEVEL, _SUBSYSTEMS, _FILE = "NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"
_DEFAULT_SUBSYSTEMS = "INIT,BOOTSTRAP,ENV"  # src/debug.cc ncclDebugInit
_AT_START = (
    "INIT,ENV,GRAPH"  # printed while a communicator is made and connected, never at each call
)
_AT_CALLS = f"{_AT_START},TUNING"
_CALL_SUBSYSTEMS = ("TUNING", "COLL", "CALL", "P2P")


@dataclass(frozen=True, slots=True)
class Settings:
    """``variables`` are to be set before the communicator is made. ``log`` is the file that NCCL then writes,
    ours or the user's; None: it writes none. ``asking``: variables around one witnessed call; None: the log
    stays as it is. ``quiet``: variables in all the time between.
    """

    variables: Mapping[str, str] = field(default_factory=dict)
    log: Path | None = None
    asking: Mapping[str, str] | None = None
    quiet: Mapping[str, str] = field(default_factory=dict)
    says_choices: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Files:
    """Where NCCL may write. ``folder``: of the run, None on ranks that write none. ``heard`` and ``aside``
    are files in memory: the log of one call, and warnings between calls.
    """

    folder: Path | None
    heard: str
    aside: str


def choose_settings(
    user: Mapping[str, str], files: Files, *, resettable: bool, host: str, pid: int
) -> Settings:
    """``user``: NCCL's variables as the environment and the configuration files have them.

    ``resettable``: this NCCL can read its debug settings again while it runs.
    """
    dumps = _dumps(user, files.folder)
    own = {name: user[name] for name in (_LEVEL, _SUBSYSTEMS, _FILE) if name in user}
    if not own:
        return _ours(files, dumps, resettable=resettable)
    level = own.get(_LEVEL, "").upper()
    if set(own) == {_LEVEL} and level in ("VERSION", "WARN") and resettable:
        # An empty file name is standard output, as when there is none.
        quiet = {_LEVEL: level, _SUBSYSTEMS: _DEFAULT_SUBSYSTEMS, _FILE: ""}
        return Settings(dumps, None, _asking(files), quiet, True)
    return _theirs(own, dumps, level, host=host, pid=pid)


def _ours(files: Files, dumps: Mapping[str, str], *, resettable: bool) -> Settings:
    if files.folder is None:
        log, written = None, files.heard
    else:
        log = files.folder / LOG
        written = str(log).replace("%", "%%")  # NCCL expands %h and %p
    said = _AT_CALLS if resettable else _AT_START
    variables = {_LEVEL: "INFO", _SUBSYSTEMS: said, _FILE: written, **dumps}
    if resettable:
        quiet = {_LEVEL: "WARN", _SUBSYSTEMS: _DEFAULT_SUBSYSTEMS, _FILE: files.aside}
        return Settings(variables, log, _asking(files), quiet, True)
    note = (
        "this NCCL cannot change its log while it runs (it needs 2.27 or newer): "
        "algorithms and protocols are not known"
    )
    return Settings(variables, log, None, {}, False, (note,))


def _asking(files: Files) -> dict[str, str]:
    return {_LEVEL: "INFO", _SUBSYSTEMS: _AT_CALLS, _FILE: files.heard}


def _theirs(
    own: Mapping[str, str], dumps: Mapping[str, str], level: str, *, host: str, pid: int
) -> Settings:
    """The user's log: read it where it is a file and says enough, and leave it alone."""
    named = " ".join(f"{name}={value}" for name, value in own.items())
    if level not in ("INFO", "TRACE"):
        note = f"{named} is yours: NCCL's log stays as you set it, and its choices are not known"
        return Settings(dumps, notes=(note,))
    subsystems = own.get(_SUBSYSTEMS, _DEFAULT_SUBSYSTEMS)
    loud = [name for name in _CALL_SUBSYSTEMS if prints(subsystems, name)]
    notes = [
        f"{named} is yours: NCCL prints lines at every call ({', '.join(loud)}), which small messages feel"
    ]
    notes = notes if loud else []
    if not own.get(_FILE):
        notes.append(
            f"{named} is yours: NCCL's log is on standard output, where its choices cannot be read; "
            f"unset it, or set {_FILE} and {_SUBSYSTEMS}={_AT_CALLS}"
        )
        return Settings(dumps, notes=tuple(notes))
    says_choices = prints(subsystems, "TUNING")
    if not says_choices:
        notes.append(
            f"{named} is yours: without TUNING in {_SUBSYSTEMS}, NCCL's choices are not known"
        )
    log = Path(expanded(own[_FILE], host=host, pid=pid))
    return Settings(dumps, log, None, {}, says_choices, tuple(notes))


def _dumps(user: Mapping[str, str], folder: Path | None) -> dict[str, str]:
    if folder is None:
        return {}
    wanted = {
        TOPOLOGY_DUMP: str(folder / TOPOLOGY),
        "NCCL_GRAPH_DUMP_FILE": str(folder / GRAPH),
    }
    return {name: path for name, path in wanted.items() if not user.get(name)}


def prints(subsystems: str, name: str) -> bool:
    """Whether NCCL_DEBUG_SUBSYS lets lines of ``name`` through (src/debug.cc ncclDebugInit)."""
    negated = subsystems.startswith("^")
    words = {word.upper() for word in subsystems.removeprefix("^").split(",")}
    return (name in words or "ALL" in words) != negated


def expanded(file: str, *, host: str, pid: int) -> str:
    """NCCL_DEBUG_FILE with its ``%h`` and ``%p`` filled in (src/debug.cc)."""
    short = host.partition(".")[0]
    parts = file.split("%%")
    return "%".join(part.replace("%h", short).replace("%p", str(pid)) for part in parts)


def nccl_variables(
    environ: Mapping[str, str], configured: Iterable[tuple[str, str]]
) -> dict[str, str]:
    """NCCL's variables: those of the environment, then those of the files, the first that names it counts."""
    found = {k: v for k, v in environ.items() if k.startswith("NCCL_")}
    for name, value in configured:
        if name.startswith("NCCL_"):
            found.setdefault(name, value)
    return found


def configured_variables(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """What NCCL's configuration files set: NCCL_CONF_FILE or ~/.nccl.conf, then /etc/nccl.conf.

    Lines are ``NAME=value``, as src/misc/param.cc reads them; a file that is not there sets nothing.
    """
    mine = environ.get("NCCL_CONF_FILE") or str(Path("~/.nccl.conf").expanduser())
    found: list[tuple[str, str]] = []
    for path in (mine, "/etc/nccl.conf"):
        try:
            with Path(path).open(encoding="utf-8", errors="replace") as file:
                text = file.read(1 << 20)
        except OSError:
            continue
        pairs = (line.partition("=") for line in text.splitlines() if not line.startswith("#"))
        found += [(name, value) for name, sign, value in pairs if sign]
    return found


def own_environment() -> dict[str, str]:
    """NCCL's variables as it will see them in this process."""
    return nccl_variables(os.environ, configured_variables(os.environ))
