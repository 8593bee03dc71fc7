"""Which GPU is this rank's, and the mask that leaves it no other. Pure.

Three layers, each inside the one before: what the node has, what this process may open, what its mask
shows. The rank's GPU among those shown is the one ``launch.selection.select_device`` takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from clusterlab.binding.exec.scene import NodeGpu
from clusterlab.binding.masks.cuda import evaluate_cuda_mask
from clusterlab.binding.masks.rocm import evaluate_hip_mask, evaluate_rocr_mask
from clusterlab.core.errors import ClusterlabError
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.selection import select_device

_CUDA, _HIP, _ROCR = "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"
_ORDER = "CUDA_DEVICE_ORDER"


class GpuChoice(NamedTuple):
    """This rank's GPU. ``label`` names it in the tag: hardware, ``?`` (not known), None: the node has none.

    ``narrowed``: the variables that leave the process this GPU alone; empty where it has no other.
    ``shown``: how many it sees. ``of_ranks``: the GPU of local rank 0, 1, …, where all share one set.
    ``why`` explains; ``problem``: why there is none for this rank.
    """

    gpu: NodeGpu | None = None
    label: str | None = None
    narrowed: Mapping[str, str] = {}
    shown: int | None = None
    of_ranks: tuple[NodeGpu, ...] = ()
    why: str = ""
    problem: str | None = None


class _Shown(NamedTuple):
    """What the mask shows, in the library's order; ``gpus`` None where only their number is certain.

    ``entries``: for each, the words that show it alone, as settings.
    """

    entries: tuple[Mapping[str, str], ...]
    gpus: tuple[NodeGpu, ...] | None
    names: tuple[str, ...] = ()
    why: str = ""


def device_order(
    environ: Mapping[str, str], gpus: Sequence[NodeGpu], *, in_slurm: bool
) -> str | None:
    """The CUDA_DEVICE_ORDER to set so that numbers mean what nvidia-smi and Slurm mean; None: leave it.

    A mask written by hand keeps the order it was written for.
    """
    if _ORDER in environ or not any(gpu.vendor == "nvidia" for gpu in gpus):
        return None
    return "PCI_BUS_ID" if in_slurm or _CUDA not in environ else None


def choose_gpu(
    identity: RankIdentity,
    gpus: Sequence[NodeGpu],
    environ: Mapping[str, str],
    *,
    gpus_on_node: int | None = None,
) -> GpuChoice:
    """This rank's GPU among the node's ``gpus``, which stand in PCI order.

    ``environ`` carries the masks and CUDA_DEVICE_ORDER as the command will have them; ``gpus_on_node``:
    as for ``select_device``. One task that sees several GPUs may drive any: then it is not certain.
    """
    opens = [gpu for gpu in gpus if gpu.opens]
    if not gpus:
        return _without_inventory(identity, environ, gpus_on_node)
    nvidia = any(gpu.vendor == "nvidia" for gpu in gpus)
    vendor = "nvidia" if nvidia else "amd"
    mine = [gpu for gpu in opens if gpu.vendor == vendor]
    shown = _cuda(mine, environ) if nvidia else _rocm(mine, environ)
    layers = (
        f"node has {len(gpus)}, {len(opens)} may be opened, the mask shows {len(shown.entries)}"
    )
    return _selected(identity, shown, layers, gpus_on_node)


def _without_inventory(
    identity: RankIdentity, environ: Mapping[str, str], gpus_on_node: int | None
) -> GpuChoice:
    """No GPU can be looked at: the mask alone says what the launcher gave."""
    mask = environ.get(_CUDA)
    if not mask:
        return GpuChoice(why="no GPU found here")
    entries = [entry.strip() for entry in mask.split(",")]
    shown = _Shown(tuple({_CUDA: entry} for entry in entries), None, _uuid_starts(entries))
    return _selected(identity, shown, "no GPU can be looked at: the mask as it is", gpus_on_node)


def _selected(
    identity: RankIdentity, shown: _Shown, layers: str, gpus_on_node: int | None
) -> GpuChoice:
    count = len(shown.entries)
    why = f"{layers}; {shown.why}" if shown.why else layers
    if count == 0:
        return GpuChoice(label="none", shown=0, why=why, problem="no GPU is visible to this rank")
    try:
        ordinal = select_device(identity, count, gpus_on_node=gpus_on_node)
    except ClusterlabError as error:
        return GpuChoice(label="?", shown=count, why=why, problem=error.message)
    gpu = shown.gpus[ordinal] if shown.gpus is not None else None
    name = gpu.hardware if gpu else shown.names[ordinal] if shown.names else None
    shared = count >= identity.local_world_size and count > 1
    return GpuChoice(
        gpu,
        name or "?",
        {} if count == 1 else shown.entries[ordinal],
        count,
        shown.gpus[: identity.local_world_size] if shown.gpus and shared else (),
        f"{why}; local rank {identity.local_rank} of {identity.local_world_size}"
        f" takes number {ordinal} of these",
    )


def unless_narrowed(choice: GpuChoice, identity: RankIdentity) -> GpuChoice:
    """``choice`` where the mask stays: a node's only rank that sees several GPUs may drive any of them."""
    if choice.problem or identity.local_world_size > 1 or (choice.shown or 0) <= 1:
        return choice
    why = f"{choice.why}; the node's only rank may drive any of its {choice.shown}"
    return choice._replace(gpu=None, label="?", of_ranks=(), why=why)


