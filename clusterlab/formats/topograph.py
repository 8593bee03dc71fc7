"""Files of NVIDIA topograph: simulation models, provider answers, and what it takes as input.

A *model* (YAML, pkg/models/model.go) has ``switches`` and the nodes below them. Three shapes exist:

    switches: {core: {switches: [leaf-1]}}        blocks: [{switch: leaf-1, nodes: ["n[1-8]"], annotations}]
    switches: [{name: leaf, capacity_blocks: [cb1]}]   capacity_blocks: [{name: cb1, nvlink: nv1, nodes}]
    {"switches": {"S2": {"nodes": [{"node_id": "I21", "accelerated_network_id": "nvl1"}]}}}

*NetQ* answers (JSON) list compute nodes with their GPUs, or the network's nodes and links. API request
payloads and service configurations hold no topology.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from clusterlab.core.errors import UsageError
from clusterlab.formats.documents import is_json, read_document
from clusterlab.formats.fields import at, mapping, sequence, text
from clusterlab.formats.hostlist import MAX_HOSTS, expand_hostlist
from clusterlab.formats.strict_yaml import Document, Path
from clusterlab.formats.switch_tree import MAX_NODES, Locality, TreeSwitch

NotTopology = Literal["service configuration", "API request payload"]

_MODEL = re.compile(r"(?m)^switches:")
_MODEL_NODES = re.compile(r"(?m)^(?:blocks|capacity_blocks|nodes):")
_JSON_MODEL = re.compile(r'"switches"\s*:\s*\{')
_SERVICE = re.compile(r"(?m)^(?:requestAggregationDelay|credentialsPath):|/topograph/")
_PAYLOAD_KEYS = ("provider", "engine", "nodes")
_DOMAIN = re.compile(r"(?:^accelerator|/accelerator|gpu\.clique$|/domain$)")


@dataclass(frozen=True, slots=True)
class Model:
    """Every switch that is named, with what is below it; ``domains`` are accelerator (NVLink) domains.

    ``loose`` are nodes of blocks that stand under no switch.
    """

    switches: tuple[TreeSwitch, ...]
    domains: tuple[Locality, ...]
    loose: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ComputeNode:
    """One compute node of NetQ: ``gpus`` are NetQ's own ids of its GPUs, ``domain`` its NVLink domain."""

    name: str
    gpus: tuple[str, ...]
    domain: str | None


@dataclass(frozen=True, slots=True)
class GraphNode:
    """One node of NetQ's graph. ``tier`` 1 is a leaf, -1 unknown."""

    name: str
    device_type: str
    tier: int | None


@dataclass(frozen=True, slots=True)
class GraphLink:
    """One cable of NetQ's graph: two node names and the interface on each (empty: not said)."""

    nodes: tuple[str, str]
    interfaces: tuple[str, str]


@dataclass(frozen=True, slots=True)
class NetworkGraph:
    """NetQ's network: nodes and cables, one entry per cable."""

    nodes: tuple[GraphNode, ...]
    links: tuple[GraphLink, ...]


Topograph = Model | NetworkGraph | tuple[ComputeNode, ...] | NotTopology


def recognise(text_: str) -> bool:
    """Whether this is one of topograph's files."""
    if is_json(text_):
        return (
            '"GpuIDList"' in text_
            or '"compounded_nodes"' in text_
            or _JSON_MODEL.search(text_) is not None
            or ('"provider"' in text_ and '"engine"' in text_)
        )
    if _MODEL.search(text_) and _MODEL_NODES.search(text_):
        return True
    return _SERVICE.search(text_) is not None and re.search(r"(?m)^http:", text_) is not None


def parse_topograph(text_: str, *, file: str) -> Topograph:
    """Read any of them. Raises UsageError naming file, line and field."""
    document = read_document(text_, file=file)
    if isinstance(document.data, list):
        return _netq(document)
    data = mapping(document, (), None)
    if "switches" in data:
        return _Models(document).model()
    if "provider" in data and "engine" in data and isinstance(data["provider"], dict):
        return "API request payload"
    if "http" in data or "requestAggregationDelay" in data:
        return "service configuration"
    raise UsageError(
        "neither a model nor an answer of topograph",
        where=document.where(),
        expected="switches and blocks",
    )


