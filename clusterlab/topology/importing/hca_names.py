"""What a node description of an InfiniBand subnet says: whose port it is, and what a switch is called.

A host writes its own (rdma-ndd: ``%h %d``, older scripts: ``<host> HCA-<n>``); one that never did keeps
the adapter's model. Switches of one vendor say ``MF0;<name>:<model>/U1``, parts of a director
``…/L02/U1`` (line board) and ``…/S01/U1`` (spine board).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from clusterlab.topology.parts import DeviceKind, Role

_DEVICE = re.compile(
    r"(?:mlx\d+_(?:bond_)?\d+|HCA-?\d+|hca\d*|mthca\d+|qib\d+|hfi\d+_\d+|bnxt_re\d+|cxgb\d_\d+"
    r"|irdma\w+|ib[sp]\d\w*|roce\w*|ib\d+|rdma\d+)",
    re.IGNORECASE,
)
_VENDOR = re.compile(
    r"Mellanox Technologies|ConnectX|InfiniHost|InfiniScale|Voltaire|QLogic|Topspin|BlueField"
    r"|\bMT\d{4,5}\b|NVIDIA (?:ConnectX|BlueField)|Intel\b.*(?:Adapter|HFI)",
    re.IGNORECASE,
)
_NOBODY = ("", "localhost", "localhost.localdomain", "(none)", "none", "unknown")
_ADDRESSES = re.compile(r"\s+[SC]\s+\d{1,3}(?:\.\d{1,3}){3}.*$")
"""Engineered systems append their addresses to the host: ``cel01 S 192.168.10.5,192.168.10.6 HCA-1``."""

_FIRMWARE_NAME = re.compile(r"MF\d+;(.+):([^:/]+)((?:/[A-Z]\d+)*)")


@dataclass(frozen=True, slots=True)
class Adapter:
    """Whose adapter a description names; None: not said. ``aggregation``: the SHARP node in a switch."""

    host: str | None
    device: str | None
    aggregation: bool = False


@dataclass(frozen=True, slots=True)
class SwitchName:
    """A switch's own name (None: only its model is known) and model. ``board`` is its place in a director."""

    name: str | None
    model: str | None
    board: str | None = None


def read_adapter(description: str) -> Adapter:
    """The host and device in an adapter's description."""
    text = " ".join(description.split())
    if "aggregation node" in text.lower():
        return Adapter(None, None, aggregation=True)
    words = text.split(" ")
    if len(words) > 1 and _DEVICE.fullmatch(words[-1]):
        host, device = _ADDRESSES.sub("", " ".join(words[:-1])), words[-1]
    elif "/" in text and len(words) == 1:
        host, _, device = text.partition("/")
    else:
        host, device = text, ""
    if _VENDOR.search(host):
        return Adapter(None, None)
    return Adapter(None if host.lower() in _NOBODY else host, device or None)


def read_switch(description: str) -> SwitchName:
    """The name, model and board in a switch's description."""
    text = " ".join(description.split())
    found = _FIRMWARE_NAME.fullmatch(text)
    if found:
        boards = [b for b in found.group(3).split("/") if b and not b.startswith("U")]
        board = "/".join(boards) or None
        return SwitchName(found.group(1).strip() or None, found.group(2), board)
    if not text or _VENDOR.search(text):
        return SwitchName(None, text or None)
    return SwitchName(text, None)


_TIER_WORDS: tuple[tuple[str, DeviceKind], ...] = (
    ("spine", "spine"),
    ("core", "core"),
    ("leaf", "leaf"),
)


def tier_named(switch: SwitchName) -> DeviceKind | None:
    """The tier that a switch's name or its place in a director tells; None: neither does."""
    if switch.board:
        return "spine" if switch.board.startswith("S") else "leaf"
    name = (switch.name or "").lower()
    return next((kind for word, kind in _TIER_WORDS if word in name), None)


_STORAGE = r"lustre|oss|ost|mds|mdt|mgs|gpfs|nsd|ess|weka|vast|ddn|beegfs|bee|storage|stor|nfs|nas|daos|ceph"
_MANAGEMENT = r"c?ufm|opensm|sm|mgmt|mgt|management|admin|login|head|master|bcm|controller|monitor"
_ROLES: tuple[tuple[Role, re.Pattern[str]], ...] = (
    ("storage", re.compile(rf"(?:^|[^a-z])(?:{_STORAGE})(?:$|[^a-z])", re.IGNORECASE)),
    ("management", re.compile(rf"(?:^|[^a-z])(?:{_MANAGEMENT})(?:$|[^a-z])", re.IGNORECASE)),
)


def role_named(host: str) -> Role | None:
    """What a host's name says it serves: storage, management, or nothing (None)."""
    return next((role for role, words in _ROLES if words.search(host)), None)
