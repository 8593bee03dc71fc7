"""``--distribution`` (-m): how tasks go to nodes, and CPUs of a node to its tasks.

Words, defaults and errors as in Slurm's src/common/proc_args.c (verify_dist_type).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from clusterlab.binding.explain.rejection import RejectedError
from clusterlab.core.digits import saturated

Nodes = Literal["block", "cyclic", "plane", "arbitrary"]
Within = Literal["block", "cyclic", "fcyclic"]

_INVALID = "srun: error: Invalid --distribution specification"


@dataclass(frozen=True, slots=True)
class Distribution:
    """``nodes`` and ``sockets`` None: not said. ``pack``: True and False as said, None neither."""

    nodes: Nodes | None = None
    sockets: Within | None = None
    plane_size: int | None = None
    pack: bool | None = None

    @property
    def fills_sockets(self) -> bool:
        """Whether a node's sockets are filled one after the other: block at the second place, plane."""
        return self.sockets == "block" or self.nodes == "plane"


def read_distribution(text: str, *, plane_size: str | None = None) -> Distribution:
    """``block:cyclic,pack`` and the like. ``plane_size``: SLURM_DIST_PLANESIZE, for a bare ``plane``."""
    base, *flags = text.split(",")
    pack = None
    for flag in flags:
        if flag.lower() not in ("pack", "nopack"):
            raise RejectedError(_INVALID)
        pack = flag.lower() == "pack"
    if base.lower().startswith("plane"):
        _, equals, size = base.partition("=")
        return _plane(size if equals else plane_size)
    words = base.split(":")
    if not base or len(words) > 3:
        raise RejectedError(_INVALID)
    if words[0].lower() in ("arbitrary", "hostfile") and len(words) == 1:
        return Distribution("arbitrary", pack=pack)
    nodes = _word(words[0], "block", ("block", "cyclic"))
    sockets = _word(words[1], "cyclic", ("block", "cyclic", "fcyclic")) if words[1:] else None
    if words[2:]:
        _word(words[2], "", ("block", "cyclic", "fcyclic"))
    return Distribution(nodes, sockets, pack=pack)  # type: ignore[arg-type]


def _plane(size: str | None) -> Distribution:
    if size is None or not size.isascii() or not size.isdigit() or saturated(size) == 0:
        raise RejectedError(f"srun: error: Invalid plane size or size not specified\n{_INVALID}")
    return Distribution("plane", plane_size=saturated(size))


def _word(word: str, default: str, allowed: tuple[str, ...]) -> str:
    chosen = default if word == "*" and default else word.lower()
    if word == "*" and not default:
        return word
    if chosen not in allowed:
        raise RejectedError(_INVALID)
    return chosen
