"""Designs: a fabric written by hand as YAML, one per file in ``topologies/`` (its README has the schema).

    name: lab-2x4
    description: one line for people
    links:                            kinds of link; a figure that is given needs its source
      ndr: {class: ib, GBps: 50, GBps_source: "…", latency_us: unknown}
    hosts:                            count equal hosts, called n0, n1, … (or names: [a1, b7])
      count: 2
      devices: [{name: "gpu{i}", kind: gpu, count: 8, rail: index}, …]
      links:   [{from: "gpu{i}", to: "nic{i}", type: pcie5, multiplicity: 1}, …]
    network:                          what stands outside the hosts; host devices are n0/gpu0, …
      clos:    [{attach: "nic{i}", rails: 8, hosts_per_su: 32, spines: 16, uplinks: 32, …}]
      devices: […]
      links:   [{from: "n*/nic{i}", to: "leaf{i}", type: ndr}, …]

``hosts: {like: dgx-h100, count: 32}`` takes the hosts, and the kinds of link, of another design.
``{base: NAME, broken: ["leaf3/spine2#1", …]}`` is another design with failures. In ``from`` and ``to``,
``*`` stands for anything within one name and ``{i}`` for the same number on both sides. A wiring makes
both directions unless ``one_way: true``.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from clusterlab.core.errors import UsageError
from clusterlab.core.shipped import shipped
from clusterlab.core.suggest import unknown
from clusterlab.formats.fields import mapping, sequence, text, whole
from clusterlab.formats.strict_yaml import Document, read_yaml
from clusterlab.topology.design.network import generated_networks
from clusterlab.topology.design.parts import (
    MAX_DEVICES,
    MAX_LINKS,
    LinkKind,
    device_groups,
    limit,
    link_kind,
    need_number,
    wired,
)
from clusterlab.topology.fabric import Fabric, device_at_host, equal_hosts
from clusterlab.topology.host import host_fabric, read_host
from clusterlab.topology.parts import Device, Link

MAX_FILE_BYTES = 16 << 20
"""Designs are written by hand: a larger file is something else."""

TOP_KEYS = ("name", "description", "links", "hosts", "network")
_HOST_KEYS = ("count", "name", "names", "like", "devices", "links")
_NETWORK_KEYS = ("clos", "devices", "links")
_MAX_LIKE = 8
"""How many designs may take their hosts from each other in a row: more is a circle."""


def list_designs() -> list[str]:
    """Names of the designs that travel with clusterlab, sorted."""
    return sorted(p.stem for p in shipped("topologies").glob("*.yaml"))


def load_fabric(name_or_path: str) -> Fabric:
    """The fabric of a shipped design (``h100-2``) or of a YAML file (anything with / or .yaml).

    ``host`` is the host this runs on; the file of that name shows its form. Raises UsageError naming
    the file, the line and the field.
    """
    if is_file(name_or_path):
        path = Path(name_or_path)
        return fabric_from_yaml(read_design(path), file=str(path), default_name=path.stem)
    if name_or_path == "host":
        return host_fabric(read_host())
    known = list_designs()
    if name_or_path not in known:
        raise unknown("fabric", name_or_path, known)
    path = shipped("topologies") / f"{name_or_path}.yaml"
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
    known = list_designs()
    if name not in known:
        raise unknown("fabric", name, known)
    path = shipped("topologies") / f"{name}.yaml"
    document = read_yaml(read_design(path), file=path.name)
    _, names, devices, _ = _hosts(document)
    others = device_groups(document, ("network", "devices"), host=None)
    description = text(document, ("description",), default="")
    return Outline(tuple(names), tuple(devices), tuple(others), description)


def described_designs() -> dict[str, str]:
    """Every design that travels with clusterlab and its line for people, sorted by name."""
    return {name: outline(name).description for name in list_designs()}


def is_file(name_or_path: str) -> bool:
    """Whether ``--fabric`` names a file rather than a design: it has a slash or an extension."""
    return "/" in name_or_path or bool(Path(name_or_path).suffix)


def read_design(path: Path) -> str:
    """The text of a design file. Raises UsageError naming it when it cannot be read."""
    try:
        if path.exists() and not path.is_file():
            raise UsageError(
                "not a regular file", where=str(path), expected="a fabric design (YAML)"
            )
        if path.stat().st_size > MAX_FILE_BYTES:
            raise UsageError(
                f"{path.stat().st_size} bytes",
                where=str(path),
                expected=f"a fabric design of at most {MAX_FILE_BYTES} bytes",
            )
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot be read: {error.strerror}",
            where=str(path),
            expected="a fabric design (YAML)",
        ) from None
    except UnicodeDecodeError:
        raise UsageError("not text", where=str(path), expected="a fabric design (YAML)") from None


def fabric_from_yaml(content: str, *, file: str, default_name: str) -> Fabric:
    """Build the fabric a design describes. Raises UsageError naming file, line and field."""
    document = read_yaml(content, file=file)
    mapping(document, (), TOP_KEYS)
    kinds, names, devices, links = _hosts(document)
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
        names, devices, links, others=others, other_links=other_links
    )
    return Fabric(
        name=text(document, ("name",), default=default_name),
        devices=all_devices,
        links=all_links,
        description=text(document, ("description",), default=""),
        origin=file,
        digest=hashlib.sha256(content.encode()).hexdigest(),
        oversubscription=declared,
    )


Template = tuple[dict[str, LinkKind], list[str], list[Device], list[Link]]


def _hosts(document: Document, *, depth: int = 0) -> Template:
    """Kinds of link, host names, and one host's devices and links under local names."""
    kinds = {
        name: link_kind(document, name)
        for name in mapping(document, ("links",), None, optional=True)
    }
    if not mapping(document, ("hosts",), _HOST_KEYS, optional=True):
        return kinds, [], [], []
    names = _host_names(document)
    like = text(document, ("hosts", "like"), default="")
    devices: list[Device] = []
    links: list[Link] = []
    if like:
        their_kinds, devices, links = _like(document, like, depth)
        kinds = their_kinds | kinds
    more = device_groups(document, ("hosts", "devices"), host="", taken={d.name for d in devices})
    links += wired(document, ("hosts", "links"), [*devices, *more], kinds)
    devices += more
    limit(len(names) * len(devices), MAX_DEVICES, "devices", document)
    limit(len(names) * len(links), MAX_LINKS, "links", document)
    return kinds, names, devices, links


