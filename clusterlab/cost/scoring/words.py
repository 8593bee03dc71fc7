"""The grammar of ``inter_fabric``, ``intra_fabric`` and ``gpu`` cells: text to plain words.

An ``inter_fabric`` cell is count × rate × kind in any order, all but one of them optional:
``8x400G IB NDR``, ``EFA 3200G (32x100G)`` (devices in brackets count), ``RoCE 8 NICs``,
``200G QSFP (CX7)``, ``ENA TCP sockets``, ``none (MNNVL)``. What it does not say is None. Words that
nobody knows are listed, and alone are an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from clusterlab.core.errors import UsageError
from clusterlab.cost.scoring.vocabulary import Form, Vocabulary, vocabulary
from clusterlab.topology.parts import Transport

IntraKind = Literal["nvswitch", "rack", "mesh", "pairs", "nvlink", "xgmi", "pcie", "none", "unsaid"]

MAX_TEXT = 400
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
_COUNT_AFTER = re.compile(r"(?<![a-z0-9])[x×*]\s*(\d{1,4})(?![0-9.]*\s*[a-z0-9])")
_ADAPTER = re.compile(r"(?<![a-z0-9])(cx|connectx|bf|bluefield)[- ]?(\d)(?![0-9])")
_THOUSANDS = {"g": 1.0, "t": 1000.0}
_BYTES = re.compile(r"(\d+(?:\.\d+)?)\s*G(?:B/s|Bps|BPS)\b")
_SETTING = re.compile(r"\b((?:NCCL|RCCL)_[A-Z0-9_]+)\s*=\s*([^\s,;]+)")
_FORCED = re.compile(r"\s*([A-Za-z0-9_]+)\s*\(\s*forced\s*\)\s*", re.IGNORECASE)
_LARGEST_SPLIT_GBPS = 800.0
"""No table names a single NIC that is faster: a larger figure is that of all of a node's NICs."""


@dataclass(frozen=True, slots=True)
class Inter:
    """What joins nodes. ``nothing``: no network; ``rack``: NVLink between nodes (MNNVL).

    ``per_gpu``: ``count`` is of each GPU. ``total_Gbps``: of all NICs of a node together.
    """

    transport: Transport | None = None
    count: int | None = None
    Gbps: float | None = None
    total_Gbps: float | None = None
    per_gpu: bool = False
    nothing: bool = False
    rack: bool = False
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Intra:
    """What joins a node's GPUs. ``generation`` of NVSwitch, NVLink or PCIe. ``peers``: whether the cell
    says that GPUs reach each other directly. ``rack_gpus``: GPUs of an NVLink domain over nodes.
    """

    kind: IntraKind
    generation: int | None = None
    peers: bool | None = None
    rack_gpus: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict, hash=False)
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Gpu:
    """A chip of the vocabulary; None: not one of them. ``form`` None: not said. ``pairs``: bridged."""

    chip: str | None
    form: Form | None
    pairs: bool = False


def read_inter(text: str) -> Inter:
    """What an ``inter_fabric`` cell says. Raises UsageError where it says nothing known, or nonsense."""
    _check_length(text, "inter_fabric")
    words = vocabulary()
    plain = _BYTES.sub(lambda m: f"{float(m[1]) * 8:g}G", text).lower()
    names = _names(plain)
    rack = "mnnvl" in names or "nvl72" in names
    if not names or names[0] in ("none", "no", "na"):
        return Inter(nothing=True, rack=rack)
    count, rate, total = _figures(plain, words)
    transport = next((t.name for t in words.transports if t.words & set(names)), None)
    if rate is None and total is None:
        rate = _rate_of_words(plain, names, words)
    unknown = _unknown(names, words)
    if transport is None and count is None and rate is None and total is None:
        if rack:
            return Inter(nothing=True, rack=True, unknown=unknown)
        if set(names) <= words.ignored:
            return Inter()
        raise UsageError(
            f"{text!r} names no network: unknown {', '.join(unknown) or text}",
            where="inter_fabric",
            expected="count x rate and kind, as in 8x400G IB NDR, or none",
        )
    per_gpu = re.search(r"(per|/)\s*(gpu|rank)", plain) is not None
    return Inter(transport, count, rate, total, per_gpu, rack=rack, unknown=unknown)


def read_intra(text: str) -> Intra:
    """What an ``intra_fabric`` cell says. Raises UsageError where it names no kind of link."""
    _check_length(text, "intra_fabric")
    settings = {m[1]: m[2] for m in _SETTING.finditer(text)}
    plain = _SETTING.sub(" ", text).lower().strip(" ,;")
    peers = _peers(plain)
    for kind, pattern in _INTRA:
        found = re.search(pattern, plain)
        if found is not None:
            groups = found.groupdict()
            generation = groups.get("generation")
            rack = groups.get("rack")
            return Intra(
                kind,
                int(generation) if generation else None,
                peers,
                int(rack) if rack else None,
                settings,
                _unknown(_names(plain), vocabulary()),
            )
    if not plain:
        return Intra("unsaid", settings=settings)
    raise UsageError(
        f"{text!r} names no kind of link",
        where="intra_fabric",
        expected="nvswitch3-900, nvlink4-mesh, nvlink5-nvl72, xgmi-mesh, pcie5, none, …",
    )


