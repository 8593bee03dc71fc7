"""Rules about masks of another place or time: renumbered devices, other jobs' GPUs, set too late or never."""

from __future__ import annotations

import re
from collections.abc import Iterable

from clusterlab.binding import fixes
from clusterlab.binding.diagnose.masks import CVD, cuda_masked, ordinals
from clusterlab.binding.diagnose.saying import finding, who
from clusterlab.binding.diagnose.scene import Scene
from clusterlab.binding.diagnose.sound_masks import mask_command
from clusterlab.binding.diagnose.variables import MASKS
from clusterlab.binding.records import RankRecord
from clusterlab.core.findings import Finding, Severity


def stale_index_space(scene: Scene) -> Iterable[Finding]:
    """CVD_STALE_INDEX_SPACE: a host's or job's index where a cgroup or container renumbered from 0."""
    bad, evidence = [], []
    for rank, mask in cuda_masked(scene):
        count = _renumbered(scene, rank)
        indices = ordinals(mask)
        if count is None or not indices or max(indices) < count:
            continue
        bad.append(rank)
        evidence.append(
            f"{who(rank)}: {CVD}={mask}, but it may open {count} GPU{'s' * (count != 1)}, which CUDA"
            f" numbers from 0{_container_words(rank)}"
        )
    if not bad:
        return
    bare = [r for r in bad if r.container and not _renumbered(scene, r)]
    if bare:
        fix = fixes.gpus_into_container(scene, bare[0])
        yield finding("CVD_STALE_INDEX_SPACE", bad, evidence, fix)
        return
    count = max(_renumbered(scene, bad[0]) or 1, 1)
    inside = ",".join(str(i) for i in range(count))
    if any(r.container for r in bad):
        fix = f"unset {CVD}\n# in the container, where GPUs are numbered from 0 ({CVD}={inside} is the same)"
        if scene.constrained is False:
            fix += "; for the cluster: ConstrainDevices=yes in cgroup.conf"
    else:
        fix = f"export {CVD}={inside}\n# as Slurm sets it: ordinals within the step; do not export it anew"
    yield finding("CVD_STALE_INDEX_SPACE", bad, evidence, fix)


def _renumbered(scene: Scene, rank: RankRecord) -> int | None:
    """How many GPUs a cgroup or container leaves, where fewer than the node has; else None."""
    node = scene.node(rank)
    if node is None or not node.gpus:
        return None
    left = scene.enumerable(rank)
    if left is not None and len(left) < len(node.gpus):
        return len(left)
    given = rank.env.get("NVIDIA_VISIBLE_DEVICES", "")
    if rank.container and rank.openable is None and ordinals(given):
        return len(ordinals(given))
    return None


def _container_words(rank: RankRecord) -> str:
    if rank.container is None:
        return ""
    given = rank.env.get("NVIDIA_VISIBLE_DEVICES")
    words = f" ({rank.container.runtime or 'container'}"
    return f"{words}, NVIDIA_VISIBLE_DEVICES={given})" if given else f"{words})"


def other_jobs_gpus(scene: Scene) -> Iterable[Finding]:
    """CVD_STALE_INDEX_SPACE: a mask that names GPUs of the node that the job does not own."""
    bad, evidence = [], []
    for rank in scene.ranks:
        mask = rank.env.get(CVD)
        if mask is None:
            continue
        foreign = _foreign(scene, rank, mask)
        if foreign:
            bad.append(rank)
            evidence.append(f"{who(rank)}: {CVD}={mask} means {foreign}")
    if bad:
        fix = (
            f'export {CVD}=$(cut -d, -f$((SLURM_LOCALID+1)) <<< "${CVD}")\n'
            "# in the task: index into the mask Slurm gave instead of replacing it"
        )
        yield finding("CVD_STALE_INDEX_SPACE", bad, evidence, fix)


def _foreign(scene: Scene, rank: RankRecord, mask: str) -> str | None:
    if rank.allocated is not None and rank.visible:
        outside = [p for p in rank.visible if p not in rank.allocated]
        return f"{', '.join(outside)}, which this job does not own" if outside else None
    if scene.constrained is not False:
        return None
    owned = ordinals(rank.env.get("SLURM_STEP_GPUS", "") or rank.env.get("SLURM_JOB_GPUS", ""))
    outside_ids = [i for i in ordinals(mask) if i not in owned]
    if not owned or not outside_ids:
        return None
    return f"GPU {outside_ids[0]} of the node; Slurm gave {','.join(map(str, owned))}"


