"""Slurm's topology files of a fabric: topology.conf as a tree or in blocks, topology.yaml.

Slurm's tree has one leaf per node and one switch above each. A fabric that is such a tree is written switch
by switch; of any other its groups are (``network_groups``): leaves that share nodes become one name, etc.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from clusterlab.core.errors import UsageError
from clusterlab.formats.hostlist import compress_hostlist, fold_hosts
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.host_groups import HostGroup, host_groups
from clusterlab.topology.network_groups import Network, network_of, scale_up_domains

_GROUP_NAMES = ("su", "spine", "core")
_SHOWN = 12

YAML_KINDS = ("tree", "block")


@dataclass(frozen=True, slots=True)
class _Line:
    """One switch of the tree: what is below it and the comment before it."""

    name: str
    switches: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    comment: str = ""


@dataclass
class _Names:
    """Names that Slurm can hold, each once."""

    used: dict[str, str] = field(default_factory=dict)

    def give(self, key: str, wanted: str) -> str:
        """The name for ``key``, the same each time: ``wanted``, made legal and unlike all others."""
        if key not in self.used:
            legal = re.sub(r"[^A-Za-z0-9._-]+", "_", wanted).strip("_") or "switch"
            name, taken, number = legal, set(self.used.values()), 2
            while name in taken:
                name, number = f"{legal}_{number}", number + 1
            self.used[key] = name
        return self.used[key]


def slurm_tree(fabric: Fabric) -> str:
    """topology.conf for ``TopologyPlugin=topology/tree``.

    Raises UsageError for a fabric without network switches and for hosts whose names Slurm cannot hold.
    """
    network = _network(fabric)
    lines = [
        f"# {fabric.name}: which switch serves which nodes. slurm.conf: TopologyPlugin=topology/tree"
    ]
    lines += _left_out(network.loose)
    for line in _tree(network):
        if line.comment:
            lines.append(f"# {line.comment}")
        below = f"Nodes={fold_hosts(line.nodes)}" if line.nodes else ""
        if line.switches:
            below += f"{' ' if below else ''}Switches={compress_hostlist(line.switches)}"
        lines.append(f"SwitchName={line.name} {below}")
    return "\n".join(lines) + "\n"


def slurm_block(fabric: Fabric, block_sizes: Sequence[int] | None = None) -> str:
    """topology.conf for ``TopologyPlugin=topology/block`` (Slurm 23.11 and later).

    Blocks that the fabric was imported with come back as they were, with their sizes. Else a block is a
    scale-up domain of several hosts (NVL72), else a group of hosts on the same leaves. ``block_sizes``
    default to the smallest block and its doublings up to all of them. Raises UsageError.
    """
    blocks, sizes = _blocks(fabric, block_sizes)
    placed = {node for _, nodes in blocks for node in nodes}
    lines = [
        f"# {fabric.name}: which nodes belong together. slurm.conf: TopologyPlugin=topology/block",
        *_left_out([host for host in fabric.hosts if host not in placed]),
        *(f"BlockName={name} Nodes={fold_hosts(nodes)}" for name, nodes in blocks),
        "BlockSizes=" + ",".join(map(str, sizes)),
    ]
    return "\n".join(lines) + "\n"


def slurm_yaml(
    fabric: Fabric,
    kinds: Sequence[str] | None = None,
    block_sizes: Sequence[int] | None = None,
) -> str:
    """topology.yaml (Slurm 25.05 and later): one topology per kind, the first the cluster's default.

    ``kinds`` are ``tree`` and ``block``; None: those that the fabric has. Raises UsageError.
    """
    lines = [f"# {fabric.name}", "---"]
    for i, kind in enumerate(kinds if kinds is not None else _kinds(fabric)):
        lines += [f"- topology: {kind}", f"  cluster_default: {'false' if i else 'true'}"]
        if kind == "tree":
            lines += list(_yaml_tree(fabric))
        elif kind == "block":
            lines += list(_yaml_blocks(fabric, block_sizes))
        else:
            raise UsageError(f"kind {kind!r}", expected="one of " + ", ".join(YAML_KINDS))
    return "\n".join(lines) + "\n"


def _kinds(fabric: Fabric) -> tuple[str, ...]:
    """Both; only blocks for hosts that have a scale-up domain, or blocks of Slurm's, but no network."""
    together = any(len(d) > 1 for d in scale_up_domains(fabric)) or _own_blocks(fabric)
    return ("block",) if together and not network_of(fabric).tiers else YAML_KINDS


