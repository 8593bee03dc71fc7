"""From what ranks observed to a design: which one describes these hosts, and where each rank sits on it."""

from __future__ import annotations

import re
from dataclasses import replace

from clusterlab.core.errors import UsageError
from clusterlab.core.placement import Placement, RankPlacement
from clusterlab.topology.design.load import list_designs, outline
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Device

_CHIP = re.compile(r"(?<![A-Za-z0-9])(MI\d{3}[A-Z]?|G?[ABHLV]\d{2,3}S?)(?![A-Za-z0-9])")


def chip_name(gpu_name: str) -> str | None:
    """``H200`` for ``NVIDIA H200`` and for ``H200-SXM5-141GB``; None when no chip is named."""
    found = _CHIP.search(gpu_name)
    return found.group(1) if found else None


def matching_design(gpu_name: str, hosts: int, gpus_per_host: int) -> str | None:
    """The shipped design for ``hosts`` hosts that use ``gpus_per_host`` GPUs of this model each.

    The one with the fewest GPUs per host, then hosts, then parts of a host, that has enough; hosts
    joined by NVLink only where nothing else fits. None when none has. PCIe cards and SXM modules of one
    chip are different models.
    """
    model = _model(gpu_name)
    fits = []
    for name in list_designs():
        design = outline(name)
        gpus = [d for d in design.host_devices if d.kind == "gpu"]
        if model is None or not gpus or any(_model(g.model or "") != model for g in gpus):
            continue
        if len(design.hosts) >= hosts and len(gpus) >= gpus_per_host:
            joined = any(d.kind == "nvswitch" for d in design.network_devices)
            size = (len(gpus), len(design.hosts), len(design.host_devices))
            fits.append((joined, *size, name))
    return min(fits)[-1] if fits else None


def _model(gpu_name: str) -> tuple[str, bool] | None:
    """The chip, and whether it is on a PCIe card."""
    chip = chip_name(gpu_name)
    return None if chip is None else (chip, "pcie" in gpu_name.lower())


def place_like(fabric: Fabric, observed: Placement) -> Placement:
    """``observed`` with every rank's device on ``fabric``: the GPU of the same bus id or UUID where the
    fabric knows it, else by local rank; on the host of the same name where the fabric has all of them, else
    on its hosts in order.

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
    by_name = set(hosts) <= set(fabric.hosts)
    model_host = dict(zip(hosts, hosts if by_name else fabric.hosts, strict=False))
    return Placement(
        tuple(
            replace(rank, device=_device(fabric, model_host[rank.host], rank).name)
            for rank in observed.ranks
        )
    )


def same_gpu(device: Device, gpu: str | None) -> bool | None:
    """Whether ``gpu`` (a bus id or a UUID) is ``device``; None where the fabric does not know its id."""
    if gpu is None:
        return None
    known = device.guid if gpu.upper().startswith(("GPU-", "MIG-")) else device.pci
    return None if known is None else _plain_id(known) == _plain_id(gpu)


def _plain_id(name: str) -> str:
    """Without the leading zeros of a bus id's domain: drivers write four digits or eight."""
    domain, colon, rest = name.lower().partition(":")
    return f"{domain.lstrip('0')}{colon}{rest}"


def _device(fabric: Fabric, host: str, rank: RankPlacement) -> Device:
    gpus, local_rank = fabric.on_host(host, "gpu"), rank.local_rank
    if gpus:
        named = next((device for device in gpus if same_gpu(device, rank.gpu)), None)
        if named is not None:
            return named
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