def set_after_init(scene: Scene) -> Iterable[Finding]:
    """CVD_SET_AFTER_INIT: the mask in os.environ is not the one CUDA read when it began."""
    bad, evidence = [], []
    for rank in scene.ranks:
        before = rank.env_at_exec
        if CVD not in rank.env or (before is None and not rank.cuda_initialized_before_set):
            continue
        now, then = rank.env[CVD], (before or {}).get(CVD)
        if before is not None and CVD in before and now == then:
            continue
        if rank.cuda_initialized_before_set or _still_sees(scene, rank, now, then):
            bad.append(rank)
            count = f", still sees {len(rank.visible)} devices" if rank.visible else ""
            was = "unset" if then is None else repr(then)
            evidence.append(f"{who(rank)}: {CVD}={now} now, {was} when it started{count}")
    if bad:
        fix = fixes.paste(
            mask_command(scene, bad[0], bad[0].env[CVD])
            if len({r.env[CVD] for r in bad}) == 1
            else fixes.set_device(bad),
            note=f"{CVD} counts only if set before the process starts, in the launcher or its wrapper;"
            " later, select the device by ordinal instead",
        )
        yield finding("CVD_SET_AFTER_INIT", bad, evidence, fix)


def _still_sees(scene: Scene, rank: RankRecord, now: str, then: str | None) -> bool:
    """Whether what it sees is what the first mask gives and not what the present one does."""
    new, old, gpus = scene.evaluated(rank, now), scene.evaluated(rank, then), scene.enumerable(rank)
    if new is None or old is None or gpus is None or rank.visible is None:
        return False
    sees = set(rank.visible)
    return {gpus[i].pci for i in old.devices} == sees != {gpus[i].pci for i in new.devices}


def unset(scene: Scene) -> Iterable[Finding]:
    """CVD_UNSET: no mask, although the job owns fewer GPUs than the rank sees, or tasks were to be bound."""
    for _, ranks in scene.hosts:
        bad, evidence, foreign = [], [], False
        for rank in ranks:
            sees = rank.visible
            if sees is None or any(name in rank.env for name in MASKS):
                continue
            owned = _owned(rank)
            if owned is not None and owned < len(sees):
                foreign = foreign or bool(rank.allocated)
                evidence.append(
                    f"{who(rank)}: no mask is set; sees {len(sees)} GPUs, the job owns {owned}"
                )
                bad.append(rank)
            elif owned is None and _asked_for_none(scene, rank) and (rank.openable or sees):
                evidence.append(
                    f"{who(rank)}: the step asked for no GPU and no mask is set; sees {len(sees)} GPUs"
                    " that may be other jobs'"
                )
                bad.append(rank)
            elif scene.options.binds_per_task and len(sees) > 1 and len(ranks) > 1:
                evidence.append(f"{who(rank)}: no mask is set although tasks were to be bound")
                bad.append(rank)
        if bad:
            severity = Severity.ERROR if foreign else None
            yield finding("CVD_UNSET", bad, evidence, _unset_fix(scene, bad), severity=severity)


def _asked_for_none(scene: Scene, rank: RankRecord) -> bool:
    """Whether srun started this task, neither its line nor its variables speak of GPUs, and nothing
    keeps it from any GPU of the node.
    """
    node = scene.node(rank)
    whole = node is not None and len(rank.visible or ()) >= len(node.gpus) > 1
    if node is None or not whole or scene.constrained or rank.container:
        return False
    if rank.openable is not None and len(rank.openable) < len(node.gpus):
        return False
    asked = (
        "gpus",
        "gpus-per-node",
        "gpus-per-task",
        "ntasks-per-gpu",
        "gres",
        "gpu-bind",
        "tres-bind",
    )
    told = any("GPU" in n or "GRES" in n or "TRES" in n for n in rank.env if n.startswith("SLURM_"))
    started = "SLURM_STEP_ID" in rank.env or "SLURM_STEPID" in rank.env
    line = scene.record.launcher
    by_srun = "srun" in line and not re.search(
        r"sbatch|salloc|gpu|gres|tres|…|\.\.\.", line, re.IGNORECASE
    )
    return started and by_srun and not told and not any(n in scene.options.flags for n in asked)


def _owned(rank: RankRecord) -> int | None:
    if rank.allocated is not None:
        return len(rank.allocated)
    for name in ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS"):
        if ordinals(rank.env.get(name, "")):
            return len(ordinals(rank.env[name]))
    count = rank.env.get("SLURM_GPUS_ON_NODE", "")
    return int(count) if count.isascii() and count.isdigit() and len(count) < 6 else None


def _unset_fix(scene: Scene, ranks: list[RankRecord]) -> str:
    line = fixes.step(scene, ranks, gpus=fixes.tasks_per_node(ranks))
    if "none" in scene.options.gpu_bind and fixes.at_least(scene, 23, 11) is not True:
        return fixes.paste(
            line,
            note="without --gpu-bind=none (before Slurm 23.11 it unsets the mask); for the cluster:"
            " ConstrainDevices=yes in cgroup.conf",
        )
    return fixes.paste(line, note=f"Slurm then sets the mask ({CVD} or the vendor's)")


RULES = (stale_index_space, other_jobs_gpus, set_after_init, unset)
