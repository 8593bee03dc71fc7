"""The joined record: what every rank of a job saw, and the nodes it saw it on.

One format for what the doctor gathers live, for bundles and for cases written by hand. Everything but
host, rank and environment may be unknown (None); a rule that needs what is unknown stays silent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Slurm:
    """Facts about the cluster that no rank can see. ``version`` as Slurm prints it."""

    constrain_devices: bool | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class GpuRecord:
    """A GPU of a node. ``index`` counts in PCI order; ``numa`` -1: the kernel does not know."""

    index: int
    pci: str
    uuid: str | None = None
    numa: int | None = None
    model: str | None = None
    tiles: int | None = None


@dataclass(frozen=True, slots=True)
class NicRecord:
    """A network device. ``near_gpu``: index of the GPU it shares a PCI switch with."""

    name: str
    pci: str | None = None
    numa: int | None = None
    near_gpu: int | None = None
    kind: str | None = None
    rail: int | None = None


@dataclass(frozen=True, slots=True)
class MigSlice:
    """A MIG instance: its UUID and the index of the GPU it is cut from."""

    uuid: str
    parent: int | None = None


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node. ``numa``: domain → its CPUs. ``fastest_first``: GPU indices in CUDA's default order."""

    host: str
    gpus: tuple[GpuRecord, ...] = ()
    numa: Mapping[int, frozenset[int]] = field(default_factory=dict)
    nics: tuple[NicRecord, ...] = ()
    mig: tuple[MigSlice, ...] = ()
    fastest_first: tuple[int, ...] = ()
    profile: str | None = None
    boot_id: str | None = None


@dataclass(frozen=True, slots=True)
class Container:
    """The container a rank runs in. ``devices``: host indices of the GPUs given to it."""

    runtime: str | None = None
    devices: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class RankRecord:
    """One process.

    ``rank`` and ``local_rank`` are the launcher's truth; ``app_rank`` and ``app_size`` what the
    program believes. ``visible``: PCI addresses (or MIG UUIDs) in CUDA's order. ``openable``: what the
    device cgroup lets it open. ``allocated``: what its job owns on the host. ``used``: what it computes
    on. ``contexts``: ordinals that hold one of its CUDA contexts. ``host_env``: outside its container;
    ``parent_env``: of the launching shell; ``env_at_exec``: the mask variables the process began with.
    ``nearest_nics``: RDMA devices nearest to its GPU by PCI path, with the distance (``mlx5_0 PIX``);
    ``identity_from``: which launcher's word its rank is; ``notes``: what it could not see, in words.
    """

    host: str
    rank: int
    local_rank: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    visible: tuple[str, ...] | None = None
    selected_device: int | None = None
    error: str = ""
    stderr: str = ""
    cpus: frozenset[int] | None = None
    openable: tuple[str, ...] | None = None
    allocated: tuple[str, ...] | None = None
    used: tuple[str, ...] | None = None
    nic_used: str | None = None
    rail: int | None = None
    container: Container | None = None
    framework: str | None = None
    app_rank: int | None = None
    app_size: int | None = None
    host_env: Mapping[str, str] | None = None
    parent_env: Mapping[str, str] | None = None
    env_at_exec: Mapping[str, str | None] | None = None
    cuda_initialized_before_set: bool | None = None
    contexts: tuple[int, ...] | None = None
    interfaces: tuple[str, ...] | None = None
    hostname_short: str | None = None
    boot_id: str | None = None
    resolved: Mapping[str, str] = field(default_factory=dict)
    reachable: Mapping[str, bool] = field(default_factory=dict)
    monitor_index: int | None = None
    monitor_pci: str | None = None
    intended_pci: str | None = None
    device_minor: int | None = None
    declared_devices: int | None = None
    ephemeral_ports: tuple[int, int] | None = None
    job: str | None = None
    omp_threads: int | None = None
    nearest_nics: tuple[str, ...] = ()
    identity_from: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JoinedRecord:
    """Everything known about one run. ``launcher``: the command line, for people and its options.

    ``missing_ranks``: ranks that were waited for and did not come. ``contradictions``: what in the
    record cannot be true, found while reading.
    """

    nodes: Mapping[str, NodeRecord] = field(default_factory=dict)
    ranks: tuple[RankRecord, ...] = ()
    launcher: str = ""
    slurm: Slurm = field(default_factory=Slurm)
    missing_ranks: tuple[int, ...] = ()
    contradictions: tuple[str, ...] = ()
