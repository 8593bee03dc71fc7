"""Rules about what Slurm's GPU binding did: --gpu-bind, per-task device cgroups, SLURM_STEP_GPUS."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from clusterlab.binding import fixes
from clusterlab.binding.diagnose.mapping import shared_devices
from clusterlab.binding.diagnose.masks import ordinals
from clusterlab.binding.diagnose.saying import finding, quoted, those, who
from clusterlab.binding.diagnose.scene import Scene
from clusterlab.binding.diagnose.variables import number
from clusterlab.binding.records import RankRecord
from clusterlab.core.findings import Finding, Severity

_OUTSIDE = re.compile(
    r"Bind request .* does not specify any devices within the allocation|Invalid --gpu-bind= value"
)
_IPC = re.compile(
    r"Could not enable P2P|lacks GPU P2P|P2P[^\n]{0,40}(disabled|not |unavailable|fail)"
    r"|(cu|cuda|hip)Ipc\w*[^\n]{0,60}(invalid|fail|error)|pidfd is not supported"
    r"|peer (access|memory)[^\n]{0,40}(not |fail|unsupported|denied)|isAllDirectP2p 0",
    re.IGNORECASE,
)
_IPC_FATAL = re.compile(r"IpcOpenMemHandle|hang|abort|unhandled|failed", re.IGNORECASE)


def bind_outside_allocation(scene: Scene) -> Iterable[Finding]:
    """GPU_BIND_OUT_OF_ALLOC: ids the allocation has not; Slurm then binds to its first GPU.

    Slurm prints the message also where the cgroup binds rightly (partial nodes before 24.11): it counts
    only where tasks really share a GPU.
    """
    for _, ranks in scene.hosts:
        said = [r for r in ranks if _OUTSIDE.search(f"{r.error} {r.stderr}")]
        ids = scene.options.bind_ids()
        outside = _outside(scene, ranks, ids)
        same = len(ranks) == 1 or len({r.visible for r in ranks}) < len(ranks)
        if not same or not (said or outside):
            continue
        if not said and not shared_devices(scene, ranks):
            continue
        evidence = [f"{who(r)}: {quoted(r.error or r.stderr)}" for r in said]
        if outside:
            evidence.append(
                f"--gpu-bind names GPU {outside[0]}, the allocation has {_index_space(scene)}"
            )
        tasks = fixes.tasks_per_node(ranks)
        owned = ordinals(ranks[0].env.get("SLURM_JOB_GPUS", ""))
        space = range(tasks) if scene.constrained or len(owned) < tasks else owned[:tasks]
        fix = fixes.paste(
            fixes.step(scene, ranks, f"--gpu-bind=map_gpu:{fixes.comma(space)}", gpus=tasks),
            note="ids count from 0 within the job with ConstrainDevices, else they are the node's; masks"
            " are written 0x…",
        )
        yield finding("GPU_BIND_OUT_OF_ALLOC", said or ranks, evidence, fix)


def _outside(scene: Scene, ranks: Sequence[RankRecord], ids: Sequence[int]) -> list[int]:
    """The ids of --gpu-bind that the allocation has not, as far as the record tells."""
    owned = ordinals(ranks[0].env.get("SLURM_JOB_GPUS", ""))
    count = scene.options.gpus_asked(len(scene.record.nodes) or 1)
    if scene.constrained and (count or owned):
        return [i for i in ids if i >= (count or len(owned))]
    if scene.constrained is False and owned:
        return [i for i in ids if i not in owned]
    node = scene.node(ranks[0])
    beyond = [i for i in ids if node is not None and node.gpus and i >= len(node.gpus)]
    return beyond or (_not_given(scene, ranks, ids) if scene.constrained is False else [])


def _not_given(scene: Scene, ranks: Sequence[RankRecord], ids: Sequence[int]) -> list[int]:
    """The ids of map_gpu whose tasks got another GPU than the one named: Slurm passed them over.

    Slurm takes the list by local task id, from the start again where it is short (measured, 22.05).
    """
    asked = scene.options.gpu_bind.removeprefix("verbose,")
    if not asked.startswith("map") or "*" in asked or not ids:
        return []
    passed_over = []
    for rank in ranks:
        task = number(rank.env, "SLURM_LOCALID")
        if task is None or len(rank.visible or ()) != 1:
            continue
        gpu = scene.gpu_named(rank.host, (rank.visible or ("",))[0])
        if gpu is not None and gpu.index != ids[task % len(ids)]:
            passed_over.append(ids[task % len(ids)])
    return passed_over


def _index_space(scene: Scene) -> str:
    count = scene.options.gpus_asked(len(scene.record.nodes) or 1)
    return f"0 to {count - 1}" if scene.constrained and count else "others"


def decimal_masks(scene: Scene) -> Iterable[Finding]:
    """GPU_BIND_OUT_OF_ALLOC as information: mask_gpu without 0x is read as decimal (seen on 22.05.8)."""
    text = scene.options.gpu_bind.partition("mask")[2].partition(":")[2]
    entries = [e.partition("*")[0] for e in text.split(",") if e]
    strange = [
        e for e in entries if e.isascii() and e.isdigit() and 9 < int(e[:9]) != int(e[:9], 16)
    ]
    if strange and scene.ranks:
        evidence = [
            f"--gpu-bind={scene.options.gpu_bind}: {strange[0]} is decimal, GPUs {_bits(int(strange[0][:9]))}"
        ]
        fix = f"export SLURM_GPU_BIND=mask_gpu:{','.join(_unambiguous(scene, entries))}"
        yield finding("GPU_BIND_OUT_OF_ALLOC", scene.ranks, evidence, fix, severity=Severity.INFO)


def _unambiguous(scene: Scene, entries: Sequence[str]) -> list[str]:
    """The masks with 0x: of their digits where those were meant so, else of the same GPUs as now."""
    if _hex_was_meant(scene, entries):
        return [f"0x{e}" for e in entries]
    numbers = [e for e in entries if e.isascii() and e.isdigit() and len(e) <= 9]
    return [hex(int(e)) if e in numbers else e for e in entries]


def _hex_was_meant(scene: Scene, entries: Sequence[str]) -> bool:
    """Whether each entry is one GPU of the node when read with 0x, and not all are when read as decimal.

    Decimal powers of two within the node are what was asked for, unless tasks got other GPUs.
    """
    nodes = [n for n in scene.record.nodes.values() if n.gpus]
    count = min((len(n.gpus) for n in nodes), default=64)
    if not all(e.isascii() and e.isdigit() and len(e) <= 9 for e in entries):
        return False
    if not all(_one_of(int(e, 16), count) for e in entries):
        return False
    if not all(_one_of(int(e), count) for e in entries):
        return True
    return any(
        gpu.index != int(entries[task % len(entries)]).bit_length() - 1
        for rank in scene.ranks
        if len(rank.visible or ()) == 1
        and (task := number(rank.env, "SLURM_LOCALID")) is not None
        and (gpu := scene.gpu_named(rank.host, (rank.visible or ("",))[0])) is not None
    )


def _one_of(mask: int, count: int) -> bool:
    return mask.bit_count() == 1 and mask.bit_length() <= count


def _bits(mask: int) -> str:
    return ",".join(str(b) for b in range(mask.bit_length()) if mask >> b & 1)


def closest_gives_several(scene: Scene) -> Iterable[Finding]:
    """GPU_BIND_CLOSEST_MULTI: closest gives each task all GPUs of its domain, so tasks overlap."""
    for host, ranks in scene.hosts:
        asked = "closest" in scene.options.gpu_bind
        if not asked and not _looks_like_closest(scene, host, ranks):
            continue
        overlap = [
            r
            for r in ranks
            if len(r.visible or ()) > 1
            and any(set(r.visible or ()) & set(o.visible or ()) for o in ranks if o is not r)
        ]
        chosen = [scene.device(r) for r in overlap]
        if not overlap:
            continue
        apart = None not in chosen and len(set(chosen)) == len(chosen)
        evidence = [f"{who(r)}: sees {', '.join(r.visible or ())}" for r in overlap]
        fix = fixes.one_gpu_each(scene, ranks)
        severity = Severity.INFO if apart else None  # the program itself picks different ones
        yield finding("GPU_BIND_CLOSEST_MULTI", overlap, evidence, fix, severity=severity)


def _looks_like_closest(scene: Scene, host: str, ranks: Sequence[RankRecord]) -> bool:
    """Whether Slurm's tasks each see exactly the GPUs of their cores' domains, and not all the node's."""
    node = scene.record.nodes.get(host)
    if node is None or not scene.under_slurm or len(scene.tasks(ranks)) < len(ranks):
        return False
    for rank in ranks:
        domains = {d for d, cpus in node.numa.items() if rank.cpus and rank.cpus & cpus}
        near = {g.pci for g in node.gpus if g.numa in domains}
        if not rank.cpus or set(rank.visible or ()) != near or len(near) == len(node.gpus):
            return False
    return len({r.visible for r in ranks}) > 1


