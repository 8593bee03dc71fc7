"""Rules about masks of several vendors or layers in one process (VENDOR_MASK_CONFLICT)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from clusterlab.binding.diagnose.masks import CVD, ordinals
from clusterlab.binding.diagnose.saying import finding, who
from clusterlab.binding.diagnose.scene import Scene
from clusterlab.binding.masks import evaluate_ze_mask
from clusterlab.binding.records import RankRecord
from clusterlab.core.findings import Finding, Severity

_ROCR, _HIP, _ZE = "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"
_HIERARCHY = "ZE_FLAT_DEVICE_HIERARCHY"
_SELECTOR = "ONEAPI_DEVICE_SELECTOR"
_ONE_LEVEL = (
    "unset HIP_VISIBLE_DEVICES CUDA_VISIBLE_DEVICES GPU_DEVICE_ORDINAL\n"
    "# keep one mask only, ROCR_VISIBLE_DEVICES (under Ray: export"
    " RAY_EXPERIMENTAL_NOSET_ROCR_VISIBLE_DEVICES=1 RAY_EXPERIMENTAL_NOSET_HIP_VISIBLE_DEVICES=1)"
)


def stacked_rocm_masks(scene: Scene) -> Iterable[Finding]:
    """ROCr filters first; HIP's mask then indexes what is left and may name what is gone."""
    bad, evidence, fine, stacked = [], [], [], []
    for rank in scene.ranks:
        outer = rank.env.get(_ROCR)
        name = next((n for n in (_HIP, CVD, "GPU_DEVICE_ORDINAL") if rank.env.get(n)), CVD)
        inner = rank.env.get(name)
        if outer is None or not inner or not _amd(scene, rank):
            continue
        count = len([e for e in outer.split(",") if e.strip()])
        beyond = [i for i in ordinals(inner) if i >= count]
        if beyond:
            bad.append(rank)
            evidence.append(
                f"{who(rank)}: {_ROCR}={outer} leaves {count} device{'s' * (count != 1)}, numbered from"
                f" 0; {name}={inner} then asks for {beyond[0]}"
            )
        else:
            fine.append(rank)
            stacked.append(f"{who(rank)}: {_ROCR}={outer} and {name}={inner} on top of it")
    if bad:
        yield finding("VENDOR_MASK_CONFLICT", bad, evidence, _ONE_LEVEL)
    elif fine:
        severity = (
            Severity.INFO
        )  # they agree; the second one only must never be read as a host index
        yield finding("VENDOR_MASK_CONFLICT", fine, stacked, _ONE_LEVEL, severity=severity)


def hip_against_cuda(scene: Scene) -> Iterable[Finding]:
    """HIP reads CUDA_VISIBLE_DEVICES only where its own is unset: two that differ mean two things."""
    bad = [
        r
        for r in scene.ranks
        if _amd(scene, r) and r.env.get(_HIP) and r.env.get(CVD) and r.env[_HIP] != r.env[CVD]
    ]
    if bad:
        evidence = [
            f"{who(r)}: {_HIP}={r.env[_HIP]}, {CVD}={r.env[CVD]}; HIP reads the first" for r in bad
        ]
        fix = f"unset {CVD}\n# on AMD nodes; or export {CVD}=${_HIP}"
        yield finding("VENDOR_MASK_CONFLICT", bad, evidence, fix, severity=Severity.ERROR)


def foreign_masks(scene: Scene) -> Iterable[Finding]:
    """Masks of other vendors beside the node's own: Ray, vLLM and others refuse or misread them."""
    bad, evidence = [], []
    for rank in scene.ranks:
        others = [n for n in _foreign_names(scene, rank) if n in rank.env]
        own = {"amd": _ROCR, "intel": _ZE}.get(scene.vendor(rank), CVD)
        if others and own in rank.env:
            bad.append(rank)
            evidence.append(f"{who(rank)}: {own} and {', '.join(others)} are set on one node")
    if bad:
        others = [n for n in _foreign_names(scene, bad[0]) if n in bad[0].env]
        flag = {"amd": "amd_gpu_env", "intel": "intel_gpu_env"}.get(
            scene.vendor(bad[0]), "nvidia_gpu_env"
        )
        fix = (
            f"unset {' '.join(others)}\n# before the program starts; for the cluster: Flags={flag} (or"
            " AutoDetect) in gres.conf, which without it sets all vendors' masks"
        )
        yield finding("VENDOR_MASK_CONFLICT", bad, evidence, fix, severity=Severity.WARNING)


