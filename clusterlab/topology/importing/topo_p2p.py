"""``nvidia-smi topo -p2p`` to a fabric of GPUs: who may reach whom is a fact, links are not invented."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clusterlab.core.findings import Finding, Severity
from clusterlab.formats.smi_text import shortened
from clusterlab.formats.topo_p2p import STATUSES, P2pMatrix, parse_topo_p2p
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.importing.imported import Imported
from clusterlab.topology.parts import Device

_OPTIONAL = frozenset({"n", "a"})
"""NVLink and atomics: a machine without them is whole."""

_FIXES = {
    "CNS": "turn off PCI ACS and the IOMMU (or set iommu=pt) in BIOS and kernel, and check that the GPUs "
    "share a root complex; NCCL goes through host memory meanwhile",
    "GNS": "this GPU model or driver offers no peer access (consumer and some PCIe cards): plan with "
    "transfers through host memory",
    "TNS": "the way between these GPUs allows no peer access: move them under one switch or root complex, "
    "or plan with host memory",
    "NS": "check GPU model, driver version and virtualisation (vGPU, MIG); NCCL goes through host memory",
    "DR": "a driver setting turns peer access off: look for RMDisableP2P or similar in "
    "/proc/driver/nvidia/params and modprobe options",
    "U": "the driver cannot tell: update it and ask again",
}


def read_topo_p2p(text: str, *, file: str) -> Imported:
    """The GPUs of the first matrix; facts hold every matrix of the same GPUs. Raises UsageError."""
    matrices = parse_topo_p2p(text, file=file)
    gpus = matrices[0].gpus
    same = [m for m in matrices if m.gpus == gpus]
    fabric = Fabric(
        name="n0",
        devices=tuple(Device(f"n0/{gpu.lower()}", "gpu", host="n0") for gpu in gpus),
        links=(),
        description=f"{len(gpus)} GPUs of one host, peer access only",
        origin=file,
    )
    findings = (
        *(f for m in same for f in _refused(m)),
        *_incomplete(same),
        *_other_hosts(matrices, gpus),
    )
    facts = {"p2p": [{"capability": m.capability, "status": _plain(m)} for m in same]}
    return Imported("topo_p2p", fabric, findings, facts)


def _plain(matrix: P2pMatrix) -> dict[str, dict[str, str | None]]:
    return {row: dict(cells) for row, cells in matrix.status.items()}


def _refused(matrix: P2pMatrix) -> Iterator[Finding]:
    asked = f"topo -p2p {matrix.capability}" if matrix.capability else "peer access"
    pairs: dict[str, list[str]] = {}
    for row, cells in matrix.status.items():
        for column, status in cells.items():
            if status is not None and status != "OK":
                pairs.setdefault(status, []).append(f"{row}->{column}")
    for status, found in pairs.items():
        yield Finding(
            f"p2p_{status.lower()}",
            Severity.INFO if status == "U" or matrix.capability in _OPTIONAL else Severity.WARNING,
            (f"{asked}: {status} ({STATUSES[status]}) for {len(found)} pairs", shortened(found)),
            _FIXES[status],
        )


def _incomplete(matrices: Sequence[P2pMatrix]) -> Iterator[Finding]:
    missing = [
        f"line {m.line}: {gpu}"
        for m in matrices
        for gpu in m.gpus
        if gpu not in m.status or None in m.status[gpu].values()
    ]
    if missing:
        yield Finding(
            "matrix_partial",
            Severity.WARNING,
            (f"no whole row for {shortened(missing)}",),
            "taken as unknown; paste the whole output of nvidia-smi topo -p2p",
        )


def _other_hosts(matrices: Sequence[P2pMatrix], gpus: tuple[str, ...]) -> Iterator[Finding]:
    other = [m for m in matrices if m.gpus != gpus]
    if other:
        said = [f"line {m.line}: {len(m.gpus)} GPUs" for m in other]
        yield Finding(
            "more_matrices_ignored",
            Severity.INFO,
            (shortened(said),),
            "they are of another host: import one file for each host",
        )