def isolated_from_peers(scene: Scene) -> Iterable[Finding]:
    """IPC_ISOLATED: ranks of a node cannot open each other's GPU, so no CUDA IPC and no P2P.

    Information where nothing complains (NCCL goes through host memory), an error where something does.
    """
    for _, ranks in scene.hosts:
        devices = [(r, d) for r in ranks if (d := scene.device(r))]
        views = [set(r.visible or ()) for r in ranks]
        disjoint = (
            len(views) > 1 and all(views) and sum(map(len, views)) == len(set().union(*views))
        )
        complaints = [r for r in ranks if _IPC.search(f"{r.error} {r.stderr}")]
        walled = [
            (r, peer)
            for r in ranks
            for _, peer in devices
            if _opens(scene, r) and not _may_open(scene, r, peer.key)
        ]
        if not walled and not (disjoint and complaints):
            continue
        if walled and not disjoint and not complaints:
            continue  # several wrong things at once: other rules name them
        evidence = [f"{who(r)}: {quoted(r.error or r.stderr)}" for r in complaints[:3]]
        if walled:
            rank, peer = walled[0]
            evidence.append(
                f"{who(rank)}: may open {', '.join(_opens(scene, rank))}, not {peer.key}"
            )
        else:
            evidence.append(f"{those(ranks)}: each sees GPUs that no other sees")
        severity = Severity.INFO
        if complaints:
            hard = any(_IPC_FATAL.search(r.error) for r in complaints)
            severity = Severity.FATAL if hard else Severity.ERROR
        fix = fixes.keep_ipc(scene, ranks)
        yield finding("IPC_ISOLATED", ranks, evidence, fix, severity=severity)


