"""Nodes as slurm.conf's NodeName lines or `scontrol show node` describe them.

Words ``Key=Value``; a node begins with NodeName=; in slurm.conf NodeName=DEFAULT sets what later lines
leave out (slurm.conf(5)).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from clusterlab.core.errors import UsageError

_NODE = re.compile(r"^[ \t]*NodeName=(\S+)", re.MULTILINE | re.IGNORECASE)
_WORD = re.compile(r"(?:^|\s)([A-Za-z]+)=(\S*)")
_GPU = re.compile(r"gpu(?::([A-Za-z_][^:(,]*))?(?::([0-9]{1,4}))?(?:\(.*\))?\Z")
_NUMBER = re.compile(r"[0-9]{1,6}")


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """One NodeName entry. ``name`` as written (``n[0-3]``), ``gpus`` how many, ``line`` where it begins."""

    name: str
    line: int
    sockets: int
    cores_per_socket: int
    threads_per_core: int
    gpus: int = 0
    gpu_type: str | None = None


def recognise(text: str) -> bool:
    """Whether the text has a NodeName entry with the node's CPUs."""
    found = _NODE.search(text)
    return bool(found) and bool(
        re.search(r"\b(?:CPUs|CPUTot|CoresPerSocket|Sockets|SocketsPerBoard)=", text, re.IGNORECASE)
    )


def parse_slurm_nodes(text: str, *, file: str) -> list[SlurmNode]:
    """The nodes in their order. Raises UsageError for a number that is none, or where there is no node."""
    joined = re.sub(r"\\\n", "  ", re.sub(r"#.*", "", text))
    starts = [found.start() for found in _NODE.finditer(joined)]
    nodes: list[SlurmNode] = []
    defaults: dict[str, str] = {}
    for begin, end in zip(starts, [*starts[1:], len(joined)], strict=True):
        line = joined.count("\n", 0, begin) + 1
        words = {key.lower(): value for key, value in _WORD.findall(joined[begin:end])}
        if "name" in words:  # a line of gres.conf
            continue
        if words["nodename"].upper() == "DEFAULT":
            defaults |= words
        else:
            nodes.append(_node({**defaults, **words}, line, f"{file}:{line}"))
    if not nodes:
        raise UsageError("no node described", where=file, expected="NodeName=… Sockets=… CPUs=…")
    return nodes


def _node(words: dict[str, str], line: int, where: str) -> SlurmNode:
    boards = _number(words, "boards", where) or 1
    sockets = _number(words, "sockets", where)
    per_board = _number(words, "socketsperboard", where)
    cores = _number(words, "corespersocket", where) or 1
    threads = _number(words, "threadspercore", where) or 1
    cpus = _number(words, "cpus", where) or _number(words, "cputot", where)
    if not sockets:
        # slurm.conf(5): Sockets is CPUs / (CoresPerSocket * ThreadsPerCore) where only CPUs is given.
        sockets = boards * per_board if per_board else max((cpus or 1) // (cores * threads), 1)
    gpus, kind = _gpus(words.get("gres", ""))
    return SlurmNode(words["nodename"], line, sockets, cores, threads, gpus, kind)


def _number(words: dict[str, str], key: str, where: str) -> int | None:
    value = words.get(key)
    if value is None:
        return None
    if not _NUMBER.fullmatch(value) or not int(value):
        raise UsageError(f"{key}={value}", where=where, expected="a whole number, at least 1")
    return int(value)


def _gpus(gres: str) -> tuple[int, str | None]:
    """``gpu:h100:8(S:0-1),nic:2``: 8, h100."""
    count, kind = 0, None
    for part in re.split(r",(?![^(]*\))", gres):
        found = _GPU.match(part)
        if found:
            count += int(found[2] or 1)
            kind = kind or found[1]
    return count, kind
