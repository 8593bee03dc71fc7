"""What the series of a run are called: few labels, each with few values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from clusterlab.core.rows import Row
from clusterlab.report.data import ReportData
from clusterlab.report.files.prometheus import label_value

DEFAULT_CLUSTER = "default"
NOT_KNOWN = "unknown"

Labels = Mapping[str, str]


def labels(**values: object) -> dict[str, str]:
    """As Prometheus will keep them: safe text, empty ones left out."""
    texts = {name: label_value(value) for name, value in values.items() if value is not None}
    return {name: text for name, text in texts.items() if text}


@dataclass(frozen=True, slots=True)
class Where:
    """What the series of a run share: ``cluster`` and ``fabric``; ``ranks`` and ``nodes`` of all of it.
    ``hosts``: each rank's, none where that is not known.
    """

    cluster: str
    fabric: str
    ranks: str
    nodes: str
    hosts: Mapping[int, str]
    pattern: str

    def nodes_of(self, row: Row) -> str:
        """On how many hosts its ranks are."""
        if row.ranks is None or not self.hosts:
            return self.nodes
        hosts = {self.hosts.get(rank) for rank in row.ranks}
        return NOT_KNOWN if None in hosts else str(len(hosts))

    def group_kind(self, row: Row) -> str:
        """``all``; of groups and pairs the pattern's word without its numbers: ``rail``, ``nodes``."""
        return "all" if row.ranks is None else self.pattern


def where_of(data: ReportData, cluster: str | None) -> Where:
    """Of a run; ``cluster`` None: as Slurm calls it, else ``default``."""
    environment = _environment(data)
    configuration = data.run.info.configuration
    placement = data.placement
    ranks = placement.world_size if placement else configuration.get("world_size", NOT_KNOWN)
    nodes = len(placement.hosts) if placement else environment.get("SLURM_NNODES", NOT_KNOWN)
    kept = cluster or environment.get("SLURM_CLUSTER_NAME") or DEFAULT_CLUSTER
    return Where(
        cluster=label_value(kept) or DEFAULT_CLUSTER,
        fabric=label_value(Path(data.fabric.design).stem if data.fabric else "none") or "none",
        ranks=label_value(ranks),
        nodes=label_value(nodes),
        hosts={one.rank: one.host for one in placement.ranks} if placement else {},
        pattern=_pattern(str(configuration.get("pattern", "some"))),
    )


def kind_of(data: ReportData) -> str:
    """``sweep``, ``training``, ``overlap``, ``soak``, …"""
    held = data.run.info.configuration
    return label_value(held.get("measures", held.get("command", "sweep"))) or "sweep"


def info_labels(data: ReportData) -> dict[str, str]:
    """What tells one run from another: only on the info metric, where each value is a series of its own."""
    attempts = data.run.info.attempts
    versions = (attempts[-1].context if attempts else data.run.info.created_by).versions
    libraries = sorted({row.library_version for row in data.rows if row.library_version})
    environment = _environment(data)
    job = environment.get("SLURM_ARRAY_JOB_ID") or environment.get("SLURM_JOB_ID")
    return labels(
        run_id=data.run.info.run_id,
        run_name=data.run.info.name,
        job_id=job,
        clusterlab_version=versions.get("clusterlab"),
        torch_version=versions.get("torch"),
        nccl_version=libraries[0] if libraries else versions.get("nccl"),
        driver_version=versions.get("nvidia_driver"),
    )


def _environment(data: ReportData) -> Mapping[str, str]:
    attempts = data.run.info.attempts
    context = attempts[-1].context if attempts else data.run.info.created_by
    return context.environment


def _pattern(kept: str) -> str:
    """``nodes:4_one_by_one`` is ``nodes_one_by_one``: how large the groups are is in ``ranks``."""
    kind, colon, rest = kept.partition(":")
    alone = "_one_by_one" if colon and rest.endswith("_one_by_one") else ""
    return label_value(kind + alone)
