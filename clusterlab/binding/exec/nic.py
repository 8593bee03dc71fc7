"""Which NICs NCCL should use: the nearest to the rank's GPU by PCI path. Pure.

NCCL_IB_HCA as NCCL reads it (ncclParseStringList in misc/utils.cc, ncclIbInit in transport/net_ib.cc):
``=`` at the start makes every name exact, where ``mlx5_1`` alone would match mlx5_10 too; ``name:port``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from clusterlab.binding.exec.scene import NearNic
from clusterlab.core.errors import UsageError

_HCA, _LIST = "NCCL_IB_HCA", "CLUSTERLAB_NICS"
_MOST = 32  # NCCL reads no more (MAX_IB_DEVS)


class NicChoice(NamedTuple):
    """``value`` for NCCL_IB_HCA, None: leave it. ``unfulfilled``: why the nearest cannot be named."""

    value: str | None
    why: str
    unfulfilled: str | None = None


def listed_nic(environ: Mapping[str, str], local_rank: int) -> str | None:
    """This local rank's NIC in CLUSTERLAB_NICS (``mlx5_0,mlx5_3,…``); None: not set.

    Raises UsageError where the list has none for it.
    """
    names = [name.strip() for name in environ.get(_LIST, "").split(",") if name.strip()]
    if not names:
        return None
    if local_rank >= len(names):
        raise UsageError(
            f"names {len(names)} NICs, local rank {local_rank} has none",
            where=_LIST,
            expected="a NIC for each local rank",
        )
    return names[local_rank]


def choose_nics(
    environ: Mapping[str, str], local_rank: int, nics: Sequence[NearNic], *, gpu: str | None
) -> NicChoice:
    """NCCL_IB_HCA for a rank whose GPU is ``gpu`` (None: not known), unless it is set already."""
    if _HCA in environ:
        return NicChoice(None, f"{_HCA}={environ[_HCA]} as given")
    listed = listed_nic(environ, local_rank)
    if listed:
        return NicChoice(f"={listed}", f"{listed}: local rank {local_rank}'s in {_LIST}")
    near = [nic for nic in nics if nic.near and nic.ports]
    if not near:
        if not nics:
            what = "no RDMA device here"
        elif gpu is None:
            what = "its GPU is not known"
        else:
            what = f"no RDMA device that is up has a known path to GPU {gpu}"
        return NicChoice(None, f"NICs as NCCL chooses: {what}", what)
    names = [f"{nic.name}:{port}" for nic in near for port in nic.ports][:_MOST]
    why = f"{', '.join(nic.name for nic in near)}: nearest to its GPU ({near[0].distance})"
    return NicChoice("=" + ",".join(names), why)
