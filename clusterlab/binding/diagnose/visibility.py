"""Rules about what a rank sees and what it takes for the same thing: ordinals, MIG, orders, vendors."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from clusterlab.binding import fixes
from clusterlab.binding.diagnose.masks import CVD, kinds, ordinals
from clusterlab.binding.diagnose.saying import finding, hardware, quoted, those, who
from clusterlab.binding.diagnose.scene import Device, Scene
from clusterlab.binding.records import GpuRecord, NodeRecord, RankRecord
from clusterlab.core.findings import Finding, Severity

_ORDER = "CUDA_DEVICE_ORDER"


def ordinal_beyond_visible(scene: Scene) -> Iterable[Finding]:
    """CVD_LOCAL_RANK_MISMATCH: the ordinal a rank selects is not among the devices it sees."""
    for world in scene.worlds:
        bad, evidence = [], []
        for rank in world:
            wanted, sees = rank.selected_device, rank.visible
            if wanted is None or not sees or 0 <= wanted < len(sees):
                continue
            bad.append(rank)
            here = f"{sees[0]}" if len(sees) == 1 else f"{len(sees)} devices"
            said = f"; {quoted(rank.error)}" if rank.error else ""
            evidence.append(f"{who(rank)}: {_selects(rank, world)}, sees {here} only{said}")
        if bad:
            evidence += inherited_words(world)
            yield finding("CVD_LOCAL_RANK_MISMATCH", bad, evidence, _ordinal_fix(scene, world, bad))


def _selects(rank: RankRecord, world: Sequence[RankRecord]) -> str:
    """What it does, or, where the doctor looked in the program's place, what a program would do."""
    if rank.identity_from is None or rank.error or rank.framework:
        return f"selects ordinal {rank.selected_device}"
    name = fixes.local_variable(world)
    return f"a program that takes {name} as its ordinal would select {rank.selected_device}"


def inherited_words(ranks: Sequence[RankRecord]) -> list[str]:
    """That the launching shell's own mask is what all ranks have, where that is seen."""
    name = fixes.inherited_mask(ranks)
    if name is None:
        return []
    value = ranks[0].env[name]
    shell = [r for r in ranks if (r.parent_env or {}).get(name) == value]
    return (
        [f"{those(shell)}: {name}={value} is inherited from the launching shell"] if shell else []
    )


def _ordinal_fix(scene: Scene, world: Sequence[RankRecord], bad: Sequence[RankRecord]) -> str:
    sees = [r.visible or () for r in world]
    views = [(r.host, r.visible) for r in world]
    if all(len(v) == 1 for v in sees) and len(set(views)) == len(views):
        other = next(line for line in fixes.show_all_gpus(scene, world).splitlines())
        return fixes.paste(
            "import torch; torch.cuda.set_device(0)",
            note=f"each rank sees one GPU of its own; or let LOCAL_RANK be the ordinal: {other}",
        )
    if fixes.inherited_mask(world):
        return fixes.one_gpu_each(scene, world)
    if fixes.tasks_per_node(world) > max(len(r.visible or ()) for r in bad):
        return _whole_mask(scene, world) or fixes.one_gpu_each(scene, world)
    return fixes.paste(fixes.set_device(world), note="select what is there")


def _whole_mask(scene: Scene, world: Sequence[RankRecord]) -> str | None:
    """A mask of one GPU per rank where the ranks' own mask hides some of the node's; else None."""
    tasks = fixes.tasks_per_node(world)
    masked = all(CVD in r.env for r in world)
    if fixes.launcher_of(scene, world) == "srun" or not masked:
        return None
    enough = all(len(scene.enumerable(r) or ()) >= tasks for r in world)
    return f"export {CVD}={fixes.comma(range(tasks))}" if enough else None


def several_mig_in_mask(scene: Scene) -> Iterable[Finding]:
    """MIG_LIMIT: a mask of several MIG instances; a CUDA process enumerates one."""
    bad = [r for r in scene.ranks if kinds(r.env.get(CVD, "")).count("mig") > 1]
    if bad:
        evidence = [
            f"{who(r)}: {CVD} lists {len(r.env[CVD].split(','))} MIG instances, CUDA shows the first only"
            for r in bad
        ]
        fix = (
            f'export {CVD}=$(cut -d, -f$(({fixes.local_variable(bad)}+1)) <<< "${CVD}")\n'
            "# in each task: one process per instance, a mask of one entry, ordinal 0 in the program"
        )
        yield finding("MIG_LIMIT", bad, evidence, fix)


