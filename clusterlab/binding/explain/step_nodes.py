"""Which nodes of its job a step runs on: _pick_step_nodes of Slurm 22.05's src/slurmctld/step_mgr.c."""

from __future__ import annotations

from collections.abc import Collection

from clusterlab.binding.explain.allocation import Allocation, NodeShare
from clusterlab.binding.explain.rejection import INVALID_GRES, BusyError, RejectedError
from clusterlab.binding.explain.step_request import NO_STEP, GpuTally, StepRequest

_TOO_MANY = "More processors requested than permitted"
_UNAVAILABLE = "Requested node configuration is not available"


def pick_nodes(request: StepRequest, allocation: Allocation) -> list[NodeShare]:
    """The nodes, in the job's order. Raises BusyError where running steps are in the way."""
    shares = allocation.shares
    if request.max_nodes < request.min_nodes:
        raise _refuse("Invalid node count")
    usable, blocked = _usable_cpus(request, allocation)
    picked: list[NodeShare] = []
    available = [share for share in shares if usable[share.name]]
    if request.nodelist is not None:
        picked, available = _pick_named(request, allocation, available)
    elif request.relative is not None:
        skipped = {share.name for share in shares[: request.relative]}
        available = [share for share in available if share.name not in skipped]
    _nodes_for_cpus(request, allocation)
    if len(picked) + len(available) < request.min_nodes:
        raise BusyError("Requested nodes are busy")
    needed = request.min_nodes - len(picked)
    if needed > 0:
        idle = [share for share in available if not share.used_cpus and not share.used_cores]
        found = None
        if len(idle) >= needed:
            found = _pick_by_cpus(request, idle, picked, usable)
        found = found or _pick_by_cpus(request, available, picked, usable)
        if found is None:
            raise BusyError("Requested nodes are busy") if blocked else _refuse(_TOO_MANY)
        picked = [*picked, *found]
    picked = _add_for_cpus(request, picked, available, usable, blocked=blocked)
    names = {share.name for share in picked}
    return [share for share in shares if share.name in names]


def _refuse(why: str) -> RejectedError:
    return RejectedError(f"{NO_STEP}{why}")


def _usable_cpus(request: StepRequest, allocation: Allocation) -> tuple[dict[str, int], int]:
    """CPUs each node offers the step now, and how many others hold or GPUs block."""
    usable: dict[str, int] = {}
    blocked = invalid = 0
    now, ever = GpuTally(request.gpus), GpuTally(request.gpus)
    first, left = True, request.max_nodes
    for share in allocation.shares:
        usable[share.name] = 0
        if share.name in request.exclude:
            continue
        cpus = share.cpus
        if not request.overlap:
            blocked += share.used_cpus
            cpus = 0 if request.whole and share.used_cpus else share.free_cpus
        if not cpus:
            continue
        if request.gpus.wanted:
            per_task = max(request.cpus_per_task, 1)
            last = left == 1
            total = ever.cpus_for(len(share.gpus), first=first, last=last, cpus_per_task=per_task)
            gpus = share.gpus if request.overlap else share.free_gpus
            limit = now.cpus_for(len(gpus), first=first, last=last, cpus_per_task=per_task)
            invalid += total == 0
            possible = cpus if total is None else min(cpus, total)
            cpus = cpus if limit is None else min(cpus, limit)
            if cpus < per_task:
                if request.min_nodes == len(allocation.shares):
                    if possible < per_task:
                        raise _refuse(INVALID_GRES)
                    raise BusyError("Requested nodes are busy")
                blocked += possible
                continue
            first, left = False, left - 1
        usable[share.name] = cpus
    if invalid and invalid >= request.min_nodes:
        raise _refuse(INVALID_GRES)
    return usable, blocked


def _pick_named(
    request: StepRequest, allocation: Allocation, available: list[NodeShare]
) -> tuple[list[NodeShare], list[NodeShare]]:
    """(nodes taken already, nodes to choose from) where the step names nodes."""
    names = set(request.nodelist or ())
    if not names <= {share.name for share in allocation.shares}:
        raise _refuse(_UNAVAILABLE)
    named = [share for share in available if share.name in names]
    if len(named) < len(names):
        raise BusyError("Requested nodes are busy")
    if request.distribution.nodes == "arbitrary":
        request.min_nodes = len(names)
    if len(names) > request.max_nodes:
        raise _refuse(_UNAVAILABLE)
    if request.min_nodes and len(names) > request.min_nodes:
        return [], named
    return named, [share for share in available if share.name not in names]


def _nodes_for_cpus(request: StepRequest, allocation: Allocation) -> None:
    """Where every node of the job has as many CPUs, a CPU count is a node count."""
    counts = {share.cpus for share in allocation.shares}
    if not request.cpu_count or len(counts) != 1:
        return
    nodes = -(-request.cpu_count // counts.pop())
    request.min_nodes = max(request.min_nodes, nodes)
    if request.distribution.pack:
        request.max_nodes = request.min_nodes
    if request.max_nodes < request.min_nodes:
        raise _refuse(_TOO_MANY)


def _pick_by_cpus(
    request: StepRequest,
    available: list[NodeShare],
    picked: Collection[NodeShare],
    usable: dict[str, int],
) -> list[NodeShare] | None:
    """So many nodes with enough CPUs together, those with an even share of them first."""
    nodes = request.max_nodes if request.max_nodes > request.min_nodes else request.min_nodes
    nodes = min(max(nodes - len(picked), 0), len(available))
    cpus = max(request.cpu_count - sum(usable[share.name] for share in picked), 0)
    if nodes == 0:
        return [] if not cpus else None
    if cpus <= nodes:
        return available[:nodes]
    target = -(-cpus // nodes)
    rich = [share for share in available if usable[share.name] >= target]
    poor = [share for share in available if usable[share.name] < target]
    taken: list[NodeShare] = []
    for share in rich:
        taken.append(share)
        cpus -= usable[share.name]
        if cpus <= 0 and len(taken) >= nodes:
            return taken
        if len(taken) == nodes:
            return None
    poor.sort(key=lambda share: -usable[share.name])
    more = poor[: nodes - len(taken)]
    if cpus > sum(usable[share.name] for share in more) or len(taken) + len(more) < nodes:
        return None
    return [*taken, *more]


def _add_for_cpus(
    request: StepRequest,
    picked: list[NodeShare],
    available: list[NodeShare],
    usable: dict[str, int],
    *,
    blocked: int,
) -> list[NodeShare]:
    cpus = sum(usable[share.name] for share in picked)
    spare = [share for share in available if share not in picked and usable[share.name]]
    while request.cpu_count > cpus and spare and len(picked) < request.max_nodes:
        picked = [*picked, spare.pop(0)]
        cpus += usable[picked[-1].name]
    if request.cpu_count > cpus:
        if request.cpu_count <= cpus + blocked:
            raise BusyError("Requested nodes are busy")
        raise _refuse(_UNAVAILABLE)
    return picked
