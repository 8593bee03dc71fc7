"""A node profile in YAML.

name: dgx-h100
sockets: 2
cores_per_socket: 56
threads_per_core: 2       # default 1
cpu_numbers: threads_apart  # or threads_together: 0 and 1 are one core's; default threads_apart
gpu_type: h100
gpus:
  - {count: 4, cores: 0-55}     # gres.conf's Cores=: Slurm's numbers, socket by socket
  - {count: 4, cores: 56-111}   # without cores: near all of them
numa: ["0-55,112-167", "56-111,168-223"]  # CPUs of each domain; default: one domain a socket
links: [[-1, 18], [18, -1]]     # gres.conf's Links=; default: none
"""

from __future__ import annotations

import re
from dataclasses import replace

from clusterlab.binding.explain.profile import NodeProfile, ProfileGpu
from clusterlab.core.digits import saturated
from clusterlab.core.errors import UsageError
from clusterlab.formats.fields import mapping, sequence, text, whole
from clusterlab.formats.strict_yaml import Document, Path, read_yaml

_KEYS = (
    "name",
    "sockets",
    "cores_per_socket",
    "threads_per_core",
    "cpu_numbers",
    "gpu_type",
    "gpus",
    "numa",
    "links",
)
_MOST_CPUS = 4096
_MOST_GPUS = 256
_MOST_LINKS = 1024
_LIST = re.compile(r"[0-9]{1,5}(?:-[0-9]{1,5})?(?:,[0-9]{1,5}(?:-[0-9]{1,5})?)*")


def is_profile(content: str) -> bool:
    """Whether the YAML is a node profile, by a key at its left margin that nothing else has."""
    return re.search(r"^cores_per_socket[ \t]*:", content, re.MULTILINE) is not None


def profile_from_yaml(content: str, *, file: str) -> NodeProfile:
    """The profile. Raises UsageError naming file, line and field."""
    document = read_yaml(content, file=file)
    mapping(document, (), _KEYS)
    bare = NodeProfile(
        name=text(document, ("name",), default=file),
        sockets=whole(document, ("sockets",)),
        cores_per_socket=whole(document, ("cores_per_socket",)),
        threads_per_core=whole(document, ("threads_per_core",), default=1),
        core_of_thread_first=_threads_apart(document),
    )
    check_size(bare, document.where("cores_per_socket"))
    gpus = _gpus(document, bare)
    kind = text(document, ("gpu_type",), default="", may_be_empty=True)
    return replace(
        bare,
        gpus=gpus,
        gpu_type=kind or None,
        domains=_domains(document, bare) or socket_domains(bare),
        links=_links(document, len(gpus)),
    )


def check_size(profile: NodeProfile, where: str) -> NodeProfile:
    """The profile, unless it is absurd."""
    if profile.cpus > _MOST_CPUS or len(profile.gpus) > _MOST_GPUS:
        raise UsageError(
            f"{profile.cpus} CPUs, {len(profile.gpus)} GPUs on a node",
            where=where,
            expected=f"at most {_MOST_CPUS} and {_MOST_GPUS}",
        )
    return profile


def socket_domains(profile: NodeProfile) -> tuple[frozenset[int], ...]:
    """One NUMA domain a socket: its CPUs."""
    sockets = range(profile.sockets)
    return tuple(profile.cpus_of_cores(profile.cores_of(socket)) for socket in sockets)


def core_set(words: str, profile: NodeProfile, where: str) -> frozenset[int]:
    """``0-7,16``: cores of ``profile``."""
    return _numbers(words, profile.cores, "core", where)


def _numbers(words: str, count: int, kind: str, where: str) -> frozenset[int]:
    if not _LIST.fullmatch(words):
        raise UsageError(f"{words!r}", where=where, expected="a list such as 0-7,16")
    found: set[int] = set()
    for part in words.split(","):
        first, _, last = part.partition("-")
        if saturated(last or first) >= count or saturated(last or first) < saturated(first):
            raise UsageError(
                f"{kind}s {part}", where=where, expected=f"{kind}s 0 to {count - 1} of the node"
            )
        found |= set(range(saturated(first), saturated(last or first) + 1))
    return frozenset(found)


def _list_text(document: Document, path: Path) -> str:
    """A list of numbers; ``3`` alone is a number to YAML."""
    value = document.data
    for part in path:
        value = value[part]
    plain = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return str(value) if plain else text(document, path)


def _threads_apart(document: Document) -> bool:
    word = text(document, ("cpu_numbers",), default="threads_apart")
    if word not in ("threads_apart", "threads_together"):
        raise UsageError(
            word, where=document.where("cpu_numbers"), expected="threads_apart or threads_together"
        )
    return word == "threads_apart"


def _gpus(document: Document, profile: NodeProfile) -> tuple[ProfileGpu, ...]:
    found: list[ProfileGpu] = []
    for i in range(len(sequence(document, ("gpus",)))):
        entry = mapping(document, ("gpus", i), ("count", "cores"))
        count = whole(document, ("gpus", i, "count"), default=1)
        where = document.where("gpus", i, "cores")
        cores = None
        if entry.get("cores") is not None:
            cores = core_set(_list_text(document, ("gpus", i, "cores")), profile, where)
        if len(found) + count > _MOST_GPUS:
            raise UsageError(
                f"{len(found) + count} GPUs",
                where=document.where("gpus", i),
                expected=f"at most {_MOST_GPUS}",
            )
        found += [ProfileGpu(cores)] * count
    return tuple(found)


def _domains(document: Document, profile: NodeProfile) -> tuple[frozenset[int], ...]:
    found: list[frozenset[int]] = []
    for i in range(len(sequence(document, ("numa",)))):
        where = document.where("numa", i)
        cpus = _numbers(_list_text(document, ("numa", i)), profile.cpus, "CPU", where)
        if any(cpus & other for other in found):
            raise UsageError("a CPU in two domains", where=where, expected="each CPU once")
        found.append(cpus)
    if found and sum(map(len, found)) < profile.cpus:
        raise UsageError(
            f"{sum(map(len, found))} of {profile.cpus} CPUs",
            where=document.where("numa"),
            expected="every CPU in a domain",
        )
    return tuple(found)


def _links(document: Document, count: int) -> tuple[tuple[int, ...], ...]:
    rows: list[tuple[int, ...]] = []
    for i in range(len(sequence(document, ("links",)))):
        row = sequence(document, ("links", i))
        if len(row) != count or not all(_is_link(value) for value in row):
            raise UsageError(
                f"{len(row)} entries",
                where=document.where("links", i),
                expected=f"{count} numbers of links, -1 for the GPU itself",
            )
        rows.append(tuple(row))
    if rows and len(rows) != count:
        raise UsageError(
            f"{len(rows)} rows", where=document.where("links"), expected=f"one per GPU, {count}"
        )
    return tuple(rows)


def _is_link(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -1 <= value <= _MOST_LINKS
