"""An InfiniBand subnet as its tools list it: nodes, ports, and what a link's width and speed carry.

Shared by the readers of ibnetdiscover's forms and of ibstat; they differ in grammar, not in content.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

NodeKind = Literal["switch", "ca", "router"]

_LANES: dict[str, tuple[float, float]] = {
    "SDR": (2.5, 2.5 * 8 / 10),
    "DDR": (5.0, 5.0 * 8 / 10),
    "QDR": (10.0, 10.0 * 8 / 10),
    "FDR10": (10.3125, 10.3125 * 64 / 66),
    "FDR": (14.0625, 14.0625 * 64 / 66),
    "EDR": (25.0, 25.0),
    "HDR": (50.0, 50.0),
    "NDR": (100.0, 100.0),
    "XDR": (200.0, 200.0),
}
"""Gb/s of one lane: on the wire, and of data after line coding (InfiniBand Architecture Specification,
volume 2: 8b/10b up to QDR, 64b/66b for FDR). From EDR on the name is the data rate and no other is kept."""

SPEEDS: tuple[str, ...] = tuple(_LANES)
"""Slowest first."""

_WIDTHS = (1, 2, 4, 8, 12)
_RATE = re.compile(r"\b(\d{1,2})[xX]\s*(SDR|DDR|QDR|FDR10|FDR|EDR|HDR|NDR|XDR)\b")
_HEX = re.compile(r"(?:0x)?([0-9a-fA-F]{1,16})")


@dataclass(frozen=True, slots=True)
class Rate:
    """A link's width and speed as written (``4xNDR``); GB/s are 1e9 B/s per direction.

    ``data_GBps`` is what is left after line coding, ``wire_GBps`` the signalling rate.
    """

    width: int
    speed: str

    @property
    def name(self) -> str:
        """``4xNDR``, as ibnetdiscover writes it."""
        return f"{self.width}x{self.speed}"

    @property
    def wire_GBps(self) -> float:
        """Signalling rate of all lanes."""
        return self.width * _LANES[self.speed][0] / 8

    @property
    def data_GBps(self) -> float:
        """What all lanes carry after line coding."""
        return self.width * _LANES[self.speed][1] / 8


def rate_of(text: str) -> Rate | None:
    """The first ``4xHDR`` or ``4X HDR`` in ``text``; None where there is none or its speed is ``???``."""
    found = _RATE.search(text)
    if found is None or int(found.group(1)) not in _WIDTHS:
        return None
    return Rate(int(found.group(1)), found.group(2))


def normal_guid(text: str) -> str | None:
    """A GUID as 16 lower-case digits (tools pad it or not, with 0x or without); None if it is none."""
    found = _HEX.fullmatch(text.strip())
    return found.group(1).lower().zfill(16) if found else None


@dataclass(frozen=True, slots=True)
class IbPort:
    """One port of a node and what is at the other end of its cable.

    ``far`` is the other node's id, None for a port without a cable. ``far_kind`` and
    ``far_description`` are what this line says of it. ``line`` is where it stands in the file.
    """

    number: int
    far: str | None
    far_port: int | None
    far_kind: NodeKind | None
    far_description: str
    rate: Rate | None
    line: int


@dataclass(frozen=True, slots=True)
class IbNode:
    """A switch, channel adapter or router. ``id`` names it within the file.

    ``port_count`` is what it declares (an aggregation port included), ``device_id`` the vendor's number
    of the model, ``chassis`` the director it sits in; None: not said.
    """

    id: str
    kind: NodeKind
    guid: str | None
    description: str
    line: int
    ports: tuple[IbPort, ...] = ()
    port_count: int | None = None
    device_id: str | None = None
    chassis: str | None = None


@dataclass(frozen=True, slots=True)
class Unread:
    """A line that should have been a node or port and could not be read as one."""

    line: int
    text: str


@dataclass(frozen=True)
class IbNetwork:
    """All that a listing says. ``style``: blocks of nodes, one line a port (``-p``), or nodes only (``-l``).

    ``repeated`` are nodes listed more than once (the first counts), ``scan_errors`` what the tool said
    went wrong while it looked.
    """

    nodes: tuple[IbNode, ...]
    style: Literal["blocks", "ports", "list"]
    unread: tuple[Unread, ...] = ()
    repeated: tuple[Unread, ...] = ()
    scan_errors: tuple[Unread, ...] = ()
