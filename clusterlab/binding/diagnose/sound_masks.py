"""Masks to print in a fix: devices that exist here, each once, as the driver reads them.

No fix repeats the fault it is for: what is printed has been through ``clusterlab.binding.masks``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from clusterlab.binding.diagnose.scene import Scene
from clusterlab.binding.masks import evaluate_cuda_mask
from clusterlab.binding.masks.numbers import leading_int32
from clusterlab.binding.records import GpuRecord, RankRecord

_CVD = "CUDA_VISIBLE_DEVICES"
_MOST_ENTRIES = 1024
_PCI = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", re.IGNORECASE)
_RANGE = re.compile(r"([0-9]{1,3})\s*[-:]\s*([0-9]{1,3})")
_HEX = re.compile(r"0[xX]([0-9a-fA-F]{1,2})")
_WORDED = re.compile(r"[A-Za-z_/]+:?([0-9]{1,3})|([0-9]{1,3})[A-Za-z_]+")
_WHOLE = re.compile(r"[+]?[0-9]+")


def mask_command(scene: Scene, rank: RankRecord, mask: str) -> str:
    """``export CUDA_VISIBLE_DEVICES=…`` with what is sound of ``mask``; else what the rank sees or owns.

    Where nothing of that is known either: ``unset CUDA_VISIBLE_DEVICES``.
    """
    entries = sound_entries(scene, rank, mask) or _seen_or_owned(scene, rank)
    return f"export {_CVD}={','.join(entries)}" if entries else f"unset {_CVD}"


def sound_entries(scene: Scene, rank: RankRecord, mask: str) -> list[str]:
    """The entries of ``mask`` that name devices of the rank's node, each device once; [] without any.

    Ranges are written out, quotes and words dropped, PCI addresses looked up. Ordinals, unless all that
    is left are UUIDs.
    """
    tokens = [t for t in re.split(r"[,;|\s]+", _joined_ranges(mask)) if t][:_MOST_ENTRIES]
    tokens = [t.strip("[](){}'\"") for t in tokens]
    mig = next((t for t in tokens if t.startswith("MIG-")), None)
    if mig is not None:
        node = scene.node(rank)
        known = node is None or not node.mig or any(m.uuid == mig for m in node.mig)
        return [mig] if known and re.fullmatch(r"MIG-[\w/-]+", mig, re.ASCII) else []
    gpus = scene.enumerable(rank)
    if gpus is None:
        return _without_node(tokens)
    positions = _positions(tokens, gpus)
    if not positions:
        return []
    if all(by_uuid for by_uuid in positions.values()):
        named = [gpus[i].uuid or "" for i in positions]
        if checked := _checked(scene, rank, named):
            return checked
    return _checked(scene, rank, [str(i) for i in positions])


def _joined_ranges(mask: str) -> str:
    return re.sub(r"(?<=[0-9])[ \t]*([-:])[ \t]*(?=[0-9])", r"\1", mask)


def _positions(tokens: Iterable[str], gpus: Sequence[GpuRecord]) -> dict[int, bool]:
    """Position in ``gpus`` → whether a UUID named it, in the order of the tokens."""
    found: dict[int, bool] = {}
    for token in tokens:
        if token.lower().startswith("gpu-"):
            result = evaluate_cuda_mask(f"GPU-{token[4:]}", [g.uuid or "" for g in gpus])
            for position in result.devices if len(token) > len("GPU-") else ():
                found.setdefault(position, True)
            continue
        for position in _by_number(token, gpus):
            if 0 <= position < len(gpus):
                found.setdefault(position, False)
    return found


def _by_number(token: str, gpus: Sequence[GpuRecord]) -> Sequence[int]:
    """The positions a token without UUID names: a number, a range, ``0x1``, ``cuda:1`` or a PCI address."""
    if address := _PCI.fullmatch(token):
        return [i for i, g in enumerate(gpus) if _same_address(address, g.pci)]
    if _WHOLE.fullmatch(token):
        ordinal = leading_int32(token)
        return [] if ordinal is None else [ordinal]
    if between := _RANGE.fullmatch(token):
        return range(int(between[1]), int(between[2]) + 1)
    if hexadecimal := _HEX.fullmatch(token):
        return [int(hexadecimal[1], 16)]
    worded = _WORDED.fullmatch(token)
    return [int(worded[1] or worded[2])] if worded else []


def _same_address(address: re.Match[str], pci: str) -> bool:
    other = _PCI.fullmatch(pci)
    return (
        other is not None
        and address[2].lower() == other[2].lower()
        and int(address[1] or "0", 16) == int(other[1] or "0", 16)
    )


def _without_node(tokens: Iterable[str]) -> list[str]:
    """Distinct numbers, or distinct UUIDs where there is no number: what the node has is not known."""
    numbers: dict[int, None] = {}
    uuids: dict[str, str] = {}
    for token in tokens:
        if re.fullmatch(r"GPU-[0-9A-Fa-f][0-9A-Fa-f-]*", token):
            tail = token.lower()
            if not any(k.startswith(tail) or tail.startswith(k) for k in uuids):
                uuids[tail] = token
        elif not _PCI.fullmatch(token):
            numbers.update(
                dict.fromkeys(n for n in _by_number(token, ()) if 0 <= n < _MOST_ENTRIES)
            )
    return [str(n) for n in numbers] or list(uuids.values())


def _checked(scene: Scene, rank: RankRecord, entries: list[str]) -> list[str]:
    """``entries`` where the driver makes a device of each, else the first where it does of that; []."""
    for tried in (entries, entries[:1]):
        result = scene.evaluated(rank, ",".join(tried))
        if result is None or (result.error is None and len(result.devices) == len(tried)):
            return tried
    return []


def _seen_or_owned(scene: Scene, rank: RankRecord) -> list[str]:
    gpus = scene.enumerable(rank) or []
    for addresses in (rank.visible, rank.allocated):
        there = [str(i) for i, g in enumerate(gpus) if g.pci in (addresses or ())]
        if there:
            return _checked(scene, rank, there)
    return []


def first_gpus(scene: Scene, ranks: Sequence[RankRecord], count: int) -> str:
    """``0,1,…``: ``count`` ordinals, or as many as every one of ``ranks`` has GPUs to count."""
    there = [len(gpus) for r in ranks if (gpus := scene.enumerable(r))]
    return ",".join(str(i) for i in range(min([count, *there])))
