"""A joined record with everything rules ask of it worked out once: worlds, devices, masks, launcher.

A *world* is a set of ranks that form one communicator: two jobs on one node are two worlds, and what is
wrong between ranks of one world need not be between them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from clusterlab.binding.diagnose.options import Options, read_options
from clusterlab.binding.diagnose.variables import SLURM, SOURCES, Source, number, size_of
from clusterlab.binding.masks import MaskResult, MigInstance, evaluate_cuda_mask
from clusterlab.binding.records import GpuRecord, JoinedRecord, NodeRecord, RankRecord

World = Sequence[RankRecord]

_AMD = re.compile(r"\bMI[0-9]{2,3}|gfx9|Instinct|Radeon", re.IGNORECASE)
_INTEL = re.compile(r"Max[- _]?1[0-9]{3}|\bPVC\b|Data Center GPU", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Device:
    """The hardware a rank drives. ``key`` is unique on the host: a PCI address or a MIG UUID."""

    host: str
    key: str
    gpu: GpuRecord | None


class Scene:
    """The record and what follows from it. Nothing here is a judgement."""

    def __init__(self, record: JoinedRecord) -> None:
        self.record = record
        self.ranks = record.ranks
        self.options: Options = read_options(record.launcher, (r.env for r in record.ranks))
        self.constrained = record.slurm.constrain_devices
        self._devices: dict[int, Device | None] = {id(r): self._device(r) for r in self.ranks}

    @cached_property
    def worlds(self) -> list[list[RankRecord]]:
        """The ranks of each communicator, in rank order."""
        by_job: dict[str, list[RankRecord]] = defaultdict(list)
        for rank in self.ranks:
            run = rank.env.get("TORCHELASTIC_RUN_ID", "none")
            job = rank.job or rank.env.get("SLURM_JOB_ID") or ("" if run == "none" else run)
            by_job[job].append(rank)
        if len(by_job) == 2 and "" in by_job:  # a wrapper passed the job's id to some ranks only
            by_job = {"": list(self.ranks)}
        found: list[list[RankRecord]] = []
        for ranks in by_job.values():
            found += _by_step(ranks)
        return [sorted(world, key=lambda r: (r.rank, r.host)) for world in found]

    @cached_property
    def hosts(self) -> list[tuple[str, list[RankRecord]]]:
        """(host, its ranks) of every world."""
        return [item for world in self.worlds for item in by_host(world).items()]

    @cached_property
    def under_slurm(self) -> bool:
        """Whether Slurm started the ranks."""
        return any(r.env.get("SLURM_PROCID") for r in self.ranks)

    @cached_property
    def slurm_version(self) -> tuple[int, ...] | None:
        """(22, 5, 8) for 22.05.8 and (22, 5) for 22.05+."""
        found = re.match(r"([0-9]+)\.([0-9]+)(?:\.([0-9]+))?", self.record.slurm.version or "")
        return tuple(int(g) for g in found.groups() if g) if found else None

    def node(self, rank: RankRecord) -> NodeRecord | None:
        """The node a rank runs on, where the record has it."""
        return self.record.nodes.get(rank.host)

    def device(self, rank: RankRecord) -> Device | None:
        """The hardware of the rank's selected ordinal; None: none, or unknown."""
        return self._devices[id(rank)]

    def vendor(self, rank: RankRecord) -> str:
        """``amd``, ``intel``, or ``nvidia`` where neither is known."""
        node = self.node(rank)
        text = " ".join(filter(None, [g.model for g in node.gpus] if node else []))
        text += f" {node.profile or ''}" if node else ""
        if _AMD.search(text):
            return "amd"
        if _INTEL.search(text):
            return "intel"
        return "nvidia"

    def enumerable(self, rank: RankRecord) -> list[GpuRecord] | None:
        """The GPUs the driver would count without a mask, in PCI order; None: unknown."""
        node = self.node(rank)
        if node is None or not node.gpus:
            return None
        gpus = sorted(node.gpus, key=lambda g: g.index)
        if rank.openable is not None:
            return [g for g in gpus if g.pci in rank.openable or g.uuid in rank.openable]
        if rank.container and rank.container.devices is not None:
            return [g for g in gpus if g.index in rank.container.devices]
        return gpus

    def mask_result(self, rank: RankRecord) -> MaskResult | None:
        """What CUDA makes of the rank's mask; None without a mask, a node or NVIDIA GPUs."""
        mask = rank.env.get("CUDA_VISIBLE_DEVICES")
        return None if mask is None else self.evaluated(rank, mask)

    def evaluated(self, rank: RankRecord, mask: str | None) -> MaskResult | None:
        """What CUDA would make of ``mask`` for this rank; positions are those of ``enumerable``."""
        gpus = self.enumerable(rank)
        node = self.node(rank)
        if gpus is None or node is None or self.vendor(rank) != "nvidia":
            return None
        position = {gpu.index: i for i, gpu in enumerate(gpus)}
        mig = [
            MigInstance(m.uuid, position[m.parent])
            for m in node.mig
            if m.parent is not None and m.parent in position
        ]
        return evaluate_cuda_mask(mask, [g.uuid or "" for g in gpus], mig=mig)

    def process_level(self, world: World, source: Source) -> bool:
        """Whether ``source`` gives every process of ``world`` (two or more) a rank of its own."""
        ranks = [number(r.env, source.rank) for r in world]
        return len(ranks) > 1 and None not in ranks and len(set(ranks)) == len(ranks)

    def launcher_size(self, world: World) -> tuple[str, int] | None:
        """The variable and size by which the outermost launcher of these processes counts them."""
        for source in SOURCES:
            if source.name != "torch" and self.process_level(world, source):
                said = size_of(world[0].env, source)
                if said:
                    return said
        return None

    def tasks(self, ranks: Iterable[RankRecord]) -> dict[int, list[RankRecord]]:
        """Slurm's task → the processes in it."""
        found: dict[int, list[RankRecord]] = defaultdict(list)
        for rank in ranks:
            task = number(rank.env, SLURM.rank)
            if task is not None:
                found[task].append(rank)
        return found

    def gpu_named(self, host: str, text: str) -> GpuRecord | None:
        """The GPU of ``host`` with this PCI address, UUID or MIG UUID."""
        node = self.record.nodes.get(host)
        if node is None:
            return None
        parent = next((m.parent for m in node.mig if m.uuid == text), None)
        for gpu in node.gpus:
            if text in (gpu.pci, gpu.uuid) or (parent is not None and gpu.index == parent):
                return gpu
        return None

    def _device(self, rank: RankRecord) -> Device | None:
        visible = rank.visible
        if not visible:
            return None
        ordinal = rank.selected_device
        if ordinal is None:
            ordinal = 0 if len(visible) == 1 else -1
        if not 0 <= ordinal < len(visible):
            return None
        key = visible[ordinal]
        return Device(rank.host, key, self.gpu_named(rank.host, key))


