"""Who am I: the one RankIdentity every other module asks instead of ``os.environ``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RankIdentity:
    """This process among the ranks of its job, in torch.distributed's words.

    ``source`` names who said so: ``local`` (forked by clusterlab), ``torchrun``, ``pmix``, ``slurm``,
    ``openmpi`` or ``single``.
    """

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    node_rank: int
    host: str
    source: str