def mig_of_one_gpu(scene: Scene) -> Iterable[Finding]:
    """MIG_LIMIT: ranks of one communicator on instances of one GPU, which NCCL takes for one device."""
    for _, ranks in scene.hosts:
        parents: dict[str, list[RankRecord]] = defaultdict(list)
        for rank in ranks:
            device = scene.device(rank)
            if device and device.key.startswith("MIG-"):
                parents[device.gpu.pci if device.gpu else _old_parent(device.key)].append(rank)
        for parent, sharing in parents.items():
            slices = {d.key for r in sharing if (d := scene.device(r))}
            if len(slices) < 2 or not parent:
                continue
            evidence = [
                f"{who(r)}: {d.key}, an instance of {parent}"
                for r in sharing
                if (d := scene.device(r))
            ]
            fix = (
                "# one rank per physical GPU: --gres=gpu:1 without MIG, or instances of different GPUs;"
                " for several instances use gloo instead of NCCL: init_process_group('gloo')"
            )
            severity = None if _one_communicator(scene, sharing) else Severity.INFO
            yield finding("MIG_LIMIT", sharing, evidence, fix, severity=severity)


def _one_communicator(scene: Scene, ranks: Sequence[RankRecord]) -> bool:
    """A sign that these ranks meet in NCCL: its variables or words, or torch's rendezvous."""
    if fixes.launcher_of(scene, ranks) == "torchrun":
        return True
    for rank in ranks:
        said = f"{rank.error} {rank.stderr} {rank.framework or ''}"
        if re.search(r"nccl|duplicate gpu|torch|rccl", said, re.IGNORECASE):
            return True
        if any(n.startswith("NCCL_") for n in rank.env) or "MASTER_ADDR" in rank.env:
            return True
    return False


def _old_parent(uuid: str) -> str:
    """The GPU in the older spelling ``MIG-GPU-<uuid>/<gi>/<ci>``; "" otherwise."""
    return uuid.removeprefix("MIG-").partition("/")[0] if uuid.startswith("MIG-GPU-") else ""


def device_order(scene: Scene) -> Iterable[Finding]:
    """DEVICE_ORDER_MISMATCH: CUDA counts the fastest first where models differ, nvidia-smi by PCI."""
    bad, evidence, hurts = [], [], False
    for rank in scene.ranks:
        node = scene.node(rank)
        if node is None or not _mixed(node) or rank.env.get(_ORDER) == "PCI_BUS_ID":
            continue
        got, expected = _by_either_order(scene, rank, node)
        if not got or not expected or got == expected:
            continue
        device = scene.device(rank)
        masked = bool(rank.env.get(CVD))
        hurts = hurts or masked or bool(rank.intended_pci)
        bad.append(rank)
        names = device.key if device else got[0]
        evidence.append(
            f"{who(rank)}: {CVD}={rank.env.get(CVD, 'unset')} gives {', '.join(got)}; by nvidia-smi's"
            f" order it would be {', '.join(expected)} (uses {names}; {_ORDER} is not PCI_BUS_ID)"
        )
    if bad:
        fix = f"export {_ORDER}=PCI_BUS_ID\n# for all ranks; or a mask of UUIDs from nvidia-smi -L"
        severity = Severity.ERROR if hurts else Severity.INFO
        yield finding("DEVICE_ORDER_MISMATCH", bad, evidence, fix, severity=severity)


def _mixed(node: NodeRecord) -> bool:
    return len({g.model for g in node.gpus if g.model}) > 1


def _by_either_order(
    scene: Scene, rank: RankRecord, node: NodeRecord
) -> tuple[list[str], list[str]]:
    """What the rank sees, and what its mask would mean if CUDA counted by PCI; [] where unknown."""
    mask = rank.env.get(CVD)
    gpus, result = scene.enumerable(rank), scene.evaluated(rank, mask)
    if not gpus or result is None or set(kinds(mask or "0")) != {"ordinal"}:
        return [], []
    expected = [gpus[i].pci for i in result.devices]
    if rank.visible:
        return list(rank.visible), expected
    by_index = {g.index: g for g in gpus}
    fastest = [by_index[i] for i in node.fastest_first if i in by_index]
    if len(fastest) != len(gpus) or mask is None:
        return [], []
    return [fastest[i].pci for i in result.devices], expected


