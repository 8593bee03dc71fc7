"""``algo`` and ``proto`` cells: what a run was made to use, as NCCL's variables. Pure.

A value that plainly names an algorithm or protocol is what ran, and is predicted as forced. A cell that
says default or observed leaves the choice to NCCL, so that the choice is scored too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from clusterlab.core.errors import UsageError
from clusterlab.cost.nccl.selection import parse_selection
from clusterlab.cost.nccl.words import NCCL_ALGORITHMS, NCCL_PROTOCOLS

ACCEPTED = (
    "Tree, Tree (forced), NCCL_ALGO=Tree, Ring/LL128 (algo), LL128 (proto); with default, observed or per "
    "source in it the choice is NCCL's"
)
"""The forms of these cells, in words."""

_NAMES: Mapping[str, Mapping[str, str]] = {
    "NCCL_ALGO": NCCL_ALGORITHMS,
    "NCCL_PROTO": NCCL_PROTOCOLS,
}
_VARIABLE_OF = {"algo": "NCCL_ALGO", "proto": "NCCL_PROTO"}
_LONGEST = 200

_UNSAID = re.compile(r"(?:unknown|unset|unstated|none|any|n/?a|tbd|[-?.]*)", re.IGNORECASE)
_OBSERVED = re.compile(
    r"\b(?:default|observed|auto|automatic|chosen|selected|tuner|logged|reported"
    r"|(?:per|by|from|according to) (?:the )?(?:source|log)|NCCL'?s (?:own|choice))\b",
    re.IGNORECASE,
)
_UNFORCED = re.compile(r"\b(?:un|not |non-)forced\b", re.IGNORECASE)
_FORCED = re.compile(r"[\s,;:]*[(\[]?\s*\bforced\b\s*[)\]]?[\s,;:]*", re.IGNORECASE)
_SETTING = re.compile(r"(?:(?:-x|export|env)\s+)?(NCCL_ALGO|NCCL_PROTO)\s*=\s*([^\s=]+)[\s,;]*")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[ _-][A-Za-z0-9]+)*")


@dataclass(frozen=True, slots=True)
class Choice:
    """``variables`` are what NCCL was made to use; ``unread`` the cells (column, text) nobody understands."""

    variables: tuple[tuple[str, str], ...] = ()
    unread: tuple[tuple[str, str], ...] = ()


@lru_cache(maxsize=4096)
def choice_of(algo: str, proto: str) -> Choice:
    """What the two cells of a row say. ``proto`` wins where ``algo`` names a protocol too."""
    found: dict[str, str] = {}
    unread = []
    for column, cell in (("algo", algo), ("proto", proto)):
        read = _read(column, cell)
        if read is None:
            unread.append((column, cell))
        else:
            found.update(read)
    return Choice(tuple(sorted(found.items())), tuple(unread))


def _read(column: str, cell: str) -> dict[str, str] | None:
    """Variables that a cell stands for; None where it is not understood."""
    text = cell.strip().strip("\"'").strip()
    if _UNSAID.fullmatch(text) or _UNFORCED.search(text):
        return {}
    own = _VARIABLE_OF[column]
    bare = _FORCED.sub(" ", text).strip()
    if bare == text and _OBSERVED.search(text):
        return {}
    if len(text) > _LONGEST:
        return None
    settings = _settings(bare) or _both(column, bare) or {own: bare}
    read = {name: _known(name, value) for name, value in settings.items()}
    known = {name: value for name, value in read.items() if value is not None}
    if len(known) == len(read):
        return known
    # What was forced and is not known is for the prediction to refuse: it is no default.
    single = re.fullmatch(r"\w+", bare)
    return {own: bare} if bare != text and single is not None else None


def _settings(text: str) -> dict[str, str]:
    """``NCCL_ALGO=Ring NCCL_PROTO=LL128``; nothing for a text that is not made of such alone."""
    found = dict(_SETTING.findall(text))
    return found if found and not _SETTING.sub("", text).strip() else {}


def _both(column: str, text: str) -> dict[str, str]:
    """``ring/ll128``, as our own tables print it."""
    algorithm, slash, protocol = text.partition("/")
    if column != "algo" or not slash:
        return {}
    return {"NCCL_ALGO": algorithm.strip(), "NCCL_PROTO": protocol.strip()}


def _known(variable: str, text: str) -> str | None:
    """``text`` in NCCL's own spelling (``nvls_tree`` is NVLSTree); None where it is no value of this."""
    names = {_squashed(theirs): theirs for theirs in _NAMES[variable].values()}
    value = _NAME.sub(lambda m: names.get(_squashed(m[0]), m[0]), text)
    try:
        parse_selection(variable, value, _NAMES[variable])
    except UsageError:
        return None
    return value


def _squashed(name: str) -> str:
    return re.sub(r"[ _-]", "", name).lower()
