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

Form = Literal["sxm", "pcie", "nvl", "chip"]
_FILE = Path(__file__).with_name("vocabulary.yaml")


@dataclass(frozen=True, slots=True)
class Bridge:
    """NVLinks between the two cards of a bridged pair; GB/s of one, per direction."""

    links: int
    GBps: float
    wire_GBps: float


@dataclass(frozen=True, slots=True)
class Build:
    """One way a chip is built. ``host``: a shipped design, ``pcie`` or ``ports`` (see the file).

    ``accelerator_GBps``: usable and signalling rate of its links where they are not the design's.
    ``paired``: its cards come with the bridge.
    """

    host: str
    model: str
    pcie: int
    bridge: Bridge | None = None
    paired: bool = False
    accelerator_GBps: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Chip:
    """A GPU and its forms, the usual one first. ``peers``: cards reach each other without the host."""

    name: str
    forms: Mapping[Form, Build]
    nic_Gbps: float
    peers: bool = True


@dataclass(frozen=True, slots=True)
class Transport:
    """What NICs speak, and the words that say so. ``usable``: share of the rate; None: unknown."""

    name: TransportName
    link_class: LinkClass
    usable: float | None
    words: frozenset[str]


@dataclass(frozen=True)
class Vocabulary:
    """All of the file. ``chip_patterns`` are tried in order: the longest name first."""

    chips: Mapping[str, Chip]
    chip_patterns: tuple[tuple[re.Pattern[str], str], ...]
    chip_of_link: Mapping[str, str]
    chip_of_system: tuple[tuple[re.Pattern[str], str], ...]
    chip_unsaid: str
    transports: tuple[Transport, ...]
    transport_unsaid: Mapping[str, TransportName]
    efa_models: Mapping[int, str]
    efa_first: str
    efa_first_chips: frozenset[str]
    rates_Gbps: Mapping[str, float]
    adapters_Gbps: Mapping[str, float]
    slowest_Gbps: float
    fastest_Gbps: float
    ignored: frozenset[str]
    link_words: frozenset[str]
    pcie_GBps: Mapping[int, tuple[float, float]]

    def transport(self, name: str) -> Transport:
        """The transport called ``name`` (the last entry of several)."""
        return {t.name: t for t in self.transports}[name]  # type: ignore[index]


@lru_cache(maxsize=1)
def vocabulary() -> Vocabulary:
    """The vocabulary that travels with clusterlab."""
    data = read_yaml(_FILE.read_text(encoding="utf-8"), file=_FILE.name).data
    chips = {entry["chip"]: _chip(entry) for entry in data["chips"]}
    named = [(word, e["chip"]) for e in data["chips"] for word in (e["chip"], *e.get("also", ()))]
    return Vocabulary(
        chips=chips,
        chip_patterns=_patterns(named, tight=False),
        chip_of_link=data["chip_of_link"],
        chip_of_system=_patterns(list(data["chip_of_system"].items()), tight=True),
        chip_unsaid=data["chip_unsaid"],
        transports=tuple(_transport(entry) for entry in data["transports"]),
        transport_unsaid=data["transport_unsaid"],
        efa_models={int(rate): model for rate, model in data["efa_models"].items()},
        efa_first=data["efa_first"],
        efa_first_chips=frozenset(data["efa_first_chips"]),
        rates_Gbps=data["rates"],
        adapters_Gbps=data["adapters"],
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
        bridge=Bridge(**entry["bridge"]) if "bridge" in entry else None,
        paired=entry.get("paired", False),
        accelerator_GBps=None if own is None else (own, entry["accelerator_wire_GBps"]),
    )


def _transport(entry: Mapping[str, Any]) -> Transport:
    return Transport(
        entry["transport"], entry["class"], entry.get("usable"), frozenset(entry["words"])
    )


def _patterns(
    named: list[tuple[str, str]], *, tight: bool
) -> tuple[tuple[re.Pattern[str], str], ...]:
    """A pattern for each name, the longest name first: ``gb200`` is no ``b200``, ``l40s`` no ``l4``.

    Letters and numbers may be parted by anything else. ``tight``: nothing may follow directly.
    """
    found = []
    for name, chip in sorted(named, key=lambda pair: -len(pair[0])):
        parts = re.findall(r"[a-z]+|[0-9]+", name)
        after = "(?![a-z0-9])" if tight else "(?![0-9])"
        pattern = "(?<![a-z0-9])" + "[^a-z0-9]{0,3}".join(parts) + after
        found.append((re.compile(pattern), chip))
    return tuple(found)
