"""What ``ibstat`` and ``ibstatus`` print of one host's RDMA ports.

Grammar: infiniband-diags, src/ibstat.c and scripts/ibstatus. Both name a device and indent what belongs to
it as ``Key: value``. A rate beside ``Ethernet`` is the Ethernet rate even where the kernel words it as
InfiniBand's (``100 Gb/sec (4X EDR)`` is 100 GbE); of a port that is down it says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from clusterlab.core.errors import UsageError
from clusterlab.formats.infiniband import Rate, normal_guid, rate_of

LinkLayer = Literal["InfiniBand", "Ethernet"]

MAX_LINES = 100_000

_DEVICE = re.compile(r"\s*CA:? '([^']{1,64})'\s*$")
_PORT = re.compile(r"\s*Port (\d{1,3}):\s*$")
_STATUS = re.compile(r"\s*Infiniband device '([^']{1,64})' port (\d{1,3}) status:\s*$")
_KEY = re.compile(r"\s*([A-Za-z][A-Za-z _]{1,30}?)\s*:\s*(.*?)\s*$")
_NUMBER = re.compile(r"\s*(\d{1,6}(?:\.\d{1,3})?)(?!\d)")
_LAYERS: dict[str, LinkLayer] = {"infiniband": "InfiniBand", "ethernet": "Ethernet"}


@dataclass(frozen=True, slots=True)
class RdmaPort:
    """One port. ``state`` is the logical one (``Active``), ``physical`` the link's (``LinkUp``), each as
    written without ibstatus's number; None: not said, or cut off.

    ``rate_Gbps`` is as printed, ``rate`` its width and speed where printed.
    """

    number: int
    line: int
    state: str | None = None
    physical: str | None = None
    rate_Gbps: float | None = None
    rate: Rate | None = None
    link_layer: LinkLayer | None = None
    guid: str | None = None

    @property
    def active(self) -> bool:
        """Whether it carries traffic: a link that is up without a subnet manager (Initialize) does not."""
        return (self.state or "").lower() == "active"


@dataclass(frozen=True, slots=True)
class RdmaDevice:
    """One device with its ports. ``model`` is the CA type (``MT4129``), from ibstat only."""

    name: str
    line: int
    model: str | None = None
    guid: str | None = None
    ports: tuple[RdmaPort, ...] = ()


def recognise(text: str) -> bool:
    """Whether a line opens a device as ibstat or ibstatus do."""
    return any(
        len(line) < 200 and (_DEVICE.match(line) or _STATUS.match(line))
        for line in text.splitlines()
    )


@dataclass
class _Open:
    """A device while it is read: keys of its own, then of each port."""

    device: RdmaDevice
    own: dict[str, str] = field(default_factory=dict)
    ports: list[tuple[RdmaPort, dict[str, str]]] = field(default_factory=list)

    def keys(self) -> dict[str, str]:
        """Where the next key belongs."""
        return self.ports[-1][1] if self.ports else self.own


def parse_ibstat(text: str, *, file: str) -> tuple[RdmaDevice, ...]:
    """The devices in ``text``, in order. Raises UsageError where there is none or one is listed twice."""
    lines = text.splitlines()
    if len(lines) > MAX_LINES:
        raise UsageError(f"{len(lines)} lines", where=file, expected="the ports of one host")
    opened: dict[str, _Open] = {}
    current: _Open | None = None
    for number, line in enumerate(lines, 1):
        if len(line) > 200:
            continue
        if device := _DEVICE.match(line):
            if device.group(1) in opened:
                raise _twice(device.group(1), file, number)
            current = opened[device.group(1)] = _Open(RdmaDevice(device.group(1), number))
        elif status := _STATUS.match(line):
            name, port = status.group(1), int(status.group(2))
            current = opened.setdefault(name, _Open(RdmaDevice(name, number)))
            _add_port(current, port, file, number)
        elif current and (port_line := _PORT.match(line)):
            _add_port(current, int(port_line.group(1)), file, number)
        elif current and (key := _KEY.match(line)):
            current.keys().setdefault(key.group(1).lower().replace("_", " "), key.group(2))
    if not opened:
        raise UsageError(
            "no RDMA device",
            where=f"{file}:1",
            expected="lines such as: CA 'mlx5_0', or: Infiniband device 'mlx5_0' port 1 status:",
            fix="save the whole output of ibstat or ibstatus",
        )
    return tuple(_closed(item) for item in opened.values())


def _twice(name: str, file: str, number: int) -> UsageError:
    return UsageError(
        f"{name} is listed again",
        where=f"{file}:{number}",
        expected="each device once",
        fix="import one host's output at a time",
    )


def _add_port(current: _Open, port: int, file: str, number: int) -> None:
    if any(known.number == port for known, _ in current.ports):
        raise _twice(f"port {port} of {current.device.name}", file, number)
    current.ports.append((RdmaPort(port, number), {}))


def _closed(item: _Open) -> RdmaDevice:
    return replace(
        item.device,
        model=item.own.get("ca type") or None,
        guid=normal_guid(item.own.get("node guid", "")),
        ports=tuple(_port(port, keys) for port, keys in item.ports),
    )


def _port(port: RdmaPort, keys: Mapping[str, str]) -> RdmaPort:
    rate = keys.get("rate", "")
    number = _NUMBER.match(rate)
    return replace(
        port,
        state=_word(keys.get("state")),
        physical=_word(keys.get("physical state") or keys.get("phys state")),
        rate_Gbps=float(number.group(1)) if number and float(number.group(1)) > 0 else None,
        rate=rate_of(rate) or _fdr10(rate),
        link_layer=_LAYERS.get(keys.get("link layer", "").lower()),
        guid=normal_guid(keys.get("port guid", "")),
    )


def _fdr10(rate: str) -> Rate | None:
    """ibstat writes ``40 (FDR10)``: the one speed it names, as 40 is QDR's too."""
    return Rate(4, "FDR10") if "FDR10" in rate else None


def _word(text: str | None) -> str | None:
    """``4: ACTIVE`` and ``Active`` are ``Active``; LinkUp keeps its capitals."""
    if not text:
        return None
    word = text.partition(":")[2].strip() or text.strip()
    return word.capitalize() if word.isupper() else word
