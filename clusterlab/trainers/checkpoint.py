"""Checkpoints of a training run by torch.distributed.checkpoint, one folder per step.

    checkpoints/step-00000010/    ten steps are done; complete once .metadata is there, which comes last
        __0_0.distcp …            what each rank wrote
        crc-00000.json …          its checksum

Parameters go by their names, those that are cut with the part that they are (``blocks.0.up.weight@tp1of4``):
what several ranks have alike is written once. Data follows from (seed, step, sample) and the update is
plain SGD, so parameters and the number of the next step are all there is to go on from.
"""

from __future__ import annotations

import shutil
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from clusterlab.core.errors import StorageError, UsageError
from clusterlab.trainers.checksums import changed, keep_checksums
from clusterlab.trainers.config import MeshConfig, Setup
from clusterlab.trainers.mesh import place_of
from clusterlab.trainers.weights import Weight, weights_of

if TYPE_CHECKING:
    import torch
    from torch.distributed import ProcessGroup
    from torch.distributed.checkpoint.api import CheckpointException

_KEPT = 2
"""One may be damaged by whatever ended the job; the one before it is still there."""

Parameters = Mapping[str, "torch.Tensor"]
"""By name, as ``Trainer.held`` has them: whole over the data parallel ranks."""


def finished(folder: Path) -> list[int]:
    """After how many steps there are complete checkpoints in ``folder``, ascending."""
    names = (path.parent.name for path in folder.glob("step-*/.metadata"))
    numbers = (name.removeprefix("step-") for name in names)
    return sorted(int(number) for number in numbers if number.isdecimal())


def save(
    folder: Path, steps: int, parameters: Parameters, setup: Setup, group: ProcessGroup
) -> None:
    """Keep this rank's ``parameters`` after ``steps`` steps.

    Collective over ``group``, all ranks of the run over gloo. Nothing is done where that is kept already.
    Raises StorageError on all ranks when one cannot write; nothing is left of this checkpoint then.
    """
    import torch.distributed as dist
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.state_dict_saver import save as dcp_save

    known = finished(folder)
    dist.barrier(group)  # nobody writes before all have looked
    if steps in known:
        return
    state = _by_part(parameters, setup, dist.get_rank())
    try:
        with _quietly():
            dcp_save(state, checkpoint_id=_at(folder, steps), process_group=group)
        reason = _first(keep_checksums(_at(folder, steps), dist.get_rank()), group)
    except CheckpointException as error:
        reason = _reason(error)
    if reason:
        if dist.get_rank() == 0:
            _remove(_at(folder, steps))
        dist.barrier(group)
        raise _not_written(_at(folder, steps), reason)
    if dist.get_rank() == 0:
        for old in finished(folder)[:-_KEPT]:
            _remove(_at(folder, old))


def _remove(checkpoint: Path) -> None:
    # What is gone first must be what says that the rest is complete.
    (checkpoint / ".metadata").unlink(missing_ok=True)
    shutil.rmtree(checkpoint, ignore_errors=True)


def _first(reason: str, group: ProcessGroup) -> str:
    """The first reason that any rank has, told to all. Collective."""
    import torch.distributed as dist

    reasons: list[str] = [""] * dist.get_world_size(group)
    dist.all_gather_object(reasons, reason, group=group)
    return next(filter(None, reasons), "")


def _not_written(checkpoint: Path, reason: str) -> StorageError:
    return StorageError(
        f"no checkpoint was written: {reason}",
        where=str(checkpoint),
        fix="free some space; the same command with CLUSTERLAB_RUN_DIR set to the run goes on from the "
        "checkpoint before",
    )


