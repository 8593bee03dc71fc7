"""What to break, as people write it: ``leaf3/spine2#1``, ``osfp4@n2``, ``n3/gpu2/pcie2:half``. Pure.

    NAME             a device (n5/nic3, leaf7, n0/nvswitch2) or a host (n5) with all its links
    NAME/NAME        a connection; within one host the second name may be local: n3/gpu2/pcie2
    NAME/NAME#1      one of its parallel cables, counted from 0 as devices are
    CAGE@HOST        the NICs of a host that share a connector: osfp4@n2
    plane1, rail3    the network's switches and links of a plane or rail
    …:half           what is left: half, 0.25, 25% or 8/16 (lanes); nothing without it

In a name ``*`` and ``?`` stand for anything within it, ``[0-3,7]`` for these numbers (Slurm's hostlist).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from clusterlab.core.errors import UsageError
from clusterlab.formats.hostlist import expand_hostlist

FORMS = (
    "a device (leaf7, n5/nic3), a host, a connection (leaf3/spine2, one cable of it leaf3/spine2#0), "
    "a cage (osfp4@n2), plane1 or rail3; then :half, :0.25 or :8/16 for what is left"
)

MAX_LENGTH = 1000
MAX_WILDCARDS = 8
_LEFT = re.compile(
    r"(?P<word>half|down)|(?P<share>0|0?\.\d{1,9})|(?P<percent>\d{1,2})%|x?(?P<lanes>\d{1,4})/x?(?P<of>\d{1,4})"
)
_CABLE = re.compile(r"(?P<name>.+)#(?P<number>\d{1,6})")
_BRACKETS = re.compile(r"(\[[0-9,\- ]*\])")


@dataclass(frozen=True, slots=True)
class Breakage:
    """One thing to break. ``left`` is the share of its capacity that remains, 0 for down.

    ``cable`` is one of a connection's parallel cables, from 0; ``host`` is set for a cage.
    """

    text: str
    name: str
    host: str | None
    cable: int | None
    left: float


def parse_breakage(text: str) -> Breakage:
    """Read one ``WHAT[:LEFT]``. Raises UsageError, naming it, when it cannot be read."""
    written = text.strip()
    if not written or len(written) > MAX_LENGTH:
        raise UsageError(f"{written[:40]!r}", where="what to break", expected=FORMS)
    name, left = _what_is_left(written)
    match = _CABLE.fullmatch(name)
    cable = None
    if match:
        name, cable = match["name"], int(match["number"])
    host = None
    if "@" in name:
        name, _, host = name.partition("@")
        if not name or not host or cable is not None:
            raise UsageError(f"{written!r}", where="what to break", expected="a cage: osfp4@n2")
    return Breakage(text=written, name=name, host=host, cable=cable, left=left)


def _what_is_left(written: str) -> tuple[str, float]:
    """The name and the share after its last colon; a colon may also belong to the name (a PCI bus id)."""
    name, colon, how = written.rpartition(":")
    match = _LEFT.fullmatch(how)
    if not colon or not name:
        return written, 0.0
    if re.fullmatch(r"x\d+", how):
        raise UsageError(
            f"{written!r} does not say of how many lanes",
            where="what to break",
            expected=f"lanes of lanes, such as :{how}/16",
        )
    if match is None:
        return written, 0.0
    if match["lanes"]:
        return name, _lanes(written, int(match["lanes"]), int(match["of"]))
    if match["percent"]:
        return name, int(match["percent"]) / 100
    if match["word"]:
        return name, {"half": 0.5, "down": 0.0}[match["word"]]
    return name, float(match["share"])


def _lanes(written: str, lanes: int, of: int) -> float:
    if lanes >= of:
        raise UsageError(
            f"{written!r} leaves all of it", where="what to break", expected="fewer than all lanes"
        )
    return lanes / of


@lru_cache(maxsize=256)
def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a name is meant by ``pattern``: itself, or with ``*``, ``?`` and ``[0-3,7]`` filled in.

    Raises UsageError for a broken or absurdly long range.
    """
    if len(re.findall(r"\*+|\[", pattern)) > MAX_WILDCARDS:
        raise UsageError(
            f"{pattern[:40]!r}", where="what to break", expected=f"at most {MAX_WILDCARDS} * and ["
        )
    expression = re.compile("".join(_expression(part) for part in _BRACKETS.split(pattern)))
    return lambda name: name == pattern or expression.fullmatch(name) is not None


def is_pattern(name: str) -> bool:
    """Whether ``name`` may stand for several names."""
    return any(character in name for character in "*?[")


def _expression(part: str) -> str:
    if part.startswith("["):
        return "(?:" + "|".join(expand_hostlist(part, where="what to break")) + ")"
    kept = {"*": "[^/]*", "?": "[^/]"}
    return "".join(kept.get(piece, re.escape(piece)) for piece in re.sub(r"\*+", "*", part))
