"""A table's machines as their hardware should do, and what its words say stands in the way. Pure.

A description may say that something is off (``P2P unavailable``, ``plugin absent (TCP)``, ``Tree (forced)``).
Held against a prediction with the same hindrance such a table would look as expected. So what is expected
is predicted without it, and what was said is remembered as evidence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from clusterlab.cost.scoring.choices import choice_of
from clusterlab.cost.scoring.gpus import read_gpu
from clusterlab.cost.scoring.measured import MeasuredPoint

_SETTING = re.compile(r"[,;(]?\s*\b(?:NCCL|RCCL)_[A-Z0-9_]+\s*=\s*[^\s,;)]+\)?")
_HINDERS = re.compile(r"\b((?:NCCL|RCCL)_[A-Z0-9_]+)\s*=\s*([^\s,;)]+)")
_NO_PEERS = re.compile(
    r"(?:no|without)[- ](?:p2p|peer)\w*(?: access)?"
    r"|p2p (?:is )?(?:unavailable|disabled|off|impossible|not (?:available|supported))"
    r"|(?:via|by|over|uses?|through)?\s*(?<![a-z])shm(?![a-z])(?: path)?",
    re.IGNORECASE,
)
_TCP = re.compile(
    r"(?:plugin|driver|rdma|verbs|ofi)\s*(?:is )?(?:absent|missing|not loaded|unavailable|off)"
    r"|(?<![a-z])(?:tcp|ip|sockets?|ipoib)(?:[ /]+(?:ip|sockets?|fallback))*(?![a-z])"
    r"|(?<![a-z])(?:absent|fallback)(?![a-z])|no rdma",
    re.IGNORECASE,
)
_RDMA = re.compile(
    r"slingshot|cxi|cassini|infiniband|(?<![a-z])(?:ib|[hnex]dr\d*|roce\w*|efa\w*|gib|rdma|cx-?\d|connectx)(?![a-z])",
    re.IGNORECASE,
)
_NO_GDR = re.compile(
    r"(?:no|without)[- ](?:gdr|gpudirect)\w*|(?:gdr|gpudirect)\w* (?:is )?(?:off|disabled|unavailable)",
    re.IGNORECASE,
)
_EMPTY = re.compile(r"\(\s*[,;]*\s*\)|[,;]\s*(?=[,;)]|$)")


@dataclass(frozen=True, slots=True)
class Said:
    """What a run or a table says of itself that would slow it: the code, and the words that say so."""

    code: str
    words: str


@dataclass(frozen=True, slots=True)
class Described:
    """``points`` as the hardware's description alone has them; ``said`` what was taken out."""

    points: tuple[MeasuredPoint, ...]
    said: tuple[Said, ...]


def as_hardware(points: Sequence[MeasuredPoint]) -> Described:
    """``points`` without what their words say is switched off, missing or forced."""
    cleaned = []
    said: dict[Said, None] = {}
    for point in points:
        intra, of_intra = _intra(point.intra_fabric)
        inter, of_inter = _inter(point.inter_fabric)
        forced = choice_of(point.algo, point.proto).variables
        for one in (*of_intra, *of_inter, *(_forced(*pair) for pair in forced)):
            said[one] = None
        algo, proto = ("", "") if forced else (point.algo, point.proto)
        cleaned.append(
            replace(point, intra_fabric=intra, inter_fabric=inter, algo=algo, proto=proto)
        )
    return Described(tuple(cleaned), tuple(said))


_STANDS_IN = "A40"
"""For cards that nobody names: PCIe 4, like most of what is joined by PCIe alone."""


def standing_in(points: Sequence[MeasuredPoint]) -> tuple[MeasuredPoint, ...] | None:
    """``points`` with an ordinary card in place of one that is not named, where PCIe joins them; else None.

    A GPU that is named and not known is no other.
    """
    gpu = read_gpu(points[0].gpu, points[0].system)
    if gpu.chip is not None or gpu.names is not None or not _by_pcie(points[0].intra_fabric):
        return None
    return tuple(replace(point, gpu=_STANDS_IN) for point in points)


