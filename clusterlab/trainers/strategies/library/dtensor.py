"""Tensor parallelism, and sequence parallelism beside it, by torch's own parts: DTensor.

A parameter becomes a DTensor: a rank's part, the mesh it is spread over, and how (``Shard(dim)``,
``Replicate``, or ``Partial``, a term of a sum). A module's style says how its input comes and its output
goes; where the matrix product needs or gives another, DTensor makes the collective::

      style              weight      input                     output
      StackedColwise     Shard(1)    x replicated or Shard(1)  heads, Shard(-1)                      qkv
      ColwiseParallel    Shard(0)    x replicated or Shard(1)  F, Shard(-1)                          up
      RowwiseParallel    Shard(1)    heads or F, Shard(-1)     x, Partial to replicated or Shard(1)  out, down
      SequenceParallel   replicated  x_BsH, Shard(1)           x_BsH, Shard(1)                       norms

      Partial to replicated     all_reduce         Shard(1) to replicated    all_gather
      Partial to Shard(1)       reduce_scatter     replicated to Shard(1)    no call

Backward the gradients go the other way, so the calls are those of strategies/tp.py and strategies/sp.py, but
for two: a norm's gradients are summed one by one, and a row's bias, which DTensor adds to the Partial sum,
sees all positions and needs none.

Shapes of a rank are those of the explicit forms. DTensor makes its calls itself; noted.py puts them into the
ledger.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, cast

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import (
    DTensor,
    Placement,
    Replicate,
    Shard,
    distribute_module,
    distribute_tensor,
)
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from clusterlab.trainers.axis import Axis
from clusterlab.trainers.config import Setup
from clusterlab.trainers.model import Linear, Transformer, Ways, named
from clusterlab.trainers.step import Held, LocalUpdate, held
from clusterlab.trainers.strategies.library.noted import noting_functional
from clusterlab.trainers.strategies.sp import PositionWays
from clusterlab.trainers.weights import weights_of


def mesh_of(axis: Axis, device: torch.device) -> DeviceMesh:
    """The ranks of ``axis`` as torch's mesh of one dimension."""
    assert axis.group is not None, "more than one rank"
    return DeviceMesh.from_group(axis.group, device.type, mesh_dim_names=(axis.name,))


def parallelize(model: Transformer, setup: Setup, mesh: DeviceMesh) -> None:
    """Make DTensors of ``model``'s parameters, which are this rank's parts, and give modules their styles."""
    sequence = setup.mesh.sequence is not None
    for weight in weights_of(setup.model, setup.mesh):
        if weight.axis == "tp" and weight.name in named(model):
            module = model.get_submodule(weight.name.rpartition(".")[0])
            name = weight.name.rpartition(".")[2]
            part = DTensor.from_local(
                getattr(module, name).detach(), mesh, [Shard(weight.dim)], run_check=False
            )
            module.register_parameter(name, nn.Parameter(part))
    x: Placement = Shard(1) if sequence else Replicate()
    plan: dict[str, ParallelStyle] = {
        "blocks.*.qkv": StackedColwise(x),
        "blocks.*.out": RowwiseParallel(output_layouts=x),
    }
    if not setup.model.experts:
        plan["blocks.*.up"] = ColwiseParallel(input_layouts=x)
        plan["blocks.*.down"] = RowwiseParallel(output_layouts=x)
    if sequence:
        norm = SequenceParallel(use_local_output=True)
        plan |= {"blocks.*.norm1": norm, "blocks.*.norm2": norm, "norm": norm}
    parallelize_module(model, mesh, plan, src_data_rank=None)


class StackedColwise(ParallelStyle):
    """ColwiseParallel for several matrices stacked along dimension 0: their outputs are dimension 1."""

    def __init__(self, x: Placement) -> None:
        self._x = x

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        # Typed as if they returned nothing; what they return is passed on.
        enter, leave = cast("Any", self._enter), cast("Any", self._leave)
        return distribute_module(module, device_mesh, self._cut, enter, leave)

    def _cut(self, _name: str, module: nn.Module, mesh: DeviceMesh) -> None:
        # As torch's styles do; what is cut that way already stays as it is.
        for name, parameter in list(module.named_parameters()):
            part = distribute_tensor(parameter, mesh, [Shard(1)], src_data_rank=None)
            module.register_parameter(name, nn.Parameter(part))

    def _enter(self, _module: nn.Module, inputs: Any, mesh: DeviceMesh) -> DTensor:
        x = DTensor.from_local(inputs[0], mesh, [self._x], run_check=False)
        return x.redistribute(placements=[Replicate()])

    def _leave(
        self, _module: nn.Module, outputs: Iterable[DTensor], _mesh: DeviceMesh
    ) -> tuple[torch.Tensor, ...]:
        return tuple(output.to_local() for output in outputs)


class TorchTensorWays(Ways):
    """The modules' styles do what enter and leave would."""

    def __init__(self, axis: Axis) -> None:
        self.axis = axis

    def noting(self) -> AbstractContextManager[None]:
        """As in Ways."""
        return noting_functional(self.axis)

    def rows(self, linear: Linear, x: torch.Tensor) -> torch.Tensor:
        """As in Ways; DTensor adds a replicated bias to a partial sum once."""
        y: torch.Tensor = linear(x)
        return y

    def finish(self, parameters: Mapping[str, nn.Parameter]) -> None:
        """As in Ways: gradients that are terms of a sum become it."""
        for parameter in parameters.values():
            gradient = parameter.grad
            if isinstance(parameter, DTensor) and isinstance(gradient, DTensor):
                parameter.grad = gradient.redistribute(placements=parameter.placements)


class TorchSequenceWays(TorchTensorWays, PositionWays):
    """With positions split outside of the cut matrices."""

    def __init__(self, setup: Setup, axis: Axis, mesh: DeviceMesh) -> None:
        PositionWays.__init__(self, setup, axis)
        self.mesh = mesh

    def split(self, x_BSH: torch.Tensor) -> torch.Tensor:
        """As in Ways."""
        x = DTensor.from_local(x_BSH, self.mesh, [Replicate()], run_check=False)
        return x.redistribute(placements=[Shard(1)]).to_local()

    def join(self, x_BSH: torch.Tensor) -> torch.Tensor:
        """As in Ways."""
        x = DTensor.from_local(x_BSH, self.mesh, [Shard(1)], run_check=False)
        return x.redistribute(placements=[Replicate()]).to_local()

    def finish(self, parameters: Mapping[str, nn.Parameter]) -> None:
        """As in Ways; router and experts, which no style is for, as in the explicit form."""
        TorchTensorWays.finish(self, parameters)
        plain = {n: p for n, p in parameters.items() if not isinstance(p, DTensor)}
        PositionWays.finish(self, plain)


class PartsUpdate(LocalUpdate):
    """Without data parallelism: each rank updates the part that it has of every parameter."""

    def apply(self, lr: float) -> None:
        """As in Update."""
        with torch.no_grad():
            for parameter in self._parameters.values():
                if parameter.grad is not None:
                    _part(parameter).sub_(lr * _part(parameter.grad))

    def held(self) -> Held:
        """As in Update."""
        found = held(self._parameters)
        return Held(
            {name: _part(value) for name, value in found.parameters.items()},
            {name: _part(value) for name, value in found.gradients.items()},
        )


def _part(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
