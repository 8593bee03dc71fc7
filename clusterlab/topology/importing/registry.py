"""Which format a text is in, told from its content, and who reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from clusterlab.formats import (
    aiconfigurator,
    astra_sim,
    ibnetdiscover,
    ibstat,
    infragraph,
    lstopo_xml,
    nccl_log,
    nccl_xml,
    nvlink_s,
    rocm_smi,
    topo_m,
    topo_p2p,
    topograph,
)
from clusterlab.topology.importing import discover, slurm_topology
from clusterlab.topology.importing.aiconfigurator import read_aiconfigurator
from clusterlab.topology.importing.astra_sim import read_astra_sim
from clusterlab.topology.importing.discover import read_discover
from clusterlab.topology.importing.ibnetdiscover import read_ibnetdiscover
from clusterlab.topology.importing.ibstat import read_ibstat
from clusterlab.topology.importing.imported import Imported, NotAFabricError
from clusterlab.topology.importing.infragraph import read_infragraph
from clusterlab.topology.importing.lstopo_xml import read_lstopo_xml
from clusterlab.topology.importing.nccl_logs import read_nccl_logs, read_nccl_system
from clusterlab.topology.importing.nccl_xml import read_nccl_xml
from clusterlab.topology.importing.nvlink_s import read_nvlink_s
from clusterlab.topology.importing.rocm_smi import read_rocm_smi
from clusterlab.topology.importing.slurm_topology import read_slurm_topology
from clusterlab.topology.importing.topo_m import read_topo_m
from clusterlab.topology.importing.topo_p2p import read_topo_p2p
from clusterlab.topology.importing.topograph import read_topograph


class Read(Protocol):
    """Parses and assembles one file's text; ``file`` is what messages call it."""

    def __call__(self, text: str, *, file: str) -> Imported: ...


@dataclass(frozen=True, slots=True)
class Importer:
    """One format: ``what`` it is to people, whether a text looks like it, who reads it."""

    kind: str
    what: str
    recognise: Callable[[str], bool]
    read: Read


IMPORTERS: tuple[Importer, ...] = (
    Importer("discover", "what `topo discover --facts` wrote", discover.recognise, read_discover),
    Importer("nccl_xml", "NCCL/RCCL topology XML", nccl_xml.recognise, read_nccl_xml),
    Importer("lstopo_xml", "lstopo XML", lstopo_xml.recognise, read_lstopo_xml),
    Importer("ibnetdiscover", "ibnetdiscover", ibnetdiscover.recognise, read_ibnetdiscover),
    Importer("ibstat", "ibstat or ibstatus", ibstat.recognise, read_ibstat),
    Importer("nccl_logs", "an NCCL log", nccl_log.recognise, read_nccl_logs),
    Importer("topo_p2p", "nvidia-smi topo -p2p", topo_p2p.recognise, read_topo_p2p),
    Importer("rocm_smi", "rocm-smi --showtopo", rocm_smi.recognise, read_rocm_smi),
    Importer("topo_m", "nvidia-smi topo -m", topo_m.recognise, read_topo_m),
    Importer("nvlink_s", "nvidia-smi nvlink -s", nvlink_s.recognise, read_nvlink_s),
    Importer(
        "slurm_topology",
        "Slurm's topology.conf or topology.yaml",
        slurm_topology.recognise,
        read_slurm_topology,
    ),
    Importer("topograph", "a topograph model", topograph.recognise, read_topograph),
    Importer("infragraph", "InfraGraph", infragraph.recognise, read_infragraph),
    Importer(
        "aiconfigurator",
        "an aiconfigurator system sheet",
        aiconfigurator.recognise,
        read_aiconfigurator,
    ),
    Importer("astra_sim", "an ASTRA-sim network", astra_sim.recognise, read_astra_sim),
)
"""In the order they are asked: the formats with unmistakable marks first."""


def read_any(text: str, *, file: str, system: bool = False) -> Imported:
    """The fabric in ``text``, whatever its format. Raises NotAFabricError when no format knows it.

    A log with measurements is refused as such, unless ``system`` asks for what it says of the machine.
    """
    for importer in IMPORTERS:
        if importer.recognise(text):
            if system and importer.kind == "nccl_logs":
                return read_nccl_system(text, file=file)
            return importer.read(text, file=file)
    raise NotAFabricError(
        "empty" if not text.strip() else "no format that clusterlab reads",
        kind="unknown",
        where=file,
        expected=", ".join(importer.what for importer in IMPORTERS),
        fix="a design of your own goes to --fabric and `topo show`",
    )