def _foreign_names(scene: Scene, rank: RankRecord) -> list[str]:
    vendor = scene.vendor(rank)
    if vendor == "amd" or (scene.node(rank) is None and not rank.visible):
        return [_ZE] if vendor == "amd" else []
    return [CVD, _ROCR, _HIP] if vendor == "intel" else [_ROCR, _HIP, _ZE]


def selector_beyond_mask(scene: Scene) -> Iterable[Finding]:
    """ONEAPI_DEVICE_SELECTOR counts what ZE_AFFINITY_MASK left, not the node's devices."""
    bad, evidence = [], []
    for rank in scene.ranks:
        mask, text = rank.env.get(_ZE, ""), rank.env.get(_SELECTOR, "")
        count = len([e for e in mask.split(",") if e.strip()])
        wanted = [
            int(n) for n in re.findall(r"(?<![0-9.])[0-9]{1,3}(?![0-9.])", text.partition(":")[2])
        ]
        if count and wanted and max(wanted) >= count and "." not in mask:
            bad.append(rank)
            evidence.append(
                f"{who(rank)}: {_ZE}={mask} leaves {count}, {_SELECTOR}={text} asks for more"
            )
    if bad:
        fix = f"unset {_SELECTOR}\n# keep one, {_ZE}"
        yield finding("VENDOR_MASK_CONFLICT", bad, evidence, fix)


def level_zero_hierarchies(scene: Scene) -> Iterable[Finding]:
    """One ZE_AFFINITY_MASK read under different hierarchies, or with entries its hierarchy has not."""
    for _, ranks in scene.hosts:
        by_mask: dict[str, list[RankRecord]] = defaultdict(list)
        for rank in ranks:
            if _ZE in rank.env:
                by_mask[rank.env[_ZE]].append(rank)
        for mask, sharing in by_mask.items():
            models = {r.env.get(_HIERARCHY, "FLAT").upper() for r in sharing}
            if len(models) > 1:
                evidence = [
                    f"{who(r)}: {_ZE}={mask} under {_HIERARCHY}={r.env.get(_HIERARCHY, 'unset (FLAT)')}"
                    for r in sharing
                ]
                fix = f"export {_HIERARCHY}=COMPOSITE\n# for all ranks; write tiles as card.tile"
                yield finding(
                    "VENDOR_MASK_CONFLICT", sharing, evidence, fix, severity=Severity.ERROR
                )
            else:
                yield from _nameless_entries(scene, mask, sharing)


def _nameless_entries(scene: Scene, mask: str, ranks: list[RankRecord]) -> Iterable[Finding]:
    node = scene.node(ranks[0])
    model = ranks[0].env.get(_HIERARCHY, "FLAT").upper()
    if node is None or not node.gpus or not mask.strip() or mask == "default":
        return
    tiles = [g.tiles or 1 for g in sorted(node.gpus, key=lambda g: g.index)]
    entries = [e for e in mask.split(",") if e.strip()]
    unread = [e for e in entries if not evaluate_ze_mask(e, tiles, model)]
    if unread:
        evidence = [
            f"{who(r)}: {_ZE}={mask}: {', '.join(unread)} names nothing under {model}"
            for r in ranks
        ]
        fix = f"export {_HIERARCHY}=COMPOSITE\n# with entries card or card.tile (FLAT: one number per tile)"
        yield finding("VENDOR_MASK_CONFLICT", ranks, evidence, fix, severity=Severity.ERROR)


def _amd(scene: Scene, rank: RankRecord) -> bool:
    """An AMD node, or an unknown one with AMD's masks only."""
    node = scene.node(rank)
    if node is not None and node.gpus:
        return scene.vendor(rank) == "amd"
    return _ROCR in rank.env or _HIP in rank.env


RULES = (
    stacked_rocm_masks,
    hip_against_cuda,
    foreign_masks,
    selector_beyond_mask,
    level_zero_hierarchies,
)
