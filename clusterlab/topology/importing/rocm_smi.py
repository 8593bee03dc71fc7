"""``rocm-smi --showtopo`` to a fabric: xGMI links between GPUs one hop apart, NUMA domains.

The driver gives a weight of 15 for each xGMI hop (KFD_CRAT_XGMI_WEIGHT in Linux's amdkfd). Hops are
classes, not hops: 1 over xGMI however many links long, 2 within a NUMA node over PCIe, 3 beyond
(ROCm/rocm-systems#5763 and PR 7372): so the weight tells which pairs are direct.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from clusterlab.core.findings import Finding, Severity
from clusterlab.formats.rocm_smi import RocmTopology, Table, parse_rocm_smi
from clusterlab.formats.smi_text import shortened
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.importing.imported import Imported
from clusterlab.topology.importing.pci_tree import (
    NODE,
    SYS,
    Pair,
    PciTree,
    both_ways,
    build_pci_tree,
)
from clusterlab.topology.parts import Device, Link

HOST = "n0"
XGMI_HOP_WEIGHT = 15
_PCIE_LEVELS = {2: NODE, 3: SYS}

GpuPair = tuple[int, int]


def read_rocm_smi(text: str, *, file: str) -> Imported:
    """The GPUs, their xGMI links (rates unknown) and NUMA domains. Raises UsageError."""
    found = parse_rocm_smi(text, file=file)
    pairs = list(combinations(found.gpus, 2))
    agreed = _Agreed(found)
    xgmi = [pair for pair in pairs if agreed.over_xgmi(pair)]
    weights = {pair: agreed.number("weight", pair) for pair in xgmi}
    direct = [pair for pair in xgmi if weights[pair] is None or weights[pair] == XGMI_HOP_WEIGHT]
    levels: dict[Pair, int] = {
        (_name(a), _name(b)): _PCIE_LEVELS[hops]
        for a, b in pairs
        if (a, b) not in set(xgmi) and (hops := agreed.number("hops", (a, b))) in _PCIE_LEVELS
    }
    numa = {_name(g): found.numa.get(g) for g in found.gpus}
    tree = build_pci_tree(HOST, numa, levels, host_bridges=False)
    gpus = tuple(Device(_name(g), "gpu", host=HOST, numa=tree.numa[_name(g)]) for g in found.gpus)
    links: list[Link] = [k for a, b in direct for k in both_ways(_name(a), _name(b), "xgmi")]
    fabric = Fabric(
        name=HOST,
        devices=(*gpus, *tree.devices),
        links=(*links, *tree.links),
        description=f"{len(gpus)} AMD GPUs of one host",
        origin=file,
    )
    findings = (
        *_about_file(found, agreed, pairs),
        *_about_xgmi(agreed, weights),
        *_about_places(tree, gpus),
    )
    return Imported("rocm_smi", fabric, findings, _facts(found))


def _name(gpu: int) -> str:
    return f"{HOST}/gpu{gpu}"


def _facts(found: RocmTopology) -> dict[str, object]:
    tables = {
        table: {f"GPU{a}->GPU{b}": cell for (a, b), cell in cells.items()}
        for table, cells in found.tables.items()
    }
    return {"tables": tables, "numa": {f"GPU{g}": node for g, node in found.numa.items()}}


class _Agreed:
    """Cells of a pair that both directions give, or the only one; ``differing`` collects the others."""

    def __init__(self, found: RocmTopology) -> None:
        self._tables = found.tables
        self.differing: dict[str, None] = {}

    def cell(self, table: Table, pair: GpuPair) -> str | None:
        cells: Mapping[GpuPair, str] = self._tables.get(table, {})
        there, back = cells.get(pair), cells.get((pair[1], pair[0]))
        if there is not None and back is not None and there != back:
            a, b = pair
            self.differing[f"{table}: GPU{a}->GPU{b} {there}, GPU{b}->GPU{a} {back}"] = None
            return None
        return back if there is None else there

    def number(self, table: Table, pair: GpuPair) -> int | None:
        cell = self.cell(table, pair)
        return int(cell) if cell and cell.isascii() and cell.isdigit() and len(cell) < 8 else None

    def over_xgmi(self, pair: GpuPair) -> bool:
        """By link type where it is printed, else by the class of hops, else by the weight of one hop."""
        kind = self.cell("link_type", pair)
        if kind is not None:
            return kind.upper() == "XGMI"
        hops = self.number("hops", pair)
        if hops is not None:
            return hops == 1
        return self.number("weight", pair) == XGMI_HOP_WEIGHT


def _about_file(found: RocmTopology, agreed: _Agreed, pairs: list[GpuPair]) -> Iterator[Finding]:
    missing = [
        f"{table}: GPU{a}, GPU{b}"
        for table, cells in found.tables.items()
        for a, b in pairs
        if (a, b) not in cells and (b, a) not in cells
    ]
    if found.torn or missing:
        lines = [f"line {n}" for n in found.torn]
        yield Finding(
            "matrix_partial",
            Severity.WARNING,
            tuple(
                f"{what}: {shortened(said)}"
                for what, said in (("torn rows", lines), ("no cell", missing))
                if said
            ),
            "taken as unknown; give the whole output of rocm-smi --showtopo",
        )
    if agreed.differing:
        yield Finding(
            "cells_asymmetric",
            Severity.WARNING,
            tuple(agreed.differing)[:8],
            "the pair is taken as unknown; print the tables again",
        )
    denied = [
        f"GPU{a}->GPU{b}" for (a, b), c in found.tables.get("access", {}).items() if c == "False"
    ]
    if denied:
        yield Finding(
            "p2p_denied",
            Severity.WARNING,
            (f"{len(denied)} pairs without access", shortened(denied)),
            "check IOMMU (iommu=pt), ACS and large BAR; transfers go through host memory",
        )


def _about_xgmi(agreed: _Agreed, weights: Mapping[GpuPair, int | None]) -> Iterator[Finding]:
    far = [
        f"GPU{a}, GPU{b}: weight {w}"
        for (a, b), w in weights.items()
        if w is not None and w != XGMI_HOP_WEIGHT
    ]
    if far:
        yield Finding(
            "xgmi_not_direct",
            Severity.INFO,
            (f"{len(far)} pairs several xGMI hops apart", shortened(far, 6)),
            "these pairs share other pairs' links; expect less bandwidth between them",
        )
    unknown = [pair for pair, w in weights.items() if w is None]
    if unknown:
        yield Finding(
            "xgmi_directness_unknown",
            Severity.INFO,
            (f"{len(unknown)} xGMI pairs without a weight",),
            "modelled as direct links; add the output of rocm-smi --showtopoweight",
        )
    groups = _hives(weights)
    out = [
        f"GPU{a}, GPU{b}: {agreed.cell('link_type', (a, b))}"
        for group in groups
        for a, b in combinations(group, 2)
        if (a, b) not in weights and agreed.cell("link_type", (a, b)) is not None
    ]
    if out:
        yield Finding(
            "xgmi_missing",
            Severity.WARNING,
            (shortened(out, 8),),
            "these pairs of one hive go over PCIe: check bridges and rocm-smi --showxgmierr",
        )


def _hives(pairs: Mapping[GpuPair, int | None]) -> list[list[int]]:
    """GPUs that xGMI joins, directly or over others."""
    of = {gpu: gpu for pair in pairs for gpu in pair}
    for a, b in pairs:
        old, new = of[b], of[a]
        of = {gpu: new if g == old else g for gpu, g in of.items()}
    groups: dict[int, list[int]] = {}
    for gpu in sorted(of):
        groups.setdefault(of[gpu], []).append(gpu)
    return list(groups.values())


def _about_places(tree: PciTree, gpus: Sequence[Device]) -> Iterator[Finding]:
    conflicts = [
        *tree.numa_conflicts,
        *(f"{c.pair[0]}, {c.pair[1]}: hops contradict other pairs" for c in tree.contradictions),
    ]
    if conflicts:
        yield Finding(
            "numa_contradicts_level",
            Severity.WARNING,
            tuple(conflicts[:8]),
            "NUMA nodes and hops disagree: compare with lstopo on the bare machine",
        )
    unnumbered = [g.name for g in gpus if g.numa is None and g.name not in tree.unplaced]
    if unnumbered and not conflicts:
        yield Finding(
            "numa_numbers_unknown",
            Severity.INFO,
            (
                f"{shortened(unnumbered)}: hops tell which GPUs share a NUMA node, no line its number",
                "how near GPUs of one NUMA node are below it (switch, host bridge) is not said either",
            ),
            "add the output of rocm-smi --showtoponuma, and lstopo's XML for the PCIe tree",
        )
    if tree.unplaced:
        yield Finding(
            "place_unknown",
            Severity.INFO,
            (f"{shortened(list(tree.unplaced))}: no NUMA node",),
            "add the output of rocm-smi --showtoponuma",
        )
