"""Which of a node's GPUs CUDA would show a process, for masks whose meaning is beyond doubt.

Understood: no mask, an empty one, distinct indices within range, full UUIDs. Anything else is unknown,
and said to be.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from clusterlab.binding.look import Gpu

_INDEX = re.compile(r"0|[1-9][0-9]{0,3}")
_UUID = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Visible:
    """``gpus`` in the order CUDA counts them; None where that is not certain, for the ``reason``.

    ``count`` may be known although ``gpus`` are not.
    """

    count: int | None = None
    gpus: tuple[Gpu, ...] | None = None
    reason: str | None = None


def visible_gpus(
    mask: str | None, gpus: Sequence[Gpu] | None, *, device_order: str | None = None
) -> Visible:
    """What ``mask`` (CUDA_VISIBLE_DEVICES; None: unset) leaves of the node's ``gpus``, in PCI order.

    ``gpus`` None: they could not be looked at; the mask alone then tells at most how many there are.
    ``device_order`` is CUDA_DEVICE_ORDER.
    """
    entries = mask.split(",") if mask else []
    if mask and not _is_simple(entries):
        return Visible(reason=f"CUDA_VISIBLE_DEVICES={mask!r} is no plain list of indices or UUIDs")
    if gpus is None:
        return Visible(count=None if mask is None else len(entries))
    by_uuid = bool(mask) and bool(_UUID.fullmatch(entries[0]))
    found = list(gpus) if mask is None else _pick(entries, gpus)
    if found is None:
        return Visible(reason=f"CUDA_VISIBLE_DEVICES={mask!r} names a GPU that is not seen here")
    if any(gpu.mig for gpu in gpus):
        return Visible(reason="a GPU here is cut into MIG instances")
    if not by_uuid and device_order != "PCI_BUS_ID" and len({gpu.name for gpu in gpus}) > 1:
        why = "GPUs of several models: CUDA counts the fastest first unless"
        return Visible(count=len(found), reason=f"{why} CUDA_DEVICE_ORDER=PCI_BUS_ID")
    return Visible(len(found), tuple(found))


def _is_simple(entries: Sequence[str]) -> bool:
    kinds = {
        "index" if _INDEX.fullmatch(e) else "uuid" if _UUID.fullmatch(e) else "other"
        for e in entries
    }
    return len(kinds) == 1 and "other" not in kinds and len(set(entries)) == len(entries)


def _pick(entries: Sequence[str], gpus: Sequence[Gpu]) -> list[Gpu] | None:
    names = {str(i): gpu for i, gpu in enumerate(gpus)} | {gpu.uuid: gpu for gpu in gpus}
    return [names[e] for e in entries] if all(e in names for e in entries) else None
