"""Where each device of a host stands: the PCI tree as columns and rows. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from clusterlab.topology.parts import Device
from clusterlab.topology.shapes import HostShape

TREE_CLASSES = frozenset({"pcie", "c2c"})
_TREE_KINDS = ("cpu", "host_bridge", "pcie_switch")
ENDS = ("gpu", "nic", "external", "host")
_FOLD_ABOVE = 24  # columns: more would leave no room for names

Cell = tuple[Device, ...]
"""What one column holds: a device, or equal NICs under one parent."""


@dataclass(frozen=True)
class Tree:
    """``columns`` left to right; ``row`` 0 holds the CPUs, the last one GPUs and NICs.

    ``column`` is a device's place (a parent stands over the middle of its children), ``span`` the first
    and last column below it, ``cell`` what its column holds.
    """

    columns: int
    column: dict[str, float]
    row: dict[str, int]
    span: dict[str, tuple[int, int]]
    cell: dict[str, Cell]
    parent: dict[str, str]


def pci_tree(shape: HostShape) -> Tree:
    """The tree of a host's CPUs, host bridges, PCIe switches, GPUs and NICs.

    A device hangs under the neighbour nearest to a CPU. Equal NICs under one parent share a column where
    there would be too many.
    """
    devices = [d for d in shape.devices if d.kind in (*_TREE_KINDS, *ENDS)]
    depth, parent = _hung(shape, devices)
    children: defaultdict[str | None, list[Device]] = defaultdict(list)
    for d in devices:
        children[parent.get(d.name)].append(d)
    ends = sum(d.kind in ENDS for d in devices)
    cells: dict[str, Cell] = {d.name: (d,) for d in devices}
    if ends > _FOLD_ABOVE:
        cells |= _folded(shape, children)
    builder = _Builder(children, cells, _order(devices, parent))
    roots = sorted((d for d in children[None] if cells[d.name]), key=builder.order.__getitem__)
    for root in roots:
        builder.place(root)
    return Tree(
        columns=builder.next,
        column=builder.column,
        row=depth,
        span=builder.span,
        cell={name: cell for name, cell in cells.items() if cell},
        parent=parent,
    )


def _hung(shape: HostShape, devices: list[Device]) -> tuple[dict[str, int], dict[str, str]]:
    """Each device's row and parent, breadth first from the CPUs (else bridges, else switches)."""
    known = {d.name: d for d in devices}
    near: defaultdict[str, list[str]] = defaultdict(list)
    for link in shape.links:
        if link.link_class in TREE_CLASSES and link.src in known and link.dst in known:
            near[link.src].append(link.dst)
    parent: dict[str, str] = {}
    seen: dict[str, int] = {}
    for kind in _TREE_KINDS:
        ahead = [d.name for d in devices if d.kind == kind and d.name not in seen]
        level = _TREE_KINDS.index(kind)
        seen |= dict.fromkeys(ahead, level)
        while ahead:
            following = []
            for name in ahead:
                if known[name].kind in ENDS:
                    continue
                for other in near[name]:
                    if other not in seen and known[other].kind != "cpu":
                        bridge = 1 if known[other].kind == "host_bridge" else 2
                        seen[other] = max(seen[name] + 1, bridge)
                        parent[other] = name
                        following.append(other)
            ahead = following
    lowest = max([2, *(seen[n] for n in seen if known[n].kind not in ENDS)]) + 1
    for d in devices:
        if d.kind in ENDS:
            seen[d.name] = lowest
    return _compact(seen), parent


def _compact(rows: dict[str, int]) -> dict[str, int]:
    used = {row: i for i, row in enumerate(sorted(set(rows.values())))}
    return {name: used[row] for name, row in rows.items()}


def _order(devices: list[Device], parent: dict[str, str]) -> dict[Device, int]:
    """Parents in the order of the first GPU or NIC below them, so that lines do not cross."""
    index = {d.name: i for i, d in enumerate(devices)}
    first = dict(index)
    for d in devices:
        name = d.name
        while name in parent:
            name = parent[name]
            if d.kind in ENDS:
                first[name] = min(first[name], index[d.name] - len(devices))
    return {
        d: first[d.name] if d.kind not in ENDS else index[d.name] - len(devices) for d in devices
    }


def _folded(shape: HostShape, children: defaultdict[str | None, list[Device]]) -> dict[str, Cell]:
    """The cells of NICs that share a column; () for all but the first of each."""
    hurt = {end for link in shape.links if link.health < 1 for end in (link.src, link.dst)}
    cells: dict[str, Cell] = {}
    for below in children.values():
        alike: defaultdict[tuple[object, ...], list[Device]] = defaultdict(list)
        for d in below:
            if d.kind == "nic" and d.name not in hurt:
                alike[d.model, d.role].append(d)
        for group in alike.values():
            for d in group:
                cells[d.name] = tuple(group) if d is group[0] else ()
    return cells


class _Builder:
    """Columns handed out left to right while the tree is walked."""

    def __init__(
        self,
        children: defaultdict[str | None, list[Device]],
        cells: dict[str, Cell],
        order: dict[Device, int],
    ) -> None:
        self.children, self.cells, self.order = children, cells, order
        self.column: dict[str, float] = {}
        self.span: dict[str, tuple[int, int]] = {}
        self.next = 0

    def place(self, device: Device) -> None:
        """Give ``device`` and all below it their columns."""
        below = sorted(self._shown(self.children[device.name]), key=self.order.__getitem__)
        first = self.next
        for child in below:
            self.place(child)
        if not below:
            self.next += 1
        last = self.next - 1
        self.span[device.name] = (first, last)
        ends = [self.column[child.name] for child in below]
        self.column[device.name] = (ends[0] + ends[-1]) / 2 if ends else float(first)

    def _shown(self, devices: Iterable[Device]) -> Iterator[Device]:
        return (d for d in devices if self.cells[d.name])