def restore(
    folder: Path, names: Iterable[str], setup: Setup, group: ProcessGroup
) -> tuple[int, dict[str, torch.Tensor]] | None:
    """The steps done and this rank's parameters ``names`` of the newest checkpoint that all ranks can load;
    None where there is none at all. Collective, as ``save``.

    One that is passed over is said on stderr and renamed, so that its place can be written again. Raises
    UsageError on all ranks where none can be loaded.
    """
    import torch.distributed as dist

    # Rank 0 says which there are: a file system may show others another state.
    known = [finished(folder)]
    dist.broadcast_object_list(known, src=0, group=group)
    names, refused = list(names), list[str]()
    for steps in reversed(known[0]):
        values, reason = _try_load(folder, steps, names, setup, group)
        if values is not None:
            if dist.get_rank() == 0:
                for line in refused:
                    print(
                        f"clusterlab: {line}; going on after step {steps - 1} from {_at(folder, steps)}",
                        file=sys.stderr, flush=True,
                    )  # fmt: skip
                for newer in (one for one in known[0] if one > steps):
                    _set_aside(_at(folder, newer))
            dist.barrier(group)
            return steps, values
        refused.append(f"{_at(folder, steps)} cannot be loaded: {reason}")
    if refused:
        raise UsageError(
            "; ".join(refused), where="checkpoints",
            fix="start a new run, or remove these to begin this one at its first step again",
        )  # fmt: skip
    return None


def _try_load(
    folder: Path, steps: int, names: list[str], setup: Setup, group: ProcessGroup
) -> tuple[dict[str, torch.Tensor] | None, str]:
    """Parameters, or None on all ranks and why. Collective."""
    import torch.distributed as dist
    from torch.distributed.checkpoint.api import CheckpointException

    reason = _first(changed(_at(folder, steps), dist.get_rank()), group)
    if reason:
        return None, reason
    try:
        values = load(folder, steps, names, setup, group)
    except CheckpointException as error:
        values, reason = None, _reason(error)
    reason = _first(reason, group)
    return (None if reason else values), reason


def _set_aside(checkpoint: Path) -> None:
    aside = checkpoint.with_name(f"damaged-{checkpoint.name}")
    shutil.rmtree(aside, ignore_errors=True)
    checkpoint.rename(aside)


def _reason(error: CheckpointException) -> str:
    """In one line, by the first rank that failed."""
    rank, (cause, _) = min(error.failures.items())
    if isinstance(cause, OSError) and cause.strerror:
        named = Path(str(cause.filename)).name if cause.filename else None
        what = f"{named}: {cause.strerror}" if named else cause.strerror
    elif isinstance(cause, EOFError):
        what = "a file is empty or cut off"
    else:
        said = str(cause).strip().splitlines() or [""]
        what = f"{type(cause).__name__}: {said[0]:.200}"
    return f"{what} (rank {rank})"


def load(
    folder: Path, steps: int, names: Iterable[str], setup: Setup, group: ProcessGroup
) -> dict[str, torch.Tensor]:
    """This rank's parameters ``names`` after ``steps`` steps, on the host. Collective, as ``save``."""
    import torch
    import torch.distributed as dist
    from torch.distributed.checkpoint.state_dict_loader import load as dcp_load

    weights = {weight.name: weight for weight in weights_of(setup.model, setup.mesh)}
    dtype: torch.dtype = getattr(torch, setup.train.dtype)
    found = {
        name: torch.empty(_part_shape(weights[name], setup.mesh), dtype=dtype) for name in names
    }
    state = _by_part(found, setup, dist.get_rank())
    with _quietly():
        dcp_load(state, checkpoint_id=_at(folder, steps), process_group=group)
    return found


def _at(folder: Path, steps: int) -> Path:
    return folder / f"step-{steps:08d}"


def _part_shape(weight: Weight, mesh: MeshConfig) -> list[int]:
    shape = list(weight.shape)
    if weight.axis is not None:
        shape[weight.dim] //= getattr(mesh, weight.axis)
    return shape


def _by_part(parameters: Parameters, setup: Setup, rank: int) -> dict[str, torch.Tensor]:
    place = place_of(rank, setup.mesh)
    cut = {weight.name: weight.axis for weight in weights_of(setup.model, setup.mesh)}
    named = {}
    for name, tensor in parameters.items():
        axis = cut[name]
        part = "" if axis is None else f"@{axis}{getattr(place, axis)}of{getattr(setup.mesh, axis)}"
        named[name + part] = tensor
    return named


@contextmanager
def _quietly() -> Iterator[None]:
    """torch warns of its own deprecated calls inside."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
