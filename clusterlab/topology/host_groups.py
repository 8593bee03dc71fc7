"""Groups of hosts that a scheduler keeps together: Slurm's blocks, rings and tori. Pure.

Such a group is no switch: no file says by which hardware its hosts reach each other. It is kept as a device
of kind ``external``, joined to its hosts by links of class network without a rate, so that it survives in a
saved fabric and counts in no tier, ratio or route. Its model says what it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Device

GroupKind = Literal["block", "ring", "torus"]

_MODEL = re.compile(r"Slurm (block|ring|torus)(?:, sizes (\d+(?:,\d+)*))?")


@dataclass(frozen=True, slots=True)
class HostGroup:
    """``sizes`` are Slurm's BlockSizes, of all blocks of one file; empty where it names none."""

    name: str
    kind: GroupKind
    hosts: tuple[str, ...]
    sizes: tuple[int, ...] = ()


def group_device(name: str, kind: GroupKind, sizes: Sequence[int] = ()) -> Device:
    """The device that stands for a group."""
    listed = f", sizes {','.join(map(str, sizes))}" if sizes else ""
    return Device(name, "external", model=f"Slurm {kind}{listed}")


def is_host_group(device: Device) -> bool:
    """Whether a device stands for a group of hosts."""
    return device.kind == "external" and _MODEL.fullmatch(device.model or "") is not None


def host_groups(fabric: Fabric) -> tuple[HostGroup, ...]:
    """The groups in the fabric's order, each with its hosts in the order of its links."""
    found = []
    for device in fabric.network_devices:
        said = _MODEL.fullmatch(device.model or "") if device.kind == "external" else None
        if said is None:
            continue
        ends = (fabric.host_of(link.dst) for link in fabric.links_from(device.name))
        found.append(
            HostGroup(
                name=device.name,
                kind=cast(GroupKind, said[1]),
                hosts=tuple(dict.fromkeys(host for host in ends if host is not None)),
                sizes=tuple(map(int, said[2].split(","))) if said[2] else (),
            )
        )
    return tuple(found)
