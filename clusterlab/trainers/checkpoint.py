"""Checkpoints of a training run by torch.distributed.checkpoint, one folder per step.

    checkpoints/step-00000010/    ten steps are done; complete once .metadata is there, which comes last
        __0_0.distcp …            what each rank wrote

Parameters go by their names, those that are cut with the part that they are (``blocks.0.up.weight@tp1of4``):
what several ranks have alike is written once. Data follows from (seed, step, sample) and the update is
plain SGD, so parameters and the number of the next step are all there is to go on from.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from clusterlab.trainers.config import MeshConfig, Setup
from clusterlab.trainers.mesh import place_of
from clusterlab.trainers.weights import Weight, weights_of

if TYPE_CHECKING:
    import torch
    from torch.distributed import ProcessGroup

_KEPT = 2
"""One may be damaged by whatever ended the job; the one before it is still there."""

Parameters = Mapping[str, "torch.Tensor"]
"""By name, as ``Trainer.held`` has them: whole over the data parallel ranks."""


def finished(folder: Path) -> list[int]:
    """After how many steps there are complete checkpoints in ``folder``, ascending."""
    names = (path.parent.name for path in folder.glob("step-*/.metadata"))
    return sorted(int(name.removeprefix("step-")) for name in names)


def save(
    folder: Path, steps: int, parameters: Parameters, setup: Setup, group: ProcessGroup
) -> None:
    """Keep this rank's ``parameters`` after ``steps`` steps.

    Collective over ``group``, all ranks of the run over gloo. Nothing is done where that is kept already.
    """
    import torch.distributed as dist
    from torch.distributed.checkpoint.state_dict_saver import save as dcp_save

    known = finished(folder)
    dist.barrier(group)  # nobody writes before all have looked
    if steps in known:
        return
    state = _by_part(parameters, setup, dist.get_rank())
    with _quietly():
        dcp_save(state, checkpoint_id=_at(folder, steps), process_group=group)
    if dist.get_rank() == 0:
        for old in finished(folder)[:-_KEPT]:
            # What is gone first must be what says that the rest is complete.
            (_at(folder, old) / ".metadata").unlink(missing_ok=True)
            shutil.rmtree(_at(folder, old), ignore_errors=True)


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
