"""Which of the GPUs a rank sees is its own. Apart, so that `clusterlab exec` starts fast."""

from __future__ import annotations

from clusterlab.launch.identity import RankIdentity


def select_device(
    identity: RankIdentity, visible_count: int, *, gpus_on_node: int | None = None
) -> int:
    """The CUDA ordinal for this rank, of the ``visible_count`` devices it sees.

    One visible: 0 (the launcher isolated this rank). At least one per local rank: local_rank, which is
    right whether the ranks share one mask or have masks of their own. Fewer, but so many on the node
    (``gpus_on_node``) that each rank can have as many for itself: 0, the first of its own. Raises
    RefusedError otherwise, because local_rank would lie beyond what the rank sees.
    """
    if visible_count == 1:
        return 0
    if visible_count >= identity.local_world_size:
        return identity.local_rank
    if 0 < visible_count * identity.local_world_size <= (gpus_on_node or 0):
        return 0
    from clusterlab.launch.roll_call import RefusedError

    raise RefusedError(
        f"{identity.local_world_size} ranks on this node, {visible_count} visible GPUs",
        where=f"rank {identity.rank} on {identity.host}",
        expected="one visible GPU, or one for each rank of the node",
    )
