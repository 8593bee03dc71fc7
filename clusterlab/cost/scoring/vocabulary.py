"""The words by which tables name machines, from ``vocabulary.yaml``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, cast

from clusterlab.formats.strict_yaml import read_yaml
from clusterlab.topology.parts import LinkClass
from clusterlab.topology.parts import Transport as TransportName

Form = Literal["sxm", "pcie", "nvl", "chip", "mesh", "switch"]
_FILE = Path(__file__).with_name("vocabulary.yaml")


@dataclass(frozen=True, slots=True)
class Joint:
    """Links between two GPUs, of a bridged pair or of any on a mesh; GB/s of one, per direction."""

    links: int
    GBps: float
    wire_GBps: float
    link_class: LinkClass = "nvlink"


@dataclass(frozen=True, slots=True)
class Build:
    """One way a chip is built. ``host``: a shipped design, ``pcie``, ``ports`` or ``mesh`` (see the file).

    ``gpus``: the most of a host, where the design has more or none. ``accelerator_GBps``: usable and
    signalling rate of its links where they are not the design's. ``paired``: its cards come with the bridge.
    """

    host: str
    model: str
    pcie: int
    bridge: Joint | None = None
    joint: Joint | None = None
    paired: bool = False
    accelerator_GBps: tuple[float, float] | None = None
    gpus: int | None = None

    @property
    def cards(self) -> bool:
        """Cards in slots, joined by PCIe and at most a bridge."""
        return self.host in ("pcie", "ports")


@dataclass(frozen=True, slots=True)
class Chip:
    """A GPU and its forms, the usual one first. ``peers``: cards reach each other without the host."""

    name: str
    forms: Mapping[Form, Build]
    nic_Gbps: float
    peers: bool = True

    @property
    def vendor(self) -> Literal["amd", "other"]:
        """Whose it is: AMD's GPUs have xGMI, the others NVLink or nothing."""
        return "amd" if self.name.startswith("mi") else "other"


@dataclass(frozen=True, slots=True)
class Transport:
    """What NICs speak, and the words that say so. ``usable``: share of the rate; None: unknown."""

    name: TransportName
    link_class: LinkClass
    usable: float | None
    words: frozenset[str]