def _cuda(opens: Sequence[NodeGpu], environ: Mapping[str, str]) -> _Shown:
    mask = environ.get(_CUDA)
    words = [] if mask is None else [word.strip() for word in mask.split(",")]
    if mask is not None and mask.startswith("MIG-"):
        return _Shown(({_CUDA: words[0]},), None, (words[0][:12],), "a MIG instance")
    by_uuid = mask is not None and mask.startswith("GPU-")
    if by_uuid and any(gpu.uuid is None for gpu in opens):
        entries = tuple({_CUDA: word} for word in words)
        return _Shown(entries, None, _uuid_starts(words), "the GPUs' UUIDs are not known")
    if any(gpu.mig for gpu in opens):
        # CUDA enumerates one instance, whatever the mask's numbers; which, only NVML could tell.
        return _Shown(({},), None, why="a GPU here is cut into MIG instances")
    result = evaluate_cuda_mask(mask, [gpu.uuid or "" for gpu in opens])
    if mask is None:
        words = [str(device) for device in result.devices]
    found = [opens[device] for device in result.devices]
    entries = tuple({_CUDA: word} for word in words[: len(found)])
    mixed = len({gpu.model for gpu in opens}) > 1
    if mixed and not by_uuid and environ.get(_ORDER) != "PCI_BUS_ID":
        why = f"GPUs of several models: CUDA counts the fastest first without {_ORDER}=PCI_BUS_ID"
        return _Shown(entries, None, why=why)
    error = f"cuInit fails with {result.error.code} {result.error.name}" if result.error else ""
    return _Shown(entries, tuple(found), why=error)


def _rocm(opens: Sequence[NodeGpu], environ: Mapping[str, str]) -> _Shown:
    """ROCr's mask first, then HIP's, whose numbers count what ROCr left."""
    uuids = [gpu.uuid or "" for gpu in opens]
    left = evaluate_rocr_mask(environ.get(_ROCR), uuids)
    mask = environ.get(_HIP) or environ.get(_CUDA)
    seen = evaluate_hip_mask(mask, [uuids[device] for device in left])
    return _Shown(
        tuple({_HIP: str(position)} for position in seen),
        tuple(opens[left[position]] for position in seen),
    )


def _uuid_starts(words: Sequence[str]) -> tuple[str, ...]:
    """The start of each word that is a UUID; () where one is not: a number names no hardware."""
    starts = tuple(word[:12] for word in words if word.startswith(("GPU-", "MIG-")))
    return starts if len(starts) == len(words) else ()
