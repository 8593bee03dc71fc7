"""``nvidia-smi topo -m`` to a fabric: NVLink as counted, the PCI tree as the distances allow.

The matrix says nothing of bandwidths. An NV# cell hides how near two GPUs are on PCI; there the tree
claims no more than the other cells do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from clusterlab.core.findings import Finding, Severity
from clusterlab.formats.topo_m import TopoMatrix, parse_topo_m
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.importing.imported import Imported
from clusterlab.topology.importing.nvlink_counts import nvlinks_of
from clusterlab.topology.importing.pci_tree import LEVELS, Pair, build_pci_tree
from clusterlab.topology.importing.topo_m_findings import about_file, about_places
from clusterlab.topology.parts import Device

HOST = "n0"
"""The host of a file that does not name it."""

_MANY_GPUS = (
    4  # from here on a machine is built for NVLink or for PCIe; two cards in a box prove nothing
)


@dataclass(frozen=True)
class Cells:
    """What the matrix says of pairs of devices, by their names in the fabric.

    ``levels``: PIX (1) to SYS (5); ``nvlinks``: counts; ``disagreeing``: pairs whose two cells differ;
    ``odd``: NVLink cells of pairs that are not two GPUs.
    """

    levels: Mapping[Pair, int]
    nvlinks: Mapping[Pair, int]
    disagreeing: tuple[str, ...]
    odd: tuple[str, ...]


def read_topo_m(text: str, *, file: str) -> Imported:
    """The host that a ``topo -m`` matrix describes. Raises UsageError where there is no matrix."""
    matrix = parse_topo_m(text, file=file)
    names = _names(matrix)
    cells = _cells(matrix, names)
    numa = {names[c]: _numa(matrix, c) for c in matrix.columns}
    nics = [name for column, name in names.items() if not column.startswith("GPU")]
    # A hypervisor or a wrong print flattens what NICs say of each other; GPUs' rows carry the affinities.
    tree = build_pci_tree(HOST, numa, cells.levels, weaker=nics)
    ends = tuple(_end(matrix, column, name, tree.numa[name]) for column, name in names.items())
    gpus = [d.name for d in ends if d.kind == "gpu"]
    nvlink = nvlinks_of(HOST, gpus, cells.nvlinks)
    fabric = Fabric(
        name=HOST,
        devices=(*ends, *nvlink.devices, *tree.devices),
        links=(*nvlink.links, *tree.links),
        description=f"{len(gpus)} GPUs and {len(ends) - len(gpus)} NICs of one host",
        origin=file,
    )
    findings = (
        *about_file(matrix, cells.disagreeing, cells.odd),
        *about_places(matrix, names, cells.levels, tree),
        *_nvlink_absent(gpus, cells),
        *nvlink.findings,
    )
    return Imported("topo_m", fabric, findings, _facts(matrix))


def _names(matrix: TopoMatrix) -> dict[str, str]:
    """Column to device name: GPUs keep their number, NICs count in the order of the columns."""
    nics = [c for c in matrix.columns if not c.startswith("GPU")]
    local = {c: f"nic{i}" for i, c in enumerate(nics)}
    return {c: f"{HOST}/{local.get(c, c.lower())}" for c in matrix.columns}


def _end(matrix: TopoMatrix, column: str, name: str, numa: int | None) -> Device:
    device = Device(name, "gpu", host=HOST, numa=numa)
    if column.startswith("GPU"):
        return device
    numbered = column.startswith("NIC") and column[3:].isdigit()
    interface = matrix.nic_names.get(column) if numbered else column
    return replace(device, kind="nic", interface=interface)


def _numa(matrix: TopoMatrix, column: str) -> int | None:
    """The one NUMA node of a row; None for N/A, a list, or no row."""
    row = matrix.rows.get(column)
    stated = row.numa if row is not None and row.numa is not None else ""
    return int(stated) if stated.isascii() and stated.isdigit() and len(stated) < 5 else None


def _cells(matrix: TopoMatrix, names: Mapping[str, str]) -> Cells:
    levels: dict[Pair, int] = {}
    nvlinks: dict[Pair, int] = {}
    disagreeing, odd = [], []
    for a, b in combinations(matrix.columns, 2):
        there, back = _far(matrix.cell(a, b)), _far(matrix.cell(b, a))
        if there is not None and back is not None and there != back:
            disagreeing.append(f"{a} to {b} {there}, {b} to {a} {back}")
        cell = _agreed(there, back)
        pair = names[a], names[b]
        if cell is None:
            continue
        if not cell.startswith("NV"):
            levels[pair] = LEVELS[cell]
        elif a.startswith("GPU") and b.startswith("GPU"):
            nvlinks[pair] = int(cell[2:])
        else:
            odd.append(f"{a} to {b} {cell}")
    return Cells(levels, nvlinks, tuple(disagreeing), tuple(odd))


def _far(cell: str | None) -> str | None:
    """SYS for SOC, the word of drivers before NODE existed."""
    return "SYS" if cell == "SOC" else cell


def _agreed(there: str | None, back: str | None) -> str | None:
    """What both cells of a pair say, or the only one; of two NVLink counts the smaller; else None."""
    if there is None or back is None or there == back:
        return back if there is None else there
    if there.startswith("NV") and back.startswith("NV"):
        return min(there, back, key=lambda cell: int(cell[2:]))
    return None


def _nvlink_absent(gpus: list[str], cells: Cells) -> list[Finding]:
    if cells.nvlinks or len(gpus) < _MANY_GPUS or not cells.levels:
        return []
    return [
        Finding(
            "nvlink_absent",
            Severity.INFO,
            (f"{len(gpus)} GPUs, no NV# cell",),
            "right for PCIe GPUs; SXM GPUs without NVLink need Fabric Manager (nvidia-fabricmanager) "
            "running, and a virtual machine needs the NVSwitches passed through",
        )
    ]


def _facts(matrix: TopoMatrix) -> dict[str, Any]:
    rows = matrix.rows.values()
    return {
        "columns": list(matrix.columns),
        "missing_rows": [c for c in matrix.columns if c not in matrix.rows],
        "cpu_affinity": {r.name: r.cpus for r in rows if r.cpus is not None},
        "numa_affinity": {r.name: r.numa for r in rows if r.numa is not None},
        "gpu_numa_id": {r.name: r.gpu_numa for r in rows if r.gpu_numa is not None},
        "nic_names": dict(matrix.nic_names),
    }