class _Models:
    """Reads a model of any shape; bounds the names it expands."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.below: dict[str, list[str]] = {}
        self.nodes: dict[str, list[str]] = {}
        self.lines: dict[str, int] = {}
        self.parents: dict[str, list[str]] = {}
        self.domains: dict[str, list[str]] = {}
        self.loose: list[str] = []
        self.count = 0

    def model(self) -> Model:
        switches = at(self.document, ("switches",))
        paths: list[tuple[str, Path]]
        if isinstance(switches, list):
            paths = [
                (self._name((*p, "name")), p)
                for p in (("switches", i) for i in range(len(switches)))
            ]
        else:
            entries = mapping(self.document, ("switches",), None)
            paths = [(name, ("switches", name)) for name in entries]
        for name, path in paths:
            self._switch(name, path)
        for section in ("blocks", "capacity_blocks"):
            for i in range(len(sequence(self.document, (section,)))):
                self._block((section, i))
        return Model(
            tuple(
                TreeSwitch(name, tuple(self.below[name]), tuple(self.nodes[name]), self.lines[name])
                for name in self.below
            ),
            tuple(Locality(name, tuple(nodes), 0) for name, nodes in self.domains.items()),
            tuple(self.loose),
        )

    def _add(self, name: str, path: Path) -> None:
        if name not in self.below:
            self.below[name], self.nodes[name] = [], []
            self.lines[name] = self.document.lines.get(path, 1)

    def _switch(self, name: str, path: Path) -> None:
        mapping(self.document, path, None, optional=True)
        self._add(name, path)
        for i in range(len(sequence(self.document, (*path, "switches")))):
            child = self._name((*path, "switches", i))
            self.below[name].append(child)
        for i in range(len(sequence(self.document, (*path, "capacity_blocks")))):
            self.parents.setdefault(self._name((*path, "capacity_blocks", i)), []).append(name)
        for i in range(len(sequence(self.document, (*path, "nodes")))):
            self._node(name, (*path, "nodes", i))
        for child in self.below[name]:
            self._add(child, path)

    def _node(self, switch: str, path: Path) -> None:
        """A node under its switch: a hostlist, or a mapping with its id and accelerator domain."""
        value = at(self.document, path)
        if not isinstance(value, dict):
            self.nodes[switch] += self._hosts(path)
            return
        name = self._name((*path, "node_id"))
        self.nodes[switch].append(name)
        domain = value.get("accelerated_network_id")
        if isinstance(domain, str) and domain:
            self.domains.setdefault(domain, []).append(name)

    def _block(self, path: Path) -> None:
        block = mapping(self.document, path, None)
        nodes = [
            host
            for i in range(len(sequence(self.document, (*path, "nodes"))))
            for host in self._hosts((*path, "nodes", i))
        ]
        if block.get("switch") is not None:
            parents = [self._name((*path, "switch"))]
        elif "name" in block:
            parents = self.parents.get(self._name((*path, "name")), [])
        else:
            parents = []
        for parent in parents:
            self._add(parent, path)
            self.nodes[parent] += nodes
        if not parents:
            self.loose += nodes
        domain = _domain(block)
        if domain:
            self.domains.setdefault(domain, []).extend(nodes)

    def _hosts(self, path: Path) -> list[str]:
        where = self.document.where(*path)
        found = expand_hostlist(self._name(path), where=where, limit=MAX_HOSTS)
        self.count += len(found)
        if self.count > MAX_NODES:
            raise UsageError(
                f"more than {MAX_NODES} names", where=where, expected=f"at most {MAX_NODES}"
            )
        return found

    def _name(self, path: Path) -> str:
        """A name. A bare number is one too, as YAML reads it: 0101 without quotes is another number."""
        value = at(self.document, path)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        return text(self.document, path)


def _domain(block: dict[str, Any]) -> str | None:
    """The accelerator domain a block belongs to, wherever its version of topograph writes it."""
    nvlink = block.get("nvlink")
    if isinstance(nvlink, str) and nvlink:
        return nvlink
    for section in ("annotations", "labels"):
        labels = block.get(section)
        for key, value in labels.items() if isinstance(labels, dict) else ():
            if _DOMAIN.search(key) and "sub-domain" not in key and isinstance(value, str):
                return value
    return None


def _netq(document: Document) -> NetworkGraph | tuple[ComputeNode, ...]:
    entries = document.data
    if entries and all(isinstance(e, dict) and "GpuIDList" in e for e in entries):
        return tuple(_compute_node(document, (i,)) for i in range(len(entries)))
    if entries and all(isinstance(e, dict) and "nodes" in e and "links" in e for e in entries):
        nodes: dict[str, GraphNode] = {}
        links: list[GraphLink] = []
        for i in range(len(entries)):
            nodes |= _graph_nodes(document, (i, "nodes"))
        for i in range(len(entries)):
            links += _graph_links(document, (i, "links"), nodes)
        return NetworkGraph(tuple(nodes.values()), tuple(links))
    raise UsageError(
        "a list of neither compute nodes nor network graphs",
        where=document.where(),
        expected="entries with GpuIDList, or with nodes and links",
    )


def _compute_node(document: Document, path: Path) -> ComputeNode:
    gpus = sequence(document, (*path, "GpuIDList"))
    return ComputeNode(
        text(document, (*path, "Name")),
        tuple(text(document, (*path, "GpuIDList", i)) for i in range(len(gpus))),
        text(document, (*path, "DomainUUID"), default="", may_be_empty=True) or None,
    )


def _graph_nodes(document: Document, path: Path) -> dict[str, GraphNode]:
    """Nodes by NetQ's id; a tier lists its own as ``compounded_nodes``."""
    found: dict[str, GraphNode] = {}
    for i in range(len(sequence(document, path))):
        here = (*path, i)
        entry = mapping(document, here, None)
        if "compounded_nodes" in entry:
            found |= _graph_nodes(document, (*here, "compounded_nodes"))
            continue
        tier = entry.get("tier")
        found[text(document, (*here, "id"))] = GraphNode(
            text(document, (*here, "name")),
            text(document, (*here, "device_type"), default="", may_be_empty=True),
            tier if isinstance(tier, int) and tier > 0 else None,
        )
    return found


def _graph_links(document: Document, path: Path, nodes: dict[str, GraphNode]) -> list[GraphLink]:
    found: list[GraphLink] = []
    for i in range(len(sequence(document, path))):
        here = (*path, i)
        entry = mapping(document, here, None)
        if entry.get("compounded_links"):
            found += _graph_links(document, (*here, "compounded_links"), nodes)
            continue
        if len(sequence(document, (*here, "interfaces"))) != 2:
            raise UsageError(
                "a link without two ends", where=document.where(*here), expected="two interfaces"
            )
        ends = [(*here, "interfaces", end) for end in (0, 1)]
        ids = [text(document, (*end, "node")) for end in ends]
        for end, node in zip(ends, ids, strict=True):
            if node not in nodes:
                raise UsageError(
                    f"no node {node!r}", where=document.where(*end), expected="the id of a node"
                )
        a, b = (text(document, (*end, "interface"), default="") for end in ends)
        found.append(GraphLink((nodes[ids[0]].name, nodes[ids[1]].name), (a, b)))
    return found