def monitored_other_gpu(scene: Scene) -> Iterable[Finding]:
    """NVML_INDEX_MISMATCH: a monitor or minor number takes another GPU for the rank's."""
    bad, evidence = [], []
    for rank in scene.ranks:
        device, node = scene.device(rank), scene.node(rank)
        if device is None or device.gpu is None or node is None:
            continue
        watched = rank.monitor_pci
        if watched is None and rank.monitor_index is not None:
            watched = next((g.pci for g in node.gpus if g.index == rank.monitor_index), None)
        by_minor = next((g.pci for g in node.gpus if g.index == rank.device_minor), None)
        if watched is not None and watched != device.gpu.pci:
            bad.append(rank)
            index = "" if rank.monitor_index is None else f" (NVML index {rank.monitor_index})"
            evidence.append(f"{who(rank)}: runs on {hardware(device)}, watched is {watched}{index}")
        if by_minor is not None and by_minor != device.gpu.pci:
            bad.append(rank)
            evidence.append(
                f"{who(rank)}: /dev/nvidia{rank.device_minor} is {hardware(device)}, nvidia-smi's index"
                f" {rank.device_minor} is {by_minor}"
            )
    if bad:
        device = scene.device(bad[0])
        pci = device.gpu.pci if device and device.gpu else "PCI"
        fix = (
            f"{_look_at(scene.vendor(bad[0]), pci)}\n# name the GPU by hardware; in code"
            " nvmlDeviceGetHandleByPciBusId / ByUUID; a minor number's PCI address stands in"
            " /proc/driver/nvidia/gpus/*/information; in gres.conf AutoDetect=nvml"
        )
        yield finding("NVML_INDEX_MISMATCH", bad, evidence, fix)


def _look_at(vendor: str, pci: str) -> str:
    return "rocm-smi --showbus" if vendor == "amd" else f"nvidia-smi --id={pci}"


def affinity_by_nvml_index(scene: Scene) -> Iterable[Finding]:
    """NVML_INDEX_MISMATCH: cores next to the GPU that NVML counts as the local rank, not to the rank's.

    Certain only where all ranks of the host have exactly the domain of that other GPU as their cores.
    """
    for host, ranks in scene.hosts:
        remote = _beside_the_other(scene, scene.record.nodes.get(host), ranks)
        if remote and all(ordinals(r.env.get(CVD, "")) for r, _, _ in remote):
            evidence = [
                f"{who(r)}: drives {hardware(d)} in NUMA domain {d.gpu.numa if d.gpu else '?'}, bound to"
                f" all cores of domain {o.numa}, that of NVML's GPU {o.index} (NVML ignores {CVD})"
                for r, d, o in remote
            ]
            fix = (
                "# bind by the device's PCI address, not by its ordinal: cores from"
                " /sys/bus/pci/devices/$PCI/local_cpulist (torch.cuda.get_device_properties(i)"
                ".pci_bus_id); or torchrun --numa-binding=node"
            )
            yield finding("NVML_INDEX_MISMATCH", [r for r, _, _ in remote], evidence, fix)


def _beside_the_other(
    scene: Scene, node: NodeRecord | None, ranks: list[RankRecord]
) -> list[tuple[RankRecord, Device, GpuRecord]]:
    """The remote ranks, each with its device and the GPU whose cores it has; [] if one rank does not fit."""
    remote: list[tuple[RankRecord, Device, GpuRecord]] = []
    for rank in ranks:
        device = scene.device(rank)
        other = next((g for g in node.gpus if g.index == rank.local_rank), None) if node else None
        if node is None or device is None or device.gpu is None or other is None:
            return []
        if not rank.cpus or rank.cpus != node.numa.get(-1 if other.numa is None else other.numa):
            return []
        own = node.numa.get(-1 if device.gpu.numa is None else device.gpu.numa)
        if own and not rank.cpus & own:
            remote.append((rank, device, other))
    return remote


RULES = (
    ordinal_beyond_visible,
    several_mig_in_mask,
    mig_of_one_gpu,
    device_order,
    monitored_other_gpu,
    affinity_by_nvml_index,
)
