"""How ranks meet: a store, then torch.distributed's default process group on it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from clusterlab.launch.identity import RankIdentity

if TYPE_CHECKING:
    from torch.distributed import Store


def init_process_group(
    identity: RankIdentity, store: Store, backend: str, *, timeout_s: float
) -> None:
    """Join the default process group over ``store``. ``backend`` is ``gloo`` or ``nccl``."""
    import torch.distributed as dist

    dist.init_process_group(
        backend,
        store=store,
        rank=identity.rank,
        world_size=identity.world_size,
        timeout=timedelta(seconds=timeout_s),
    )
