"""What is wrong or doubtful in a ``topo -m`` matrix, said with its lines and cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from clusterlab.core.findings import Finding, Severity
from clusterlab.formats.smi_text import shortened
from clusterlab.formats.topo_m import TopoMatrix
from clusterlab.topology.importing.pci_tree import LEVELS, SYS, Pair, PciTree

_WHOLE = "paste the whole output of nvidia-smi topo -m, unwrapped (nvidia-smi topo -m > file)"
_WORDS = {level: word for word, level in LEVELS.items()}
_PROBLEMS = {
    "unreadable": "cell_unreadable",
    "torn": "row_torn",
    "extra": "row_torn",
    "misaligned": "row_misaligned",
    "affinity": "affinity_ambiguous",
}


def about_file(
    matrix: TopoMatrix, disagreeing: Sequence[str], odd: Sequence[str]
) -> Iterator[Finding]:
    """Missing and torn parts, cells that disagree, further matrices that were left out."""
    missing = [c for c in matrix.columns if c not in matrix.rows]
    if missing:
        yield Finding(
            "matrix_partial",
            Severity.WARNING,
            (
                f"no row for {shortened(missing)}",
                f"{len(matrix.rows)} of {len(matrix.columns)} rows",
            ),
            f"pairs among them are unknown; {_WHOLE}",
        )
    if not matrix.has_header:
        yield Finding(
            "header_missing",
            Severity.WARNING,
            (f"columns known by the X of a row: {shortened(list(matrix.columns))}",),
            f"columns without a row are left out; {_WHOLE}",
        )
    for code in dict.fromkeys(_PROBLEMS[p.kind] for p in matrix.problems):
        said = [f"line {p.line}: {p.text}" for p in matrix.problems if _PROBLEMS[p.kind] == code]
        severity = Severity.INFO if code == "affinity_ambiguous" else Severity.WARNING
        yield Finding(code, severity, tuple(said[:8]), f"taken as unknown; {_WHOLE}")
    if disagreeing:
        yield Finding(
            "cells_asymmetric",
            Severity.WARNING,
            tuple(disagreeing[:8]),
            "the pair is taken as unknown (of two NV# the smaller); print the matrix again",
        )
    if odd:
        yield Finding(
            "nvlink_to_nic",
            Severity.WARNING,
            tuple(odd[:8]),
            "NVLink joins GPUs only: left out; the columns may be shifted",
        )
    if matrix.more_matrices:
        yield Finding(
            "more_matrices_ignored",
            Severity.INFO,
            (f"{matrix.more_matrices} further matrices in this file",),
            "import one file for each host",
        )


def about_places(
    matrix: TopoMatrix, names: Mapping[str, str], levels: Mapping[Pair, int], tree: PciTree
) -> Iterator[Finding]:
    """Distances that make no tree, NUMA numbers that contradict them, what a job's cpuset may hide."""
    if tree.contradictions:
        said = [
            f"{a}, {b}: {_WORDS[c.said]}, placed at {_WORDS[c.placed]}"
            for c in tree.contradictions
            for a, b in [c.pair]
        ]
        yield Finding(
            "levels_not_a_tree",
            Severity.WARNING,
            (f"{len(said)} cells contradict the others", *said[:8]),
            "no PCI tree has these distances; the nearest one is used: print the matrix again",
        )
    if tree.numa_conflicts:
        yield Finding(
            "numa_contradicts_level",
            Severity.WARNING,
            tree.numa_conflicts[:8],
            "a VM, a BIOS setting or a job's cpuset may flatten PCI or NUMA: compare with the bare "
            "machine; the distances are kept, the NUMA domain of the cpu is unknown",
        )
    if tree.unplaced:
        yield Finding(
            "place_unknown",
            Severity.INFO,
            (f"{shortened(list(tree.unplaced))}: no NUMA node, and near no other device",),
            "import lstopo XML or NCCL topology XML of this host for its PCI tree",
        )
    yield from _all_far(names, levels)
    yield from _restricted(matrix)


def _all_far(names: Mapping[str, str], levels: Mapping[Pair, int]) -> Iterator[Finding]:
    gpus = {name for column, name in names.items() if column.startswith("GPU")}
    mixed = [level for pair, level in levels.items() if len(gpus.intersection(pair)) == 1]
    if mixed and all(level == SYS for level in mixed):
        yield Finding(
            "gpu_nic_all_sys",
            Severity.INFO,
            (f"all {len(mixed)} GPU-NIC cells are SYS",),
            "on Grace the C2C link hides PCIe, in a VM the PCI tree may be flat: nearness of NICs has to "
            "come from NUMA nodes or from the bare machine",
        )


def _restricted(matrix: TopoMatrix) -> Iterator[Finding]:
    """CPU affinity that is empty, or one CPU for all GPUs: printed inside a job."""
    if "cpus" not in matrix.labels:
        return
    gpus = [row for name, row in matrix.rows.items() if name.startswith("GPU")]
    empty = [row.name for row in gpus if row.cpus is None and row.numa is not None]
    stated = {row.cpus for row in gpus}
    one = len(gpus) > 1 and len(stated) == 1 and all(c is not None and c.isdigit() for c in stated)
    if empty or one:
        said = (
            f"CPU affinity empty for {shortened(empty)}" if empty else f"all on CPU {stated.pop()}"
        )
        yield Finding(
            "affinity_restricted",
            Severity.INFO,
            (said,),
            "the matrix was printed inside a cpuset, which can turn NODE into SYS: print it outside a job",
        )