def by_host(ranks: Iterable[RankRecord]) -> dict[str, list[RankRecord]]:
    """The ranks of each host, in the order given."""
    found: dict[str, list[RankRecord]] = {}
    for rank in ranks:
        found.setdefault(rank.host, []).append(rank)
    return found


def uses_elastic(rank: RankRecord) -> bool:
    """Whether torchrun's agent started this process."""
    return "TORCHELASTIC_RUN_ID" in rank.env or "GROUP_RANK" in rank.env


def _by_step(ranks: list[RankRecord]) -> list[list[RankRecord]]:
    """One world, or one per step where steps number their ranks independently.

    Processes that nobody launched together (all of them rank 0 of 1) are worlds of their own.
    """
    steps: dict[str, list[RankRecord]] = defaultdict(list)
    for rank in ranks:
        steps[rank.env.get("SLURM_STEP_ID", "")].append(rank)
    if len(steps) > 1 and len({r.rank for r in ranks}) < len(ranks):
        return list(steps.values())
    alone = all(r.rank == 0 and r.env.get("WORLD_SIZE", "1") == "1" for r in ranks)
    launched = any(number(r.env, s.rank) or (size_of(r.env, s) or ("", 1))[1] > 1
                   for r in ranks for s in SOURCES)  # fmt: skip
    if len(ranks) > 1 and alone and not launched:
        return [[rank] for rank in ranks]
    return [ranks]
