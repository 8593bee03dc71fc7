"""Where the ranks of this job are: each takes its device and says so, rank 0 hears all and may refuse."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clusterlab.core.placement import Placement, RankPlacement, placement_from_json
from clusterlab.launch.devices import agree_on_devices, claim_device, device_record
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.roll_call import Record, roll_call

if TYPE_CHECKING:
    from torch.distributed import Store


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """All ranks' places and process ids, in rank order."""

    placement: Placement
    pids: tuple[int, ...]


def call_whereabouts(
    identity: RankIdentity, store: Store, backend: str, *, timeout_s: float
) -> Whereabouts | None:
    """Take this rank's device, refuse what must not start, and join all places: on rank 0 only.

    Collective. Raises RefusedError and DeadlineError on every rank alike.
    """
    gpu = gpu_name = None
    if backend == "nccl":
        ordinal = claim_device(identity, store, environ=os.environ, timeout_s=timeout_s)
        gpu, gpu_name = _gpu(ordinal)
    else:
        record = device_record(identity, os.environ, visible_count=0)
        agree_on_devices(identity, store, record, timeout_s=timeout_s)
    place = {
        "rank": identity.rank,
        "host": identity.host,
        "pid": os.getpid(),
        "local_rank": identity.local_rank,
        "gpu": gpu,
        "gpu_name": gpu_name,
        "cores": sorted(os.sched_getaffinity(0)),
    }
    records = roll_call(store, identity, "places", place, lambda _: None, timeout_s=timeout_s)
    return None if records is None else _joined(records)


def agreed_placement(
    identity: RankIdentity, store: Store, whereabouts: Whereabouts | None
) -> Placement:
    """Where all ranks are, on every rank. Collective, after ``call_whereabouts``."""
    if whereabouts is not None:
        store.set(_KEY, json.dumps(whereabouts.placement.to_json()))
        return whereabouts.placement
    return placement_from_json(json.loads(store.get(_KEY)), where="places of the ranks")


_KEY = "clusterlab/placement"


def _joined(records: Sequence[Record]) -> Whereabouts:
    ranks = tuple(
        RankPlacement(
            rank=r["rank"],
            host=r["host"],
            local_rank=r["local_rank"],
            gpu=r["gpu"],
            gpu_name=r["gpu_name"],
            cores=tuple(r["cores"]),
        )
        for r in records
    )
    return Whereabouts(Placement(ranks), tuple(r["pid"] for r in records))


def _gpu(ordinal: int) -> tuple[str, str]:
    """PCI bus id (or UUID, where torch does not tell the bus id) and model of a CUDA device."""
    import torch

    properties: Any = torch.cuda.get_device_properties(ordinal)
    try:
        address = (properties.pci_domain_id, properties.pci_bus_id, properties.pci_device_id)
    except AttributeError:
        return f"GPU-{properties.uuid}", properties.name
    return "{:04x}:{:02x}:{:02x}.0".format(*address), properties.name