def _opens(scene: Scene, rank: RankRecord) -> tuple[str, ...]:
    """What the rank may open, by its cgroup, its container, or a per-task binding with ConstrainDevices."""
    if rank.openable is not None:
        return rank.openable
    if rank.container and rank.container.devices is not None:
        return tuple(g.pci for g in scene.enumerable(rank) or ())
    if (
        scene.constrained
        and scene.options.binds_per_task
        and "sharing" not in scene.options.get("gres-flags")
    ):
        return rank.visible or ()
    return ()


def _may_open(scene: Scene, rank: RankRecord, key: str) -> bool:
    gpu = scene.gpu_named(rank.host, key)
    opens = _opens(scene, rank)
    return key in opens or (gpu is not None and (gpu.pci in opens or gpu.uuid in opens))


def step_gpus_wrong(scene: Scene) -> Iterable[Finding]:
    """STEP_GPUS_UNRELIABLE: SLURM_STEP_GPUS names another GPU than the one the task got."""
    for host, ranks in scene.hosts:
        node = scene.record.nodes.get(host)
        said = {r.env.get("SLURM_STEP_GPUS") for r in ranks}
        if node is None or len(ranks) < 2 or len(said) != 1 or None in said:
            continue
        named = {g.pci for g in node.gpus if g.index in ordinals(next(iter(said)) or "")}
        off = [r for r in ranks if r.visible and named and not set(r.visible) <= named]
        if off and len({r.visible for r in ranks}) > 1:
            text = next(iter(said))
            evidence = [
                f"{who(r)}: SLURM_STEP_GPUS={text}, got {', '.join(r.visible or ())}" for r in off
            ]
            yield finding(
                "STEP_GPUS_UNRELIABLE", off, evidence, _ask_the_tool(scene.vendor(ranks[0]))
            )


def _ask_the_tool(vendor: str) -> str:
    tool = {"amd": "rocm-smi --showbus --showuniqueid", "intel": "xpu-smi discovery"}.get(
        vendor, "nvidia-smi --query-gpu=pci.bus_id,uuid --format=csv,noheader"
    )
    return fixes.paste(tool, note="inside the task: what it got, not what the step was said to get")


RULES = (
    bind_outside_allocation,
    decimal_masks,
    closest_gives_several,
    isolated_from_peers,
    step_gpus_wrong,
)