def _yaml_tree(fabric: Fabric) -> Iterator[str]:
    network = _network(fabric)
    yield "  tree:"
    yield "    switches:"
    for line in _tree(network):
        if line.comment:
            yield f"      # {line.comment}"
        yield f"      - switch: {_quoted(line.name)}"
        if line.switches:
            yield f"        children: {_quoted(compress_hostlist(line.switches))}"
        if line.nodes:
            yield f"        nodes: {_quoted(fold_hosts(line.nodes))}"


def _yaml_blocks(fabric: Fabric, block_sizes: Sequence[int] | None) -> Iterator[str]:
    blocks, sizes = _blocks(fabric, block_sizes)
    yield "  block:"
    yield "    block_sizes:"
    yield from (f"      - {size}" for size in sizes)
    yield "    blocks:"
    for name, nodes in blocks:
        yield f"      - block: {_quoted(name)}"
        yield f"        nodes: {_quoted(fold_hosts(nodes))}"


def _quoted(word: str) -> str:
    """A YAML scalar that is text whatever it looks like."""
    return f'"{word}"'


def _network(fabric: Fabric) -> Network:
    network = network_of(fabric)
    if not network.tiers:
        kinds = _group_kinds(fabric)
        raise UsageError(
            "no host hangs on a network switch" + (f", hosts are in {kinds}" if kinds else ""),
            where=f"fabric {fabric.name}",
            expected="hosts on leaf switches: Slurm's tree is made of them",
            fix="export blocks with --to slurm-block" if "blocks" in kinds else None,
        )
    _check_hosts(fabric)
    return network


def _check_hosts(fabric: Fabric) -> None:
    for host in fabric.hosts:
        if not re.fullmatch(r"[A-Za-z0-9._-]+", host):
            raise UsageError(
                f"a host called {host!r}",
                where=f"fabric {fabric.name}",
                expected="host names of letters, digits, '.', '_' and '-', as Slurm takes them",
            )


def _left_out(hosts: Sequence[str]) -> list[str]:
    return [f"# left out, as nothing places it: {fold_hosts(hosts)}"] if hosts else []


def _tree(network: Network) -> Iterable[_Line]:
    return _as_is(network) if _is_tree(network) else _grouped(network)


def _is_tree(network: Network) -> bool:
    """One leaf per host, and no two ways between switches: then the switches themselves are the tree."""
    if any(len(switches) != 1 for switches in network.host_switches.values()):
        return False
    links = sum(len(near) for near in network.switch_links.values()) // 2
    return links == len(network.switch_links) - len(_roots(network))


def _roots(network: Network) -> list[str]:
    """One switch per part that hangs together: the last one by the fabric's order."""
    left = dict.fromkeys(network.switch_links)
    roots = []
    while left:
        start = next(reversed(left))
        roots.append(start)
        queue = [start]
        del left[start]
        while queue:
            for near in network.switch_links[queue.pop()]:
                if near in left:
                    del left[near]
                    queue.append(near)
    return roots


def _as_is(network: Network) -> Iterator[_Line]:
    """Every switch that has nodes below it, by name."""
    names = _Names()
    nodes: dict[str, list[str]] = {}
    for host, (switch,) in network.host_switches.items():
        nodes.setdefault(switch, []).append(host)
    below = _below(network)
    for name in network.switch_links:
        label, hosts = names.give(name, name), tuple(nodes.get(name, ()))
        children = tuple(names.give(c, c) for c in below[name] if _serves(c, below, nodes))
        if not hosts and not children:
            continue
        if hosts and children:
            # A line of Slurm's takes nodes or switches: the nodes get a leaf of their own below.
            leaf = names.give(f"{name}/nodes", f"{name}-nodes")
            yield _Line(leaf, nodes=hosts, comment=f"the nodes right on {name}")
            hosts, children = (), (*children, leaf)
        changed = f"{name} in the fabric" if label != name else ""
        yield _Line(label, children, hosts, changed)


