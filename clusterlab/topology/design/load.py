"""Designs: a fabric written by hand as YAML, one per file in ``topologies/`` (its README has the schema).

    name: lab-2x4
    description: one line for people
    links:                            kinds of link; a figure that is given needs its source
      ndr: {class: ib, GBps: 50, GBps_source: "…", latency_us: unknown}
    hosts:                            equal hosts n0, n1, …; or names: node[001-016]
      count: 2
      devices: [{name: "gpu{i}", kind: gpu, count: 8, rail: index}, …]
      links:   [{from: "gpu{i}", to: "nic{i}", type: pcie5, multiplicity: 1}, …]
    network:                          what stands outside the hosts; host devices are n0/gpu0, …
      clos:    [{attach: "nic{i}", rails: 8, hosts_per_su: 32, spines: 16, uplinks: 32, …}]
      devices: […]
      links:   [{from: "n*/nic{i}", to: "leaf{i}", type: ndr}, …]

``hosts: {like: dgx-h100, count: 32}`` takes the hosts, and the kinds of link, of another design or file.
``{base: NAME, broken: ["leaf3/spine2#1", …]}`` is another design with failures. In ``from`` and ``to``,
``*`` stands for anything within one name and ``{i}`` for the same number on both sides. A wiring makes
both directions unless ``one_way: true``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from clusterlab.core.errors import UsageError
from clusterlab.formats.fields import mapping, sequence, text
from clusterlab.formats.strict_yaml import read_yaml
from clusterlab.topology.design.files import is_file, list_designs, read_design, shipped_design
from clusterlab.topology.design.hosts import hosts_of
from clusterlab.topology.design.network import generated_networks
from clusterlab.topology.design.parts import MAX_DEVICES, device_groups, limit, wired
from clusterlab.topology.fabric import Fabric, device_at_host, equal_hosts
from clusterlab.topology.host import host_fabric, read_host
from clusterlab.topology.parts import Device

__all__ = [
    "TOP_KEYS",
    "Outline",
    "described_designs",
    "fabric_from_yaml",
    "is_file",
    "list_designs",
    "load_fabric",
    "outline",
    "read_design",
]

TOP_KEYS = ("name", "description", "links", "hosts", "network")
_NETWORK_KEYS = ("clos", "devices", "links")


def load_fabric(name_or_path: str) -> Fabric:
    """The fabric of a shipped design (``h100-2``) or of a YAML file (anything with / or .yaml).

    ``host`` is the host this runs on; the file of that name shows its form. Raises UsageError naming
    the file, the line and the field.
    """
    if is_file(name_or_path):
        return _of_file(Path(name_or_path), 0)
    if name_or_path == "host":
        return host_fabric(read_host())
    path = shipped_design("fabric", name_or_path)
    return fabric_from_yaml(read_design(path), file=path.name, default_name=path.stem)


@dataclass(frozen=True)
class Outline:
    """What a design's hosts are, without its generated network: cheap at any size.

    ``host_devices`` are those of one host, under local names; ``network_devices`` the listed ones.
    """

    hosts: tuple[str, ...]
    host_devices: tuple[Device, ...]
    network_devices: tuple[Device, ...]
    description: str = ""


@lru_cache(maxsize=256)
def outline(name: str) -> Outline:
    """The outline of the shipped design ``name``. Raises UsageError as ``load_fabric`` does."""
    path = shipped_design("fabric", name)
    document = read_yaml(read_design(path), file=path.name)
    hosts = hosts_of(document, _of_file)
    others = device_groups(document, ("network", "devices"), host=None)
    description = text(document, ("description",), default="")
    return Outline(tuple(hosts.names), tuple(hosts.devices), tuple(others), description)


def described_designs() -> dict[str, str]:
    """Every design that travels with clusterlab and its line for people, sorted by name."""
    return {name: outline(name).description for name in list_designs()}


def _of_file(path: Path, depth: int) -> Fabric:
    return fabric_from_yaml(read_design(path), file=str(path), default_name=path.stem, depth=depth)


def fabric_from_yaml(content: str, *, file: str, default_name: str, depth: int = 0) -> Fabric:
    """Build the fabric a design describes. Raises UsageError naming file, line and field.

    ``depth`` is how many designs led to this one by ``like``.
    """
    document = read_yaml(content, file=file)
    mapping(document, (), TOP_KEYS)
    hosts = hosts_of(document, _of_file, depth=depth)
    kinds, names, devices = hosts.kinds, hosts.names, hosts.devices
    mapping(document, ("network",), _NETWORK_KEYS, optional=True)
    others, other_links, declared = generated_networks(document, names, devices, kinds)
    others += device_groups(
        document,
        ("network", "devices"),
        host=None,
        taken={d.name for d in others} | {f"{h}/{d.name}" for h in names for d in devices}
        if sequence(document, ("network", "devices"))
        else (),
    )
    if not devices and not others:
        raise UsageError("no devices", where=document.where(), expected="hosts or a network")
    if sequence(document, ("network", "links")):
        everything = [device_at_host(d, host) for host in names for d in devices] + others
        other_links += wired(document, ("network", "links"), everything, kinds)
    limit(len(names) * len(devices) + len(others), MAX_DEVICES, "devices", document)
    all_devices, all_links = equal_hosts(
        names, devices, hosts.links, others=others, other_links=other_links
    )
    return Fabric(
        name=text(document, ("name",), default=default_name),
        devices=all_devices,
        links=all_links,
        description=text(document, ("description",), default=""),
        origin=file,
        digest=_digest(content, hosts.files),
        oversubscription=declared,
    )


def _digest(content: str, more: Sequence[Path]) -> str:
    """SHA-256 of a design's text and of the files that it takes its hosts from."""
    found = hashlib.sha256(content.encode())
    for path in more:
        found.update(read_design(path).encode())
    return found.hexdigest()
