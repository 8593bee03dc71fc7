"""Which of a node's GPUs CUDA would show a process under its mask, where that is certain.

Uncertain: GPUs that could not be looked at, GPUs cut into MIG instances, and ordinals where GPUs of
several models make CUDA count the fastest first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from clusterlab.binding.look import Gpu
from clusterlab.binding.masks import CudaError, evaluate_cuda_mask

_ORDINAL = re.compile(r"0|[1-9][0-9]{0,3}")
_UUID = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Visible:
    """``gpus`` in the order CUDA counts them; None where that is not certain, for the ``reason``.

    ``count`` may be known although ``gpus`` are not. ``error``: what cuInit returns under this mask.
    """

    count: int | None = None
    gpus: tuple[Gpu, ...] | None = None
    reason: str | None = None
    error: CudaError | None = None


def visible_gpus(
    mask: str | None, gpus: Sequence[Gpu] | None, *, device_order: str | None = None
) -> Visible:
    """What ``mask`` (CUDA_VISIBLE_DEVICES; None: unset) leaves of the node's ``gpus``, in PCI order.

    ``gpus`` None: they could not be looked at; the mask alone then tells at most how many there are.
    ``device_order`` is CUDA_DEVICE_ORDER.
    """
    if gpus is None:
        return _promised(mask)
    if any(gpu.mig for gpu in gpus):
        return Visible(reason="a GPU here is cut into MIG instances")
    found = evaluate_cuda_mask(mask, [gpu.uuid for gpu in gpus])
    if found.error and gpus:
        return Visible(0, (), error=found.error)
    by_uuid = mask is not None and mask.startswith("GPU-")
    if not by_uuid and device_order != "PCI_BUS_ID" and len({gpu.name for gpu in gpus}) > 1:
        why = "GPUs of several models: CUDA counts the fastest first unless"
        return Visible(len(found.devices), reason=f"{why} CUDA_DEVICE_ORDER=PCI_BUS_ID is set")
    return Visible(len(found.devices), tuple(gpus[i] for i in found.devices))


def _promised(mask: str | None) -> Visible:
    """How many GPUs a mask names, if it names each plainly and once."""
    if not mask:
        return Visible(count=None if mask is None else 0)
    entries = mask.split(",")
    for kind in (_ORDINAL, _UUID):
        if all(kind.fullmatch(entry) for entry in entries) and len(set(entries)) == len(entries):
            return Visible(count=len(entries))
    return Visible(reason=f"CUDA_VISIBLE_DEVICES={mask!r} is no plain list of indices or UUIDs")