def _below(network: Network) -> dict[str, list[str]]:
    """Switches right below each. The root of a part is its last switch: leaves come first in a fabric."""
    below: dict[str, list[str]] = {name: [] for name in network.switch_links}
    seen: set[str] = set()
    for root in _roots(network):
        seen.add(root)
        queue = [root]
        while queue:
            name = queue.pop()
            for near in network.switch_links[name]:
                if near not in seen:
                    seen.add(near)
                    below[name].append(near)
                    queue.append(near)
    return below


def _serves(switch: str, below: dict[str, list[str]], nodes: dict[str, list[str]]) -> bool:
    """Whether there is a node anywhere below."""
    queue = [switch]
    while queue:
        name = queue.pop()
        if name in nodes:
            return True
        queue += below[name]
    return False


def _grouped(network: Network) -> Iterator[_Line]:
    """Every group as one switch."""
    names = _Names()
    labels: list[list[str]] = []
    for level, tier in enumerate(network.tiers):
        word = _GROUP_NAMES[min(level, len(_GROUP_NAMES) - 1)]
        labels.append([])
        for i, group in enumerate(tier):
            only = group.switches[0] if len(group.switches) == 1 else f"{word}{i + 1}"
            labels[level].append(names.give(f"{level}/{i}", only))
            comment = ""
            if len(group.switches) > 1:
                what = "every node hangs on all of them" if level == 0 else "parallel switches"
                comment = f"{labels[level][i]} is {_listed(group.switches)}: {what}"
            children = tuple(labels[level - 1][child] for child in group.below)
            yield _Line(labels[level][i], children, group.hosts, comment)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def _blocks(
    fabric: Fabric, block_sizes: Sequence[int] | None
) -> tuple[list[tuple[str, tuple[str, ...]]], tuple[int, ...]]:
    """(name, nodes) of each block, and the sizes."""
    _check_hosts(fabric)
    own = _own_blocks(fabric)
    if own:
        names = _Names()
        found = [(names.give(group.name, group.name), group.hosts) for group in own]
        as_read = own[0].sizes if block_sizes is None else ()
        return found, as_read or _sizes(found, block_sizes)
    network = network_of(fabric)
    domains = [hosts for hosts in scale_up_domains(fabric) if len(hosts) > 1]
    if not domains:
        domains = [group.hosts for group in network.tiers[0]] if network.tiers else []
    if not domains:
        kinds = _group_kinds(fabric)
        raise UsageError(
            f"hosts are in {kinds}, which are no blocks"
            if kinds
            else "neither a scale-up domain of several hosts nor hosts on common leaves",
            where=f"fabric {fabric.name}",
            expected="hosts that belong together",
            fix="keep Slurm's own file: its rings and tori are read, not written"
            if kinds
            else None,
        )
    blocks = [(f"block{i + 1}", hosts) for i, hosts in enumerate(domains)]
    return blocks, _sizes(blocks, block_sizes)


def _own_blocks(fabric: Fabric) -> list[HostGroup]:
    return [group for group in host_groups(fabric) if group.kind == "block" and group.hosts]


def _group_kinds(fabric: Fabric) -> str:
    """``blocks``, ``rings and tori``: what groups of hosts the fabric has."""
    return " and ".join(
        f"{kind}s" if kind != "torus" else "tori"
        for kind in dict.fromkeys(group.kind for group in host_groups(fabric))
    )


def _sizes(
    blocks: Sequence[tuple[str, tuple[str, ...]]], wanted: Sequence[int] | None
) -> tuple[int, ...]:
    smallest = min(len(hosts) for _, hosts in blocks)
    if wanted is None:
        sizes = [smallest]
        while sizes[-1] * 2 <= smallest * len(blocks):
            sizes.append(sizes[-1] * 2)
        return tuple(sizes)
    if not wanted or min(wanted) < 1 or wanted[0] > smallest:
        raise UsageError(
            f"block sizes {', '.join(map(str, wanted))}",
            expected=f"the first at least 1 and at most the smallest block, {smallest} nodes",
        )
    for size in wanted[1:]:
        ratio, rest = divmod(size, wanted[0])
        if rest or ratio < 2 or ratio & (ratio - 1):
            raise UsageError(
                f"block size {size}",
                expected=f"{wanted[0]} times a power of two (topology.conf(5))",
            )
    return tuple(wanted)
