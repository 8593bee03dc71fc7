"""What InfraGraph's devices, components and links are in a fabric, from their types, names and descriptions.

InfraGraph types a component xpu, cpu, nic, memory, port, switch or custom; the rest is in names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from clusterlab.formats.infragraph_model import Component, LinkType, Template
from clusterlab.topology.parts import DEVICE_KINDS, LINK_CLASSES, DeviceKind, LinkClass

DeviceRole = Literal["host", "switch", "nic", "cable"]
"""How a whole device enters the fabric: its parts one by one, as one switch, as one NIC, as a cable."""

_NIC = re.compile(r"(?i)(?:^|[^a-z])(?:cx-?\d|connectx|nics?|hca|bluefield|bf-?\d|dpu|mlx\d|roce)")
_CABLE = re.compile(r"(?i)osfp|qsfp|(?<![a-z])sfp|transceiver|(?<![a-z])(?:dac|aoc)(?![a-z])")
_SWITCH = re.compile(r"(?i)switch|sw(?![a-z])|leaf|spine|router|(?<![a-z])tor(?![a-z])|tier|core")
_NVSWITCH = re.compile(r"(?i)nv-?l?(?:ink)?[ _-]?sw|nvswitch|nvlink switch")
_PCIE_SWITCH = re.compile(r"(?i)pci.*(?:sw|switch|plx)")
_GPU = {"xpu", "npu", "gpu"}
_GPU_NAME = re.compile(r"(?i)^[xngt]pu")
_SWITCH_PARTS = re.compile(r"(?i)asic|port|switch|cage")

_OUTSIDE: tuple[DeviceKind, ...] = ("leaf", "spine", "core", "nvswitch", "external")
_HOST_PARTS = {"host", "host_bridge", "pcie_switch"}

_CLASSES: tuple[tuple[str, LinkClass], ...] = (
    (r"c2c|chip[ -]to[ -]chip", "c2c"),
    (r"nv-?l", "nvlink"),
    (r"xgmi|infinity", "xgmi"),
    (r"pcie|pci\b", "pcie"),
    (r"\b(?:upi|qpi)|ultra ?path", "upi"),
    (r"\bib\b|infiniband|\b[ehnx]dr\d*\b", "ib"),
    (r"eth|roce|\d+gbe|spectrum", "ethernet"),
)


def has_gpu(template: Template) -> bool:
    """Whether a template has a GPU of its own."""
    return any(c.choice in _GPU for c in template.components)


def template_role(template: Template, composed: set[str], gpu_holders: set[str]) -> DeviceRole:
    """``composed`` are the names of templates that are parts of others, ``gpu_holders`` those with GPUs,
    their own or nested.
    """
    parts = [c for c in template.components if c.choice != "device"]
    switch_parts = any(_SWITCH_PARTS.search(f"{c.name} {c.choice}") for c in parts)
    switch_like = template.name not in composed or _SWITCH.search(template.name) is not None
    meant: tuple[tuple[bool, DeviceRole], ...] = (
        (template.name in gpu_holders, "host"),
        (outside_kind(template.components) is not None, "switch"),
        (any(c.choice in _HOST_PARTS for c in template.components), "host"),
        (_CABLE.search(template.name) is not None, "cable"),
        (_NIC.search(template.name) is not None, "nic"),
        (switch_parts and switch_like, "switch"),
        (switch_parts, "nic"),
    )
    return next((role for holds, role in meant if holds), "host")


def outside_kind(components: Iterable[Component]) -> DeviceKind | None:
    """The kind that a part of a device outside hosts says in so many words (``custom`` type ``spine``)."""
    for component in components:
        for kind in _OUTSIDE:
            if component.choice == kind and component.name == "asic":
                return kind
    return None


def role_by_name(instance: str, device: str) -> DeviceRole:
    """The role of an instance whose template is not in the file."""
    both = f"{instance} {device}"
    if _NIC.search(both):
        return "nic"
    return "switch" if _SWITCH.search(both) else "host"


def component_kind(component: Component, link_classes: Iterable[LinkClass]) -> DeviceKind | None:
    """The kind of a part of a host; None for what only passes a link on (a port, a slot).

    ``link_classes`` are those of its links, which tell an unnamed switch's kind.
    """
    choice, words = component.choice.lower(), f"{component.name} {component.description}"
    custom = choice == "custom"
    if choice in DEVICE_KINDS:
        return choice  # type: ignore[return-value]  # one of DeviceKind's words
    meant: tuple[tuple[bool, DeviceKind], ...] = (
        (choice in _GPU or (custom and _GPU_NAME.search(component.name) is not None), "gpu"),
        ("nic" in choice.split("-") or (custom and _NIC.search(component.name) is not None), "nic"),
        (_NVSWITCH.search(words) is not None, "nvswitch"),
        (_PCIE_SWITCH.search(words) is not None, "pcie_switch"),
        (custom and component.name.lower().startswith("cpu"), "cpu"),
        (choice == "switch" and bool({"nvlink", "xgmi"} & set(link_classes)), "nvswitch"),
        (choice == "switch", "pcie_switch"),
    )
    return next((kind for holds, kind in meant if holds), None)


def is_memory(component: Component) -> bool:
    """Memory is no device of a fabric."""
    return component.choice.lower() == "memory"


def is_management(component: Component) -> bool:
    """A NIC that serves the management network."""
    return re.search(r"(?i)mgmt|management|bmc", f"{component.name} {component.choice}") is not None


def named_class(link: LinkType) -> LinkClass | None:
    """The class a link's name or description tells, or None."""
    first = re.split(r"[^a-z0-9]", link.name.lower(), maxsplit=1)[0]
    if first in LINK_CLASSES:
        return first  # type: ignore[return-value]  # one of LinkClass's words
    for words in (link.name, link.description):
        for pattern, link_class in _CLASSES:
            if re.search(pattern, words.lower()):
                return link_class
    return None


def link_class(link: LinkType, kinds: tuple[str | None, str | None], *, inside: bool) -> LinkClass:
    """The class of a link between devices of ``kinds``, in one host or between devices."""
    named = named_class(link)
    if named is not None and link.name.lower().startswith(named):
        return named
    if set(kinds) == {"cpu"}:
        return "c2c" if named == "c2c" else "upi"
    if named is not None:
        return named
    if not inside:
        return "network"
    if "nvswitch" in kinds or set(kinds) == {"gpu"}:
        return "nvlink"
    return "pcie"
