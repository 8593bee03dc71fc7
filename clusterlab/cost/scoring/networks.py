"""The grammar of ``inter_fabric`` cells: what joins nodes.

A cell is count × rate × kind in any order, all but one of them optional: ``8x400G IB NDR``, ``EFA 3200G
(32x100G)`` (devices in brackets count), ``RoCE 8 NICs``, ``200G QSFP (CX7)``, ``ENA TCP sockets``, ``none
(MNNVL)``, ``8xHDR``, ``400G per GPU``. What it does not say is None. Words that nobody knows are listed, and
alone are an error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from clusterlab.core.errors import UsageError
from clusterlab.cost.scoring.vocabulary import Vocabulary, vocabulary
from clusterlab.cost.scoring.words import check_length, names_of, unknown_of
from clusterlab.topology.parts import Transport

MAX_NICS = 64

_UNIT = r"(?P<unit>[gt])(?:be|bit/s|bits|bit|b/s|bps|ig|b)?(?![a-z0-9])"
_COUNT_RATE = re.compile(
    r"(?<![a-z0-9.])(?P<count>\d{1,4})\s*[x×*]\s*(?:(?P<ports>\d{1,2})\s*[x×*]\s*)?"
    r"(?P<rate>\d{1,5}(?:\.\d+)?)\s*" + _UNIT
)
_RATE = re.compile(
    r"(?<![a-z0-9.])(?P<rate>\d{1,5}(?:\.\d+)?)(?:\s*[-–]\s*\d{1,5}(?:\.\d+)?)?\s*" + _UNIT
)
_COUNT = re.compile(
    r"(?<![a-z0-9.])(\d{1,4})(?:\s*[x×*]\s+|\s+(?:[a-z][a-z0-9-]*\s+){0,3}?(?:nics?|hcas?|cards?|adapters?|ports?|rails?)\b"
    r"|\s+(?=(?:cx|bf|connectx|bluefield)))"
)
_GLUED = re.compile(r"(?<![a-z0-9.])(\d{1,4})\s*[x×*]\s*(?=[a-z])")
_BARE = re.compile(r"(?<![a-z0-9.])(?P<count>\d{1,2})\s*[x×*]\s*(?P<rate>\d{2,4})(?![a-z0-9.%])")
_DUAL = re.compile(
    r"(?<![a-z])(dual|quad)[- ]?(?=port|rail|nic|hca|card|[a-z]dr|cx|connectx|\d+ ?g)"
)
_EFA_VERSION = re.compile(r"(?<![a-z])efa[- ]v(\d)")
_COUNT_AFTER = re.compile(r"(?<![a-z0-9])[x×*]\s*(\d{1,4})(?![0-9.]*\s*[a-z0-9])")
_ADAPTER = re.compile(r"(?<![a-z0-9])(cx|connectx|bf|bluefield|thor)[- ]?(\d)(?![0-9])")
_SLINGSHOT = re.compile(r"slingshot[- ]?(\d{2})(?![0-9])")
_THOUSANDS = {"g": 1.0, "t": 1000.0}
_BYTES = re.compile(r"(\d+(?:\.\d+)?)\s*G(?:B/s|Bps|BPS)\b")
_NOTHING = re.compile(
    r"(?:none|n/?a|not applicable|no (?:network|inter|fabric|nics?)|no"
    r"|(?:single|one|intra|within(?: an?| one)?)[- ]?node|loopback|localhost|shm|0|-+)(?![a-z0-9])(?!-?port)"
)
_UNSAID = re.compile(r"(?:unknown|unstated|unsaid|tbd|\?+)?$")
_NVLINK = frozenset({"mnnvl", "nvl72", "nvl36", "nvlink"})
_LARGEST_SPLIT_GBPS = 800.0
"""No table names a single NIC that is faster: a larger figure is that of all of a node's NICs."""


@dataclass(frozen=True, slots=True)
class Inter:
    """What joins nodes. ``nothing``: no network; ``rack``: NVLink between nodes (MNNVL); ``unsaid``: the cell
    is empty or says that it does not know.

    ``per_gpu``: ``count`` is of each GPU. ``total_Gbps``: of all NICs of a node together. ``by_word``: a
    word (NDR) stands for the rate. ``ethernet``: no more is said of what they speak.
    """

    transport: Transport | None = None
    count: int | None = None
    Gbps: float | None = None
    total_Gbps: float | None = None
    by_word: bool = False
    per_gpu: bool = False
    nothing: bool = False
    rack: bool = False
    unsaid: bool = False
    ethernet: bool = False
    unknown: tuple[str, ...] = ()


