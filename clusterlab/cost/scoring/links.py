"""The grammar of ``intra_fabric`` cells: what joins a node's GPUs.

``nvswitch3-900``, ``NVLink4 mesh``, ``nvlink5-nvl72``, ``xgmi-mesh``, ``PCIe 4.0 x16 (no P2P)``, ``NV18``,
``SYS``, ``none``. What a cell does not say is None. Words that nobody knows are listed, and alone are an
error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from clusterlab.core.errors import UsageError
from clusterlab.cost.scoring.vocabulary import vocabulary
from clusterlab.cost.scoring.words import check_length, names_of, unknown_of

IntraKind = Literal["nvswitch", "rack", "mesh", "pairs", "nvlink", "xgmi", "pcie", "none", "unsaid"]

_SETTING = re.compile(r"\b((?:NCCL|RCCL)_[A-Z0-9_]+)\s*=\s*([^\s,;]+)")
_C2C = re.compile(r"(?<![a-z0-9])(?:nv-?link[- ]?)?c2c(?![a-z0-9])")
_ORDINAL = re.compile(r"(?<![a-z0-9])(\d)(?:st|nd|rd|th)[- ]gen")


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


def read_intra(text: str) -> Intra:
    """What an ``intra_fabric`` cell says. Raises UsageError where it names no kind of link."""
    check_length(text, "intra_fabric")
    settings = {m[1]: m[2] for m in _SETTING.finditer(text)}
    said = _SETTING.sub(" ", text).lower().strip(" ,;")
    plain = _C2C.sub(" ", said).strip(" ,;()+")  # to the CPU, not between GPUs
    peers = _peers(plain)
    ordinal = _ORDINAL.search(plain)
    for kind, pattern in _INTRA:
        found = re.search(pattern, plain)
        if found is not None:
            groups = found.groupdict()
            generation = groups.get("generation") or (ordinal[1] if ordinal else None)
            rack = groups.get("rack")
            return Intra(
                kind,
                int(generation) if generation else None,
                peers,
                int(rack) if rack else None,
                settings,
                () if kind in ("none", "unsaid") else unknown_of(names_of(plain), vocabulary()),
            )
    if not plain:
        return Intra("none" if _C2C.search(said) else "unsaid", settings=settings)
    raise UsageError(
        f"{text!r} names no kind of link",
        where="intra_fabric",
        expected="nvswitch3-900, nvlink4-mesh, nvlink5-nvl72, xgmi-mesh, pcie5, none, …",
    )


_GENERATION = r"[- ]?(?:gen[- ]?)?(?P<generation>\d)?(?!\d)"
_INTRA: tuple[tuple[IntraKind, str], ...] = (
    ("nvswitch", rf"nv-?switch{_GENERATION}"),
    ("rack", r"(?:nvlink(?P<generation>\d)[^a-z0-9]*)?nvl(?P<rack>\d{2,3})(?!\d)"),
    ("nvlink", r"nv-?link(?P<generation>\d)?.?(?:hybrid|cube)|cube.?mesh|(?<![a-z])hcm(?![a-z])"),
    ("mesh", r"nv-?link(?P<generation>\d)?[^a-z0-9]*(?:mesh|all-to-all)|nvl4(?!\d)"),
    ("pairs", r"nv-?link(?P<generation>\d)?[^a-z0-9]*(?:pair|bridge)|nv-?bridge"),
    ("nvlink", rf"nv-?link{_GENERATION}|(?<![a-z0-9])(?:nv\d{{1,2}}|sxm\d?)(?![a-z0-9])"),
    ("xgmi", r"xgmi|infinity"),
    (
        "pcie",
        r"pci-?e?\s*(?:gen[- ]?)?(?P<generation>\d)?"
        r"|(?<![a-z])(?:sys|node|phb|pxb|pix|shm)(?![a-z])",
    ),
    ("none", r"^(?:none|n/?a|no|(?:single|one|1)[- ]gpu)\b|^-+$"),
    ("unsaid", r"^(?:unknown|unstated|unsaid|tbd)|^\?+$"),
)


def _peers(plain: str) -> bool | None:
    """Whether GPUs reach each other directly: None where the cell does not say."""
    if re.search(
        r"no p2p|without p2p|p2p (?:is )?(?:unavailable|disabled|off)|(?<![a-z])shm", plain
    ):
        return False
    return True if "p2p" in plain else None