@dataclass(frozen=True)
class Vocabulary:
    """All of the file. ``chip_patterns`` are tried in order: the longest name first. ``alike``: names that
    are no chip's own, by their letters and digits.
    """

    chips: Mapping[str, Chip]
    chip_patterns: tuple[tuple[re.Pattern[str], str], ...]
    alike: frozenset[str]
    chip_of_family: Mapping[str, str]
    chip_of_rack: Mapping[str, str]
    variants: frozenset[str]
    slices: frozenset[str]
    unnamed: frozenset[str]
    chip_of_link: Mapping[str, str]
    chip_of_system: tuple[tuple[re.Pattern[str], str], ...]
    chip_unsaid: str
    transports: tuple[Transport, ...]
    transport_unsaid: Mapping[str, TransportName]
    ethernet_words: frozenset[str]
    ethernet_roce_Gbps: float
    unmodelled: frozenset[str]
    usual_nics: Mapping[str, Mapping[str, tuple[int, float]]]
    efa_models: Mapping[int, str]
    efa_first: str
    efa_first_chips: frozenset[str]
    rates_Gbps: Mapping[str, float]
    adapters_Gbps: Mapping[str, float]
    usual_rates_Gbps: frozenset[int]
    slowest_Gbps: float
    fastest_Gbps: float
    ignored: frozenset[str]
    link_words: frozenset[str]
    pcie_GBps: Mapping[int, tuple[float, float]]

    def transport(self, name: TransportName) -> Transport:
        """The transport called ``name`` (the last entry of several)."""
        return {t.name: t for t in self.transports}[name]

    def usual(self, transport: str, chip: str, gpus: int) -> tuple[int, float] | None:
        """NICs of ``gpus`` GPUs, and Gb/s of one, where nodes with that chip and transport are all alike."""
        found = self.usual_nics.get(transport, {})
        known = found.get(chip) or found.get("other")
        return None if known is None else (max(1, known[0] * gpus // 8), known[1])


@lru_cache(maxsize=1)
def vocabulary() -> Vocabulary:
    """The vocabulary that travels with clusterlab."""
    data = read_yaml(_FILE.read_text(encoding="utf-8"), file=_FILE.name).data
    chips = {entry["chip"]: _chip(entry) for entry in data["chips"]}
    named = [
        (word, e["chip"])
        for e in data["chips"]
        for word in (e["chip"], *e.get("also", ()), *e.get("alike", ()))
    ]
    alike = frozenset(letters(word) for e in data["chips"] for word in e.get("alike", ()))
    return Vocabulary(
        chips=chips,
        chip_patterns=_patterns(named, before=_COUNTED, after=_BUILT),
        alike=alike,
        chip_of_family=data["chip_of_family"],
        chip_of_rack=data["chip_of_rack"],
        variants=frozenset(data["variants"]),
        slices=frozenset(data["slices"]),
        unnamed=frozenset(data["unnamed"]),
        chip_of_link=data["chip_of_link"],
        chip_of_system=_patterns(list(data["chip_of_system"].items())),
        chip_unsaid=data["chip_unsaid"],
        transports=tuple(_transport(entry) for entry in data["transports"]),
        transport_unsaid=data["transport_unsaid"],
        ethernet_words=frozenset(data["ethernet_words"]),
        ethernet_roce_Gbps=data["ethernet_roce_Gbps"],
        unmodelled=frozenset(data["unmodelled"]),
        usual_nics={
            transport: {chip: (count, rate) for chip, (count, rate) in chips.items()}
            for transport, chips in data["usual_nics"].items()
        },
        efa_models={int(rate): model for rate, model in data["efa_models"].items()},
        efa_first=data["efa_first"],
        efa_first_chips=frozenset(data["efa_first_chips"]),
        rates_Gbps=data["rates"],
        adapters_Gbps=data["adapters"],
        usual_rates_Gbps=frozenset(data["usual_rates"]),
        slowest_Gbps=data["slowest_Gbps"],
        fastest_Gbps=data["fastest_Gbps"],
        ignored=frozenset(data["ignored"]),
        link_words=frozenset(data["link_words"]),
        pcie_GBps={int(g): (f["GBps"], f["wire_GBps"]) for g, f in data["pcie"].items()},
    )


def _chip(entry: Mapping[str, Any]) -> Chip:
    forms = {cast(Form, form): _build(build) for form, build in entry["forms"].items()}
    return Chip(entry["chip"], forms, entry["nic_Gbps"], entry.get("peers", True))


def _build(entry: Mapping[str, Any]) -> Build:
    own = entry.get("accelerator_GBps")
    return Build(
        host=entry["host"],
        model=entry["model"],
        pcie=entry["pcie"],
        bridge=_joint(entry.get("bridge")),
        joint=_joint(entry.get("joint")),
        paired=entry.get("paired", False),
        accelerator_GBps=None if own is None else (own, entry["accelerator_wire_GBps"]),
        gpus=entry.get("gpus"),
    )


def _joint(entry: Mapping[str, Any] | None) -> Joint | None:
    if entry is None:
        return None
    return Joint(entry["links"], entry["GBps"], entry["wire_GBps"], entry.get("class", "nvlink"))


def _transport(entry: Mapping[str, Any]) -> Transport:
    return Transport(
        entry["transport"], entry["class"], entry.get("usable"), frozenset(entry["words"])
    )


_COUNTED = r"(?:\d{1,5}[x×]|[dh]gx|nvidia|amd)?"
_BUILT = r"(?:sxm\d?|pcie?\d?|nvl(?:36|72)?|oam|hbm\d?e?)?"
"""What may stand right before and behind a chip's name: 8xH100SXM5, dgxh100."""


def _patterns(
    named: list[tuple[str, str]], *, before: str = "", after: str = ""
) -> tuple[tuple[re.Pattern[str], str], ...]:
    """A pattern for each name as a whole word, the longest name first: MI300X is no MI300A, L40S no L40.

    Letters and numbers may be parted by anything else.
    """
    found = []
    for name, chip in sorted(named, key=lambda pair: -len(pair[0])):
        parts = re.findall(r"[a-z]+|[0-9]+", name)
        word = "[^a-z0-9]{0,3}".join(parts)
        found.append(
            (re.compile(f"(?<![a-z0-9]){before}(?P<name>{word}){after}(?![a-z0-9])"), chip)
        )
    return tuple(found)


def letters(name: str) -> str:
    """A name's letters and digits: what stands between them does not matter."""
    return re.sub(r"[^a-z0-9]", "", name.lower())