def read_inter(text: str) -> Inter:
    """What an ``inter_fabric`` cell says. Raises UsageError where it says nothing known, or nonsense."""
    check_length(text, "inter_fabric")
    words = vocabulary()
    plain = _BYTES.sub(lambda m: f"{float(m[1]) * 8:g}G", text).lower().strip()
    plain = _EFA_VERSION.sub(r"efav\1", _GLUED.sub(r"\1x ", plain))
    names = names_of(plain)
    rack = bool(_NVLINK & set(names))
    if _UNSAID.match(plain):
        return Inter(unsaid=True)
    if _says_nothing(plain, names, words):
        return Inter(nothing=True, rack=rack)
    odd = words.unmodelled & set(names)
    if odd:
        raise UsageError(
            f"{text!r}: nothing is known of {', '.join(sorted(odd))} under NCCL",
            where="inter_fabric",
            expected="one of " + ", ".join(dict.fromkeys(t.name for t in words.transports)),
        )
    count, rate, total = _figures(plain, words)
    transport = next((t.name for t in words.transports if t.words & set(names)), None)
    ethernet = transport is None and any(_is_ethernet(name, words) for name in names)
    by_word = rate is None and total is None
    if by_word:
        rate = _rate_of_words(plain, names, words)
    unknown = unknown_of(_without_figures(plain), words)
    if transport is None and not ethernet and (count, rate, total) == (None, None, None):
        if rack:
            return Inter(nothing=True, rack=True, unknown=unknown)
        if set(names) <= words.ignored:
            return Inter(unsaid=True)
        raise UsageError(
            f"{text!r} names no network: unknown {', '.join(unknown) or text}",
            where="inter_fabric",
            expected="count x rate and kind, as in 8x400G IB NDR, or none",
        )
    per_gpu = re.search(r"(per|/)\s*(gpu|rank)", plain) is not None
    return Inter(
        transport,
        count,
        rate,
        total,
        by_word,
        per_gpu,
        rack=rack,
        ethernet=ethernet,
        unknown=unknown,
    )


def _says_nothing(plain: str, names: list[str], words: Vocabulary) -> bool:
    """Whether a cell says that there is no network: ``none``, ``single node``; not ``no RDMA, TCP``."""
    found = _NOTHING.match(plain)
    if found is None:
        return not names and not re.search(r"\d", plain)
    named = any(t.words & set(names) for t in words.transports)
    return found[0] != "no" or not named


def _is_ethernet(name: str, words: Vocabulary) -> bool:
    """``ethernet``, and ``gbe`` also behind its rate: 100gbe."""
    return name in words.ethernet_words or re.sub(r"^[0-9x]+", "", name) in words.ethernet_words


def _without_figures(plain: str) -> list[str]:
    """The words of a cell without counts, rates and their units."""
    return names_of(_RATE.sub(" ", _COUNT_RATE.sub(" ", plain)))


def _figures(plain: str, words: Vocabulary) -> tuple[int | None, float | None, float | None]:
    """NICs of a node, Gb/s of one, Gb/s of all. Devices in brackets are what software sees, but for cards
    of two ports, which NCCL merges (NCCL_NET_MERGE_LEVEL, since 2.23).
    """
    bracketed = [
        m for part in re.findall(r"\(([^()]*)\)", plain) for m in _COUNT_RATE.finditer(part)
    ]
    found = bracketed[0] if bracketed else _COUNT_RATE.search(plain)
    outside = _COUNT_RATE.search(re.sub(r"\([^()]*\)", " ", plain))
    if bracketed and outside and int(bracketed[0]["count"]) == 2 * int(outside["count"]):
        found = outside
    if found is not None:
        devices = int(found["count"]) * int(found["ports"] or 1)
        return _checked(devices, _Gbps(found), words)
    bare = _BARE.search(plain)
    if bare is not None and int(bare["rate"]) in words.usual_rates_Gbps:
        return _checked(int(bare["count"]), float(bare["rate"]), words)
    single = _RATE.search(plain)
    count = _count(plain)
    if single is None:
        return _checked(count, None, words)
    rate = _Gbps(single)
    if rate > _LARGEST_SPLIT_GBPS:
        if count is None:
            _checked(None, rate / MAX_NICS, words)
            return None, None, rate
        rate /= max(1, count)
    return _checked(count, rate, words)


def _count(plain: str) -> int | None:
    """NICs of a node where no rate stands behind the figure."""
    found = _COUNT.search(plain) or _COUNT_AFTER.search(plain)
    if found is not None:
        return int(found[1])
    several = _DUAL.search(plain)
    return {"dual": 2, "quad": 4}[several[1]] if several is not None else None


def _Gbps(found: re.Match[str]) -> float:
    return float(found["rate"]) * _THOUSANDS[found["unit"]]


def _checked(
    count: int | None, rate: float | None, words: Vocabulary
) -> tuple[int | None, float | None, None]:
    if count is not None and not 1 <= count <= MAX_NICS:
        raise UsageError(f"{count} NICs", where="inter_fabric", expected=f"1 to {MAX_NICS} a node")
    if rate is not None and not words.slowest_Gbps <= rate <= words.fastest_Gbps:
        raise UsageError(
            f"a NIC of {rate:g} Gb/s",
            where="inter_fabric",
            expected=f"{words.slowest_Gbps:g} to {words.fastest_Gbps:g}",
        )
    return count, rate, None


def _rate_of_words(plain: str, names: list[str], words: Vocabulary) -> float | None:
    """The rate that a generation (NDR) or an adapter (CX-7) stands for."""
    for name in names:
        if name in words.rates_Gbps:
            return float(words.rates_Gbps[name])
    slingshot = _SLINGSHOT.search(plain)
    if slingshot is not None:
        return {"10": 100.0, "11": 200.0}.get(slingshot[1])
    short = {"connectx": "cx", "bluefield": "bf"}
    said = [short.get(kind, kind) + number for kind, number in _ADAPTER.findall(plain)]
    rates = [words.adapters_Gbps[n] for n in (*said, *names) if n in words.adapters_Gbps]
    return float(rates[0]) if rates else None
