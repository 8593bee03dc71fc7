"""The third layer of visibility: which of the GPUs it may open a library would show this process. Pure.

Uncertain, and then None: GPUs of several models whose numbers are meant (CUDA counts the fastest first),
and masks of UUIDs where the UUIDs are not known.
"""

from __future__ import annotations

from collections.abc import Sequence

from clusterlab.binding.masks import MigInstance, evaluate_cuda_mask, evaluate_rocm_masks
from clusterlab.binding.probe.node import NodeGpu
from clusterlab.binding.records import MigSlice
from clusterlab.launch.claims import Environ

_CUDA = "CUDA_VISIBLE_DEVICES"


def visible(
    gpus: Sequence[NodeGpu],
    may_open: Sequence[NodeGpu] | None,
    mig: Sequence[MigSlice],
    environ: Environ,
    notes: list[str],
) -> tuple[str, ...] | None:
    """PCI addresses (or the UUID of a MIG instance) in the order the library counts them; None: unknown.

    ``gpus`` are the node's, in PCI order, ``may_open`` those of the second layer. AMD's masks stack;
    CUDA's one mask is read as driver 580 reads it.
    """
    if not gpus or may_open is None:
        return None
    if all(gpu.vendor == "amd" for gpu in gpus):
        left = evaluate_rocm_masks(environ, [gpu.uuid or "" for gpu in may_open]).devices
        return tuple(may_open[i].key for i in left)
    mask = environ.get(_CUDA)
    by_uuid = mask is not None and mask.startswith(("GPU-", "MIG-"))
    why = _uncertain(may_open, by_uuid, environ)
    if why:
        notes.append(f"what CUDA shows is not known: {why}")
        return None
    position = {gpu.key: i for i, gpu in enumerate(may_open)}
    instances = [
        MigInstance(m.uuid, position[gpus[m.parent].key])
        for m in mig
        if m.parent is not None and gpus[m.parent].key in position
    ]
    result = evaluate_cuda_mask(mask, [gpu.uuid or "" for gpu in may_open], mig=instances)
    if result.mig:
        return (result.mig,)
    return tuple(may_open[i].key for i in result.devices)


def _uncertain(gpus: Sequence[NodeGpu], by_uuid: bool, environ: Environ) -> str | None:
    if by_uuid and any(gpu.uuid is None for gpu in gpus):
        return f"{_CUDA} names UUIDs, and those of the GPUs are not known"
    models = {gpu.model for gpu in gpus}
    if not by_uuid and len(models) > 1 and environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        return (
            "GPUs of several models: CUDA counts the fastest first unless"
            " CUDA_DEVICE_ORDER=PCI_BUS_ID is set"
        )
    return None
