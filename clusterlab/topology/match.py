"""From what ranks observed to a design: which one describes these hosts, and where each rank sits on it."""

from __future__ import annotations

import re
from dataclasses import replace

from clusterlab.core.errors import UsageError
from clusterlab.core.placement import Placement
from clusterlab.topology.design import list_designs, load_fabric
from clusterlab.topology.fabric import Device, Fabric

_CHIP = re.compile(r"(?<![A-Za-z0-9])(MI\d{3}[A-Z]?|G?[ABHLV]\d{2,3}S?)(?![A-Za-z0-9])")


def chip_name(gpu_name: str) -> str | None:
    """``H200`` for ``NVIDIA H200`` and for ``H200-SXM5-141GB``; None when no chip is named."""
    found = _CHIP.search(gpu_name)
    return found.group(1) if found else None


def matching_design(gpu_name: str, hosts: int, gpus_per_host: int) -> str | None:
    """The shipped design for ``hosts`` hosts that use ``gpus_per_host`` GPUs of this model each.

    The one with the fewest GPUs per host, then hosts, that has enough of both; None when none has.
    """
    chip = chip_name(gpu_name)
    fits = []
    for name in list_designs():
        fabric = load_fabric(name)
        gpus = fabric.of_kind("gpu")
        if not gpus or chip is None or any(chip_name(g.model or "") != chip for g in gpus):
            continue
        each = min(len(fabric.on_host(h, "gpu")) for h in fabric.hosts)
        if len(fabric.hosts) >= hosts and each >= gpus_per_host:
            fits.append((each, len(fabric.hosts), name))
    return min(fits)[2] if fits else None


def place_like(fabric: Fabric, observed: Placement) -> Placement:
    """``observed`` with every rank's device on ``fabric``: the hosts in order, the GPU by local rank.

    On hosts without GPUs ranks take the CPUs in turn. Raises UsageError when the fabric is too small.
    """
    hosts = observed.hosts
    if len(hosts) > len(fabric.hosts):
        raise UsageError(
            f"ranks on {len(hosts)} hosts",
            where=f"fabric {fabric.name}",
            expected=f"at most its {len(fabric.hosts)}",
            fix="name another design with --fabric",
        )
    model_host = dict(zip(hosts, fabric.hosts, strict=False))
    return Placement(
        tuple(
            replace(rank, device=_device(fabric, model_host[rank.host], rank.local_rank).name)
            for rank in observed.ranks
        )
    )


def _device(fabric: Fabric, host: str, local_rank: int) -> Device:
    gpus = fabric.on_host(host, "gpu")
    if gpus:
        if local_rank >= len(gpus):
            raise UsageError(
                f"local rank {local_rank} on {host}",
                where=f"fabric {fabric.name}",
                expected=f"at most {len(gpus)} ranks on a host with {len(gpus)} GPUs",
            )
        return gpus[local_rank]
    cpus = fabric.on_host(host, "cpu")
    if not cpus:
        raise UsageError(f"host {host} has neither GPUs nor CPUs", where=f"fabric {fabric.name}")
    return cpus[local_rank % len(cpus)]
