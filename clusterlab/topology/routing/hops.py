"""A way through a fabric as data and text: hops, NCCL's and nvidia-smi's words, why there is none."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from clusterlab.topology.routing.host_graph import PathType


@dataclass(frozen=True, slots=True)
class Hop:
    """One step. ``GBps`` per direction of all ``links`` it uses at once (one cable of a network's);
    None: unknown. ``cable`` names a network's cable (``leaf3/spine2#1``), chosen among ``ways``.
    Several NVSwitches that carry it together are one end: ``n2/nvswitch[0-3]``.
    """

    src: str
    dst: str
    link_class: str
    GBps: float | None
    links: int = 1
    cable: str | None = None
    ways: int = 1


@dataclass(frozen=True, slots=True)
class Trace:
    """The way from ``src`` to ``dst``. ``type`` is NCCL's path type, ``GBps`` the least of its hops (less
    where NVSwitches between them cannot use all their links at once).

    ``parts`` are the types of the way to the NIC and from the other one, where it leads through the
    network. ``policy`` chose among equal cables there. No hops: no way (DIS, ``reason`` says why), or
    src is dst (LOC). ``not_up_down`` says how a path through the network is not up-down, where no
    up-down path leads there. ``topo_m`` is what `nvidia-smi topo -m` says of two GPUs or NICs of one host.
    """

    src: str
    dst: str
    type: str
    GBps: float | None
    hops: tuple[Hop, ...]
    parts: tuple[str, ...] = ()
    policy: str | None = None
    topo_m: str | None = None
    reason: str | None = None
    not_up_down: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data, in the order people read it."""
        return asdict(self)

    def text(self) -> str:
        """One line of summary, then one per hop."""
        if self.type == PathType.DIS.name:
            why = f": {self.reason}" if self.reason else ""
            return f"{self.src} -> {self.dst}: {self.type}\n  no way{why}"
        lines = [f"{self.src} -> {self.dst}: {self.type}{self._remarks()}{self._rate()}"]
        if self.not_up_down:
            lines.append(f"  not up-down, as no such path leads there; {self.not_up_down}")
        width = max((len(hop.src) + len(hop.dst) for hop in self.hops), default=0) + 4
        return "\n".join([*lines, *(_hop_text(hop, width) for hop in self.hops)])

    def _remarks(self) -> str:
        if self.policy:
            return f" ({' + '.join(self.parts)}, {self.policy} routing)"
        if self.topo_m is not None and self.topo_m != self.type:
            return f" (topo -m: {self.topo_m})"
        return ""

    def _rate(self) -> str:
        return "" if self.GBps is None else f", {self.GBps:g} GB/s"


def _hop_text(hop: Hop, width: int) -> str:
    name = f"{hop.src} -> {hop.dst}"
    each = "unknown" if hop.GBps is None else f"{hop.GBps:g} GB/s"
    more = f", {hop.links} links" if hop.links > 1 else ""
    if hop.cable is not None:
        more = f", cable {hop.cable}" + (f" of {hop.ways} equal" if hop.ways > 1 else "")
    return f"  {name:<{width}}  {hop.link_class:<8} {each}{more}"