def _host_names(document: Document) -> list[str]:
    """``names`` as listed, or ``count`` of them by the pattern ``name``."""
    listed = sequence(document, ("hosts", "names"))
    if listed:
        mapping(document, ("hosts",), tuple(k for k in _HOST_KEYS if k not in ("count", "name")))
        return [text(document, ("hosts", "names", i)) for i in range(len(listed))]
    count = whole(document, ("hosts", "count"), default=1)
    limit(count, MAX_DEVICES, "hosts", document)
    pattern = text(document, ("hosts", "name"), default="n{i}")
    need_number(pattern, count, where=document.where("hosts", "name"))
    return [pattern.replace("{i}", str(i)) for i in range(count)]


def _like(
    document: Document, name: str, depth: int
) -> tuple[dict[str, LinkKind], list[Device], list[Link]]:
    """The kinds of link and one host of the shipped design ``name``."""
    where = document.where("hosts", "like")
    known = list_designs()
    if name not in known:
        raise unknown("design", name, known, where=where)
    if depth >= _MAX_LIKE:
        raise UsageError("designs that take their hosts from each other in a circle", where=where)
    path = shipped("topologies") / f"{name}.yaml"
    kinds, _, devices, links = _hosts(read_yaml(read_design(path), file=path.name), depth=depth + 1)
    if not devices:
        raise UsageError(f"design {name} has no hosts", where=where)
    return kinds, devices, links