_INTRA: tuple[tuple[IntraKind, str], ...] = (
    ("nvswitch", r"nv-?switch(?P<generation>\d)?"),
    ("rack", r"(?:nvlink(?P<generation>\d)[^a-z0-9]*)?nvl(?P<rack>\d{2,3})(?!\d)"),
    ("mesh", r"nvlink(?P<generation>\d)?[^a-z0-9]*(?:mesh|all-to-all|cube)"),
    ("pairs", r"nvlink(?P<generation>\d)?[^a-z0-9]*(?:pair|bridge)|nv-?bridge"),
    ("nvlink", r"nvlink(?P<generation>\d)?"),
    ("xgmi", r"xgmi|infinity"),
    (
        "pcie",
        r"pci-?e?\s*(?:gen\s*)?(?P<generation>\d)?|(?<![a-z])(?:sys|node|phb|pxb|pix)(?![a-z])",
    ),
    ("none", r"^(?:none|n/a|-|no)\b|^-$"),
    ("unsaid", r"^(?:unknown|unstated|unsaid)"),
)


def read_gpu(gpu: str, system: str) -> Gpu:
    """The chip that a ``gpu`` cell names, else the slug; and its form where either says it."""
    _check_length(gpu, "gpu")
    _check_length(system, "system")
    texts = (gpu.lower(), system.lower())
    words = vocabulary()
    chip = next((c for text in texts for p, c in words.chip_patterns if p.search(text)), None)
    if chip is None:
        chip = next((c for text in texts for p, c in words.chip_of_system if p.search(text)), None)
    form = next((f for text in texts if (f := _form(text)) is not None), None)
    return Gpu(chip, form, any(re.search(r"pair|bridge", text) for text in texts))


def forced(text: str) -> str | None:
    """``Ring`` for ``Ring (forced)``; None for what only says what ran (``default``, ``(per source)``)."""
    found = _FORCED.fullmatch(text)
    return found[1] if found else None


def _form(text: str) -> Form | None:
    if re.search(r"(?<![a-z])sxm\d?(?![a-z0-9])|(?<![a-z])[hd]gx(?![a-z])", text):
        return "sxm"
    if re.search(r"(?<![a-z])pci-?e(?![a-z])", text):
        return "pcie"
    return "nvl" if re.search(r"(?<![a-z])nvl(?![a-z0-9])", text) else None


def _peers(plain: str) -> bool | None:
    """Whether GPUs reach each other directly: None where the cell does not say."""
    if re.search(
        r"no p2p|without p2p|p2p (?:is )?(?:unavailable|disabled|off)|(?<![a-z])shm", plain
    ):
        return False
    return True if "p2p" in plain else None


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
    single = _RATE.search(plain)
    counted = _COUNT.search(plain) or _COUNT_AFTER.search(plain)
    count = int(counted[1]) if counted else None
    if single is None:
        return _checked(count, None, words)
    rate = _Gbps(single)
    if rate > _LARGEST_SPLIT_GBPS:
        if count is None:
            _checked(None, rate / MAX_NICS, words)
            return None, None, rate
        rate /= max(1, count)
    return _checked(1 if count is None else count, rate, words)


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
    short = {"connectx": "cx", "bluefield": "bf"}
    said = [short.get(kind, kind) + number for kind, number in _ADAPTER.findall(plain)]
    rates = [words.adapters_Gbps[n] for n in (*said, *names) if n in words.adapters_Gbps]
    return float(rates[0]) if rates else None


def _names(plain: str) -> list[str]:
    """The words of a cell, without those that are only digits and multiplication signs."""
    return [w for w in re.findall(r"[a-z0-9]+", plain) if re.search(r"[a-z]", w)]


def _unknown(names: list[str], words: Vocabulary) -> tuple[str, ...]:
    known = words.ignored.union(
        words.link_words,
        words.rates_Gbps,
        words.adapters_Gbps,
        *(t.words for t in words.transports),
    )
    left = []
    for name in dict.fromkeys(names):
        bare = re.sub(r"[0-9]+", "", name)
        if (
            name not in known
            and bare not in known
            and not re.fullmatch(r"(?:\d*x)+\d*[gt]?|\d+[gt]", name)
        ):
            left.append(name)
    return tuple(left)


def _check_length(text: str, where: str) -> None:
    if len(text) > MAX_TEXT:
        raise UsageError(f"{len(text)} characters", where=where, expected=f"at most {MAX_TEXT}")