CODE_OF_VARIABLE = {
    "NCCL_P2P_DISABLE": "P2P_DISABLED",
    "NCCL_P2P_LEVEL": "P2P_DISABLED",
    "NCCL_NVLS_ENABLE": "NVLS_OFF",
    "NCCL_ALGO": "ALGO_FORCED",
    "NCCL_PROTO": "PROTO_FORCED",
    "NCCL_IB_DISABLE": "TCP_FALLBACK",
    "NCCL_NET": "TCP_FALLBACK",
    "NCCL_NET_GDR_LEVEL": "GDR_OFF",
    "NCCL_MAX_NCHANNELS": "TOO_FEW_CHANNELS",
    "NCCL_MAX_CTAS": "TOO_FEW_CHANNELS",
    "NCCL_MAX_P2P_NCHANNELS": "TOO_FEW_CHANNELS",
    "NCCL_NCHANNELS_PER_NET_PEER": "TOO_FEW_CHANNELS",
    "NCCL_NVLS_NCHANNELS": "TOO_FEW_CHANNELS",
    "NCCL_IB_HCA": "FEWER_NICS_THAN_EXPECTED",
    "NCCL_IB_QPS_PER_CONNECTION": "TOO_FEW_QPS",
    "NCCL_IGNORE_CPU_AFFINITY": "CPU_AFFINITY",
}
"""What a variable, where it hinders, would be the cause of."""

_HARMLESS = {
    ("NCCL_P2P_DISABLE", "0"), ("NCCL_NVLS_ENABLE", "1"), ("NCCL_NVLS_ENABLE", "2"),
    ("NCCL_IB_DISABLE", "0"), ("NCCL_NET", "IB"),
}  # fmt: skip
_HINDERING_LEVELS = {"NCCL_P2P_LEVEL": {"LOC", "0"}, "NCCL_NET_GDR_LEVEL": {"LOC", "0"}}


def hindering(name: str, value: str) -> Said | None:
    """What a variable says that would slow a run; None where it does not, or nobody knows."""
    code = CODE_OF_VARIABLE.get(name)
    if code is None or (name, value.strip()) in _HARMLESS:
        return None
    levels = _HINDERING_LEVELS.get(name)
    if levels is not None and value.strip().upper() not in levels:
        return None
    return Said(code, f"{name}={value}")


def _forced(name: str, value: str) -> Said:
    return Said(CODE_OF_VARIABLE[name], f"{name}={value}")


def _intra(text: str) -> tuple[str, list[Said]]:
    """The cell with peers where it says that there are none."""
    said = []
    for name, value in _HINDERS.findall(text):
        found = hindering(name, value)
        if found is not None:
            said.append(found)
    hinders = {found.words.partition("=")[0] for found in said}
    left = _HINDERS.sub(lambda m: "" if m[1] in hinders else m[0], text)
    found_words = _NO_PEERS.search(left)
    if found_words is not None:
        said.append(Said("P2P_DISABLED", found_words[0].strip()))
        left = _NO_PEERS.sub("", left)
    left = _tidy(left)
    if any(one.code == "P2P_DISABLED" for one in said) and _by_pcie(left):
        left = f"{left or 'pcie'} (P2P)"
    return left, said


def _by_pcie(text: str) -> bool:
    return not re.search(r"nv|xgmi|sxm", text, re.IGNORECASE)


def _inter(text: str) -> tuple[str, list[Said]]:
    """The cell with the network's own transport where it says that sockets took its place."""
    said = []
    left = text
    no_gdr = _NO_GDR.search(left)
    if no_gdr is not None:
        said.append(Said("GDR_OFF", no_gdr[0]))
        left = _NO_GDR.sub("", left)
    tcp = _TCP.search(left)
    if tcp is not None:
        without = _tidy(_TCP.sub("", left))
        if _RDMA.search(without):
            said.append(Said("TCP_FALLBACK", tcp[0]))
            left = without
    return (_tidy(left) if said else text), said


def _tidy(text: str) -> str:
    while (shorter := _EMPTY.sub("", text)) != text:
        text = shorter
    return re.sub(r"\s+", " ", text).strip(" ,;+")
