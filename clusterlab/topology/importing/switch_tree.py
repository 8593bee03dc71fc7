"""Switch trees of scheduler files as devices and links, with what is wrong with the tree.

Such files know which switch stands above which, nothing of cables, rates or technology: one link of class
``network`` per edge, its bandwidth unknown. A switch's tier is its height above the nodes.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from clusterlab.core.findings import Finding, Severity
from clusterlab.formats.hostlist import compress_hostlist
from clusterlab.formats.switch_tree import Locality, TreeSwitch
from clusterlab.topology.parts import Device, DeviceKind, Link

_SHOWN = 8
"""How many examples a finding lists."""


@dataclass(frozen=True)
class Tree:
    """A tree (or forest) as parts of a fabric."""

    devices: tuple[Device, ...]
    links: tuple[Link, ...]
    findings: tuple[Finding, ...]


def assemble_tree(
    switches: Sequence[TreeSwitch], *, file: str, extra_hosts: Iterable[str] = (), prefix: str = ""
) -> Tree:
    """Devices, links (both ways) and findings of a forest of switches.

    ``extra_hosts`` are nodes named elsewhere in the file (blocks); ``prefix`` keeps the switches of
    several topologies apart.
    """
    by_name = _merged(switches)
    heights = _heights(by_name)
    hosts = list(dict.fromkeys([*(n for s in by_name.values() for n in s.nodes), *extra_hosts]))
    clashing = set(hosts) & {prefix + name for name in by_name}
    named = {
        name: f"switch:{name}" if prefix + name in clashing else prefix + name for name in by_name
    }
    devices = [Device(host, "host", host=host) for host in hosts]
    devices += [Device(named[n], _tier(heights[n]), role="compute") for n in by_name]
    pairs = dict.fromkeys(
        (named[s.name], below)
        for s in by_name.values()
        for below in (*(named[c] for c in s.switches if c in by_name and c != s.name), *s.nodes)
    )
    links = [
        Link(src, dst, "network", None)
        for up, down in pairs
        for src, dst in ((down, up), (up, down))
    ]
    return Tree(tuple(devices), tuple(links), tuple(_findings(switches, by_name, heights, file)))


def localities(found: Iterable[Locality]) -> dict[str, str]:
    """Name of each block, ring or domain with its nodes as a hostlist: plain data for ``facts``."""
    return {block.name: compress_hostlist(block.nodes) if block.nodes else "" for block in found}


def aliases(found: Iterable[Locality]) -> dict[str, str]:
    """The second names of those that have one."""
    return {block.name: block.alias for block in found if block.alias is not None}


def _merged(switches: Sequence[TreeSwitch]) -> dict[str, TreeSwitch]:
    merged: dict[str, TreeSwitch] = {}
    for s in switches:
        known = merged.get(s.name)
        merged[s.name] = (
            s
            if known is None
            else TreeSwitch(s.name, known.switches + s.switches, known.nodes + s.nodes, known.line)
        )
    return merged


def _heights(by_name: dict[str, TreeSwitch]) -> dict[str, int]:
    """Longest way down to a switch without switches below it."""
    parents: defaultdict[str, list[str]] = defaultdict(list)
    waiting: dict[str, int] = {}
    for s in by_name.values():
        below = {c for c in s.switches if c in by_name and c != s.name}
        waiting[s.name] = len(below)
        for child in below:
            parents[child].append(s.name)
    heights = dict.fromkeys(by_name, 0)
    ready = [name for name, count in waiting.items() if not count]
    while ready:
        name = ready.pop()
        for parent in parents[name]:
            heights[parent] = max(heights[parent], heights[name] + 1)
            waiting[parent] -= 1
            if not waiting[parent]:
                ready.append(parent)
    # Members of a loop, and what is above them, never become ready: their shortest way down counts.
    reached = {name: heights[name] for name in by_name if not waiting[name]}
    queue = [(height, name) for name, height in reached.items()]
    heapq.heapify(queue)
    while queue:
        height, name = heapq.heappop(queue)
        for parent in parents[name]:
            if parent not in reached:
                reached[parent] = height + 1
                heapq.heappush(queue, (height + 1, parent))
    return {name: reached.get(name, 0) for name in by_name}


def _tier(height: int) -> DeviceKind:
    return "leaf" if height == 0 else "spine" if height == 1 else "core"


def _findings(
    switches: Sequence[TreeSwitch],
    by_name: dict[str, TreeSwitch],
    heights: dict[str, int],
    file: str,
) -> Iterable[Finding]:
    yield from _duplicates(switches, file)
    yield from _unknown_children(by_name, file)
    yield from _loops(by_name, file)
    yield from _several_parents(by_name, file)
    yield from _nodes_twice(by_name, file)
    yield from _empty(by_name, file)
    children = {c for s in by_name.values() for c in s.switches}
    roots = [s for s in by_name.values() if s.name not in children]
    if len(roots) > 1:
        yield _finding(
            "several_roots",
            Severity.INFO,
            (f"{file}:{s.line}: {s.name} is below no switch" for s in roots),
            "a job cannot span them; name a common switch above if there is one",
        )


def _duplicates(switches: Sequence[TreeSwitch], file: str) -> Iterable[Finding]:
    counts = Counter(s.name for s in switches)
    twice = [f"{file}:{s.line}: SwitchName={s.name}" for s in switches if counts[s.name] > 1]
    if twice:
        yield _finding(
            "switch_twice",
            Severity.ERROR,
            twice,
            "Slurm stops at a switch that is defined twice: merge the lines",
        )


def _unknown_children(by_name: dict[str, TreeSwitch], file: str) -> Iterable[Finding]:
    missing = [
        f"{file}:{s.line}: {s.name} stands above {child}, which is not defined"
        for s in by_name.values()
        for child in s.switches
        if child not in by_name
    ]
    if missing:
        yield _finding(
            "unknown_switch", Severity.ERROR, missing, "define each switch, or correct the name"
        )


def _loops(by_name: dict[str, TreeSwitch], file: str) -> Iterable[Finding]:
    """Switches that are above themselves: what remains after leaves, then roots, are taken away."""
    remaining = {n: {c for c in s.switches if c in by_name} for n, s in by_name.items()}
    for _ in range(2):
        ends = [n for n, below in remaining.items() if not below]
        above: defaultdict[str, list[str]] = defaultdict(list)
        for name, below in remaining.items():
            for child in below:
                above[child].append(name)
        while ends:
            name = ends.pop()
            remaining.pop(name)
            for parent in above[name]:
                remaining[parent].discard(name)
                if not remaining[parent]:
                    ends.append(parent)
        reverse: dict[str, set[str]] = {n: set() for n in remaining}
        for name, below in remaining.items():
            for child in below:
                reverse[child].add(name)
        remaining = reverse
    if remaining:
        yield _finding(
            "switch_loop",
            Severity.ERROR,
            (f"{file}:{by_name[n].line}: {n} is above itself" for n in remaining),
            "list only the switches below each, not all its neighbours",
        )


def _several_parents(by_name: dict[str, TreeSwitch], file: str) -> Iterable[Finding]:
    parents: defaultdict[str, list[str]] = defaultdict(list)
    for s in by_name.values():
        for child in dict.fromkeys(s.switches):
            if child in by_name:
                parents[child].append(s.name)
    several = [
        f"{file}: {child} is below {', '.join(above[:_SHOWN])}"
        for child, above in parents.items()
        if len(above) > 1
    ]
    if several:
        yield _finding(
            "switch_below_several",
            Severity.WARNING,
            several,
            "Slurm's tree takes one switch above each: merge parallel spines into one name",
        )


def _nodes_twice(by_name: dict[str, TreeSwitch], file: str) -> Iterable[Finding]:
    leaves: defaultdict[str, list[str]] = defaultdict(list)
    for s in by_name.values():
        for node in s.nodes:
            leaves[node].append(f"{s.name} (line {s.line})")
    twice = {node: where for node, where in leaves.items() if len(where) > 1}
    if twice:
        yield _finding(
            "node_in_two_leaves",
            Severity.WARNING,
            (
                f"{file}: node {node} is on {' and '.join(on[:_SHOWN])}"
                for node, on in twice.items()
            ),
            "name each node once; on a rail fabric name the scalable unit, not its leaves",
        )


def _empty(by_name: dict[str, TreeSwitch], file: str) -> Iterable[Finding]:
    both = [s for s in by_name.values() if s.switches and s.nodes]
    if both:
        yield _finding(
            "nodes_and_switches",
            Severity.WARNING,
            (f"{file}:{s.line}: {s.name} has nodes and switches below it" for s in both),
            "put the nodes on a leaf switch of their own",
        )
    neither = [s for s in by_name.values() if not s.switches and not s.nodes]
    if neither:
        yield _finding(
            "empty_switch",
            Severity.WARNING,
            (f"{file}:{s.line}: nothing is below {s.name}" for s in neither),
            "give it nodes or switches, or remove it",
        )


def _finding(code: str, severity: Severity, evidence: Iterable[str], fix: str) -> Finding:
    listed = list(evidence)
    shown = listed[:_SHOWN]
    if len(listed) > _SHOWN:
        shown.append(f"and {len(listed) - _SHOWN} more")
    return Finding(code, severity, tuple(shown), fix)
