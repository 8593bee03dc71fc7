"""Which exporter writes which format."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import unknown
from clusterlab.topology.exporting.astra import astra
from clusterlab.topology.exporting.dot import dot
from clusterlab.topology.exporting.gres import gres_conf
from clusterlab.topology.exporting.infragraph import infragraph
from clusterlab.topology.exporting.nccl_xml import to_nccl_xml
from clusterlab.topology.exporting.slurm import slurm_block, slurm_tree, slurm_yaml
from clusterlab.topology.fabric import Fabric

_WHOLE_FABRIC: Mapping[str, Callable[[Fabric], str]] = {
    "gres": gres_conf,
    "slurm-tree": slurm_tree,
    "slurm-block": slurm_block,
    "slurm-yaml": slurm_yaml,
    "astra": astra,
    "infragraph": infragraph,
    "dot": dot,
}

TARGETS: tuple[str, ...] = ("nccl-xml", *_WHOLE_FABRIC)


def export_as(target: str, fabric: Fabric, *, host: str | None = None) -> str:
    """``fabric`` in the format ``target``, one of TARGETS; ``host`` is the one that nccl-xml describes.

    Raises UsageError for an unknown target, and for a fabric that the format cannot hold.
    """
    if target == "nccl-xml":
        return to_nccl_xml(fabric, host=host)
    if target not in _WHOLE_FABRIC:
        raise unknown("format", target, TARGETS)
    if host is not None:
        raise UsageError(f"--host with --to {target}", expected="only with --to nccl-xml")
    return _WHOLE_FABRIC[target](fabric)
