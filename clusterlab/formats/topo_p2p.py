"""``nvidia-smi topo -p2p r|w|n|a|p``: which GPU may access which other one's memory, and why not."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from clusterlab.core.errors import UsageError
from clusterlab.formats import topo_m
from clusterlab.formats.smi_text import RECOGNISED_CHARS, check_count, clean_lines

STATUSES: dict[str, str] = {
    "OK": "supported",
    "CNS": "chipset not supported",
    "GNS": "GPU not supported",
    "TNS": "topology not supported",
    "NS": "not supported",
    "DR": "disabled by regkey",
    "U": "unknown",
}
"""nvidia-smi's legend."""

_GPU = re.compile(r"GPU\d{1,4}")
_STATUS = re.compile(r"X|OK|CNS|GNS|TNS|NS|DR|U|N/A")
_TELLING = re.compile(r"OK|CNS|GNS|TNS|NS|DR")
_COMMAND = re.compile(r"topo\s+(?:-p2p|--p2pstatus)\s+(rw|[rwnap])\b")


@dataclass(frozen=True)
class P2pMatrix:
    """One matrix: status by row and column GPU (the diagonal left out), None where not readable.

    ``capability``: r, w, n (NVLink), a (atomics), p (prop) where the command stands above it.
    """

    line: int
    gpus: tuple[str, ...]
    capability: str | None = None
    status: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)


def recognise(text: str) -> bool:
    """True for a text with a row of peer-to-peer statuses and none of ``topo -m``."""
    alone = False
    for _, line in clean_lines(text[:RECOGNISED_CHARS], file=""):
        words = line.split()
        if len(words) < 2 or not _GPU.fullmatch(words[0]):
            continue
        statuses = [w for w in words[1:] if _STATUS.fullmatch(w)]
        if len(statuses) == len(words) - 1 and any(map(_TELLING.fullmatch, statuses)):
            return not topo_m.recognise(text)
        alone = alone or words[1:] == ["X"]
    return alone and "Chipset not supported" in text


def parse_topo_p2p(text: str, *, file: str) -> list[P2pMatrix]:
    """All matrices in ``text``, in order. Raises UsageError, naming the line, where there is none."""
    matrices: list[P2pMatrix] = []
    capability: str | None = None
    rows: dict[str, Mapping[str, str | None]] | None = None
    for number, line in clean_lines(text, file=file):
        command = _COMMAND.search(line)
        if command:
            capability = command[1]
        words = line.split()
        if words and all(map(_GPU.fullmatch, words)) and (len(words) > 1 or words == ["GPU0"]):
            rows = {}
            gpus = _distinct(words, f"{file}:{number}")
            matrices.append(P2pMatrix(number, gpus, capability, rows))
            capability = None
        elif rows is not None and matrices and words and words[0] in matrices[-1].gpus:
            rows.setdefault(words[0], _statuses(words, matrices[-1].gpus))
    found = [m for m in matrices if m.status]
    if not found:
        raise UsageError(
            "no matrix of nvidia-smi topo -p2p",
            where=f"{file}:{matrices[0].line if matrices else 1}",
            expected="a header with GPU0, GPU1, … and rows such as 'GPU0  X  OK'",
        )
    return found


def _distinct(words: Sequence[str], where: str) -> tuple[str, ...]:
    check_count(len(words), where=where)
    if len(set(words)) < len(words):
        raise UsageError("a GPU twice in one header", where=where, expected="each GPU once")
    return tuple(words)


def _statuses(words: Sequence[str], gpus: tuple[str, ...]) -> dict[str, str | None]:
    """Status to every other GPU; a row whose X is not under its own GPU is unreadable."""
    cells = (list(words[1:]) + [""] * len(gpus))[: len(gpus)]
    own = gpus.index(words[0])
    readable = cells[own] == "X" and cells.count("X") == 1
    return {
        gpu: cell if readable and cell in STATUSES else None
        for gpu, cell in zip(gpus, cells, strict=True)
        if gpu != words[0]
    }
