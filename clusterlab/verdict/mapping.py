"""Whether ranks sit where a prediction put them: on GPUs of that kind, and on those very ones. Pure."""

from __future__ import annotations

from clusterlab.core.placement import Placement
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.match import chip_name, same_gpu
from clusterlab.topology.parts import PRETENDED

_MOST_NAMED = 4


def mapping_doubt(fabric: Fabric, observed: Placement, placed: Placement) -> str | None:
    """Why a prediction for ``placed`` is not one for ``observed``; None where nothing speaks against it.

    ``placed`` is ``observed`` with the fabric's devices. Designs describe GPUs without bus ids; a discovered
    fabric has them, and a rank on a GPU that it does not have is somewhere else.
    """
    devices = [None if r.device is None else fabric.device(r.device) for r in placed.ranks]
    elsewhere = []
    for rank, device in zip(observed.ranks, devices, strict=True):
        if device is None or device.kind != "gpu" or device.model == PRETENDED:
            continue
        if rank.gpu is None and rank.gpu_name is None:
            return f"{fabric.name} describes GPUs, rank {rank.rank} has none"
        here, there = chip_name(rank.gpu_name or ""), chip_name(device.model or "")
        if here is not None and there is not None and here != there:
            return f"rank {rank.rank} runs on {rank.gpu_name}, {fabric.name} has {device.model}"
        if same_gpu(device, rank.gpu) is False:
            elsewhere.append(
                f"rank {rank.rank} on {rank.gpu} instead of {device.pci or device.guid}"
            )
    if not elsewhere:
        return None
    more = f" and {len(elsewhere) - _MOST_NAMED} more" if len(elsewhere) > _MOST_NAMED else ""
    return f"ranks are mapped unlike the prediction: {', '.join(elsewhere[:_MOST_NAMED])}{more}"
