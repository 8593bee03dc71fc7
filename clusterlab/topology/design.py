"""Designs: a fabric written by hand as YAML, one per file in ``topologies/`` (its README has the schema).

    name: lab-2x4
    description: one line for people
    links:                            kinds of link; a figure that is given needs its source
      ndr: {class: ib, GBps: 50, GBps_source: "…", latency_us: unknown}
    hosts:                            count equal hosts, called n0, n1, …
      count: 2
      devices: [{name: "gpu{i}", kind: gpu, count: 8, rail: index}, …]
      links:   [{from: "gpu{i}", to: "nic{i}", type: pcie5, multiplicity: 1}, …]
    network:                          what stands outside the hosts; host devices are n0/gpu0, …
      devices: […]
      links:   [{from: "n*/nic{i}", to: "leaf{i}", type: ndr}, …]

In ``from`` and ``to``, ``*`` stands for anything within one name and ``{i}`` for the same number on
both sides. A wiring makes both directions unless ``one_way: true``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from clusterlab.core.errors import UsageError
from clusterlab.core.shipped import shipped
from clusterlab.core.suggest import unknown
from clusterlab.formats.fields import mapping, text, whole
from clusterlab.formats.strict_yaml import Document, read_yaml
from clusterlab.topology.design_parts import (
    MAX_DEVICES,
    MAX_LINKS,
    LinkKind,
    device_groups,
    limit,
    link_kind,
    need_number,
    wired,
)
from clusterlab.topology.fabric import Device, Fabric, Link
from clusterlab.topology.host import host_fabric, read_host

MAX_FILE_BYTES = 16 << 20
"""Designs are written by hand: a larger file is something else."""

_TOP_KEYS = ("name", "description", "links", "hosts", "network")
_HOST_KEYS = ("count", "name", "devices", "links")
_NETWORK_KEYS = ("devices", "links")


def list_designs() -> list[str]:
    """Names of the designs that travel with clusterlab, sorted."""
    return sorted(p.stem for p in shipped("topologies").glob("*.yaml"))


def load_fabric(name_or_path: str) -> Fabric:
    """The fabric of a shipped design (``h100-2``) or of a YAML file (anything with / or .yaml).

    ``host`` is the host this runs on; the file of that name shows its form. Raises UsageError naming
    the file, the line and the field.
    """
    path = Path(name_or_path)
    if path.suffix in (".yaml", ".yml") or "/" in name_or_path:
        return fabric_from_yaml(_read(path), file=str(path), default_name=path.stem)
    if name_or_path == "host":
        return host_fabric(read_host())
    known = list_designs()
    if name_or_path not in known:
        raise unknown("fabric", name_or_path, known)
    path = shipped("topologies") / f"{name_or_path}.yaml"
    return fabric_from_yaml(_read(path), file=path.name, default_name=path.stem)


def _read(path: Path) -> str:
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
    """Build the fabric a design describes. Pure. Raises UsageError naming file, line and field."""
    document = read_yaml(content, file=file)
    mapping(document, (), _TOP_KEYS)
    kinds = {
        name: link_kind(document, name)
        for name in mapping(document, ("links",), None, optional=True)
    }
    host_devices, host_links = _hosts(document, kinds)
    mapping(document, ("network",), _NETWORK_KEYS, optional=True)
    taken = {d.name for d in host_devices}
    devices = [
        *host_devices,
        *device_groups(document, ("network", "devices"), host=None, taken=taken),
    ]
    if not devices:
        raise UsageError("no devices", where=document.where(), expected="hosts or a network")
    limit(len(devices), MAX_DEVICES, "devices", document)
    links = [*host_links, *wired(document, ("network", "links"), devices, kinds)]
    return Fabric(
        name=text(document, ("name",), default=default_name),
        devices=tuple(devices),
        links=tuple(links),
        description=text(document, ("description",), default=""),
        origin=file,
        digest=hashlib.sha256(content.encode()).hexdigest(),
    )


def _hosts(document: Document, kinds: Mapping[str, LinkKind]) -> tuple[list[Device], list[Link]]:
    """One host is built and checked, then repeated ``count`` times under its names."""
    if not mapping(document, ("hosts",), _HOST_KEYS, optional=True):
        return [], []
    count = whole(document, ("hosts", "count"), default=1)
    pattern = text(document, ("hosts", "name"), default="n{i}")
    need_number(pattern, count, where=document.where("hosts", "name"))
    devices = device_groups(document, ("hosts", "devices"), host=pattern)
    links = wired(document, ("hosts", "links"), devices, kinds)
    limit(count * len(devices), MAX_DEVICES, "devices", document)
    limit(count * len(links), MAX_LINKS, "links", document)
    names = [pattern.replace("{i}", str(i)) for i in range(count)]
    return (
        [replace(d, name=f"{host}/{d.name}", host=host) for host in names for d in devices],
        [
            replace(link, src=f"{host}/{link.src}", dst=f"{host}/{link.dst}")
            for host in names
            for link in links
        ],
    )
