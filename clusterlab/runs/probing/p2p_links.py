"""What a fabric says of the paths between this machine's visible GPUs, and to their host's memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clusterlab.core.errors import ClusterlabError, UsageError
from clusterlab.core.p2p import HOST, LinkFigure, P2pGpu
from clusterlab.topology.discover.join import join_machines
from clusterlab.topology.discover.machine import read_machine
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.opening import open_fabric
from clusterlab.topology.parts import Link
from clusterlab.topology.routing.path_types import host_path

_BETWEEN_GPUS = ("nvlink", "xgmi")


@dataclass(frozen=True, slots=True)
class Links:
    """The figures, whose they are, and why some or all are missing."""

    figures: tuple[LinkFigure, ...]
    fabric: str
    notes: tuple[str, ...] = ()


def links_of(gpus: Sequence[P2pGpu], named: str | None) -> Links:
    """On the fabric called ``named``, or on what this machine says of itself.

    Raises UsageError for a fabric that is named and does not have these GPUs.
    """
    if named is not None:
        fabric = open_fabric(named)
        return Links(_figures(fabric, _in_order(fabric, gpus)), fabric.name)
    try:
        fabric = join_machines([read_machine()]).fabric
    except ClusterlabError as error:
        return Links(
            (), "none", (f"this machine is not understood, so nothing is predicted: {error}",)
        )
    devices = _by_uuid(fabric, gpus)
    missing = [str(gpu.index) for gpu in gpus if gpu.index not in devices]
    notes = (f"NVML does not show GPU {', '.join(missing)}: no link figures",) if missing else ()
    return Links(_figures(fabric, devices), "this machine (topo discover)", notes)


def _in_order(fabric: Fabric, gpus: Sequence[P2pGpu]) -> dict[int, str]:
    """The first GPUs of the fabric's first host."""
    there = fabric.on_host(fabric.hosts[0], "gpu") if fabric.hosts else ()
    if len(there) < len(gpus):
        raise UsageError(
            f"{len(gpus)} visible GPUs",
            where=f"fabric {fabric.name}",
            expected=f"at most the {len(there)} of its first host",
        )
    return {gpu.index: device.name for gpu, device in zip(gpus, there, strict=False)}


def _by_uuid(fabric: Fabric, gpus: Sequence[P2pGpu]) -> dict[int, str]:
    names = {device.guid: device.name for device in fabric.of_kind("gpu") if device.guid}
    return {gpu.index: names[gpu.uuid] for gpu in gpus if gpu.uuid in names}


def _figures(fabric: Fabric, devices: Mapping[int, str]) -> tuple[LinkFigure, ...]:
    figures = []
    for a, src in devices.items():
        for b, dst in devices.items():
            if a != b:
                figures.append(_between(fabric, a, b, src, dst))
        cpu = _near_cpu(fabric, src)
        if cpu is not None:
            there, back = host_path(fabric, cpu, src), host_path(fabric, src, cpu)
            figures.append(LinkFigure(HOST, a, there.type.name, there.GBps))
            figures.append(LinkFigure(a, HOST, back.type.name, back.GBps))
    return tuple(figures)


def _between(fabric: Fabric, a: int, b: int, src: str, dst: str) -> LinkFigure:
    path = host_path(fabric, src, dst)
    lanes = _lanes(fabric, src, dst) if path.type.name == "NVL" else []
    wire = [link.wire_capacity_GBps for link in lanes]
    known = [rate for rate in wire if rate is not None]
    return LinkFigure(
        a,
        b,
        path.type.name,
        path.GBps,
        sum(known) if known and len(known) == len(wire) else None,
        sum(link.multiplicity for link in lanes) or None,
    )


def _lanes(fabric: Fabric, src: str, dst: str) -> list[Link]:
    """The links by which ``src`` reaches ``dst``: its own to it, or all to the switches between them."""
    fast = [link for link in fabric.links_from(src) if link.link_class in _BETWEEN_GPUS]
    direct = [link for link in fast if link.dst == dst]
    return direct or [link for link in fast if fabric.kind_of(link.dst) == "nvswitch"]


def _near_cpu(fabric: Fabric, gpu: str) -> str | None:
    """The CPU whose memory is nearest to ``gpu``."""
    device = fabric.device(gpu)
    if device.host is None:
        return None
    cpus = fabric.on_host(device.host, "cpu")
    paths = {cpu.name: host_path(fabric, gpu, cpu.name) for cpu in cpus}
    return min(paths, key=lambda name: paths[name].type, default=None)
