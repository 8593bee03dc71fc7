"""Fully sharded data parallelism by torch's own fully_shard (FSDP2); beside it strategies/fsdp.py.

      fully_shard(embed)  fully_shard(block) …  fully_shard([norm, head])  fully_shard(model)
      └─ each parameter becomes a DTensor, cut along its first dimension among the ranks; a unit's parameters
         are gathered and their gradients scattered together, by hooks as in the explicit form

The explicit form cuts a unit's flat tensor, this one every parameter: each is padded to a multiple of the
ranks by itself, so a few more bytes are sent. Its collectives are ours to make (``set_custom_all_gather``,
``set_custom_reduce_scatter``), which is how the ledger sees them; gradients are summed, not averaged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor

from clusterlab.trainers.axis import Axis, noted
from clusterlab.trainers.model import Transformer, named
from clusterlab.trainers.step import Held, LocalUpdate, OnRank
from clusterlab.trainers.strategies.modules import modules_of


class TorchFsdpUpdate(LocalUpdate):
    """Of ``model``, whose parameters become DTensors."""

    def __init__(self, rank: OnRank, model: Transformer) -> None:
        axis = rank.axes["dp"]
        assert axis.group is not None, "more than one rank"
        mesh = DeviceMesh.from_group(axis.group, rank.device.type, mesh_dim_names=("dp",))
        for first, last in modules_of(model).values():
            unit = first if first is last else [first, last]
            fully_shard(unit, mesh=mesh, reshard_after_forward=True)
        fully_shard(model, mesh=mesh)
        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.set_force_sum_reduction_for_comms(True)
                module.set_gradient_divide_factor(1.0)
                # They have what torch's AllGather and ReduceScatter must, which are not public.
                module.set_custom_all_gather(_Gather(axis))  # type: ignore[arg-type]
                module.set_custom_reduce_scatter(_Scatter(axis))  # type: ignore[arg-type]
        super().__init__(named(model))

    def apply(self, lr: float) -> None:
        """As in Update: own shares."""
        with torch.no_grad():
            for parameter in self._parameters.values():
                gradient = parameter.grad
                assert isinstance(parameter, DTensor) and isinstance(gradient, DTensor)
                parameter.to_local().sub_(gradient.to_local(), alpha=lr)

    def held(self) -> Held:
        """As in Trainer."""
        found = Held({}, {})
        for name, parameter in self._parameters.items():
            gradient = parameter.grad
            assert isinstance(parameter, DTensor) and isinstance(gradient, DTensor)
            found.parameters[name] = parameter.full_tensor().detach()
            found.gradients[name] = gradient.full_tensor()
        return found


class _Noted:
    """Calls along ``axis`` with an entry each. On a GPU they run on a stream of their own, beside others."""

    def __init__(self, axis: Axis) -> None:
        self._axis = axis

    def allocate(
        self, size: Sequence[int | torch.SymInt], *, dtype: torch.dtype, device: torch.device
    ) -> torch.Tensor:
        """As in torch's Comm."""
        return torch.empty(*size, dtype=dtype, device=device)

    def _note(self, op: str, whole: torch.Tensor, call: Callable[[], Any]) -> None:
        ledger = self._axis.ledger
        entry = noted(self._axis, op, whole)
        if whole.device.type == "cpu":
            ledger.waiting(entry)
        call()
        ledger.end(entry)


class _Gather(_Noted):
    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: Any,
        async_op: bool = False,
    ) -> None:
        call = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
        self._note("all_gather", output_tensor, lambda: call(output_tensor, input_tensor, group))


class _Scatter(_Noted):
    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: Any,
        op: Any,
        async_op: bool = False,
    ) -> None:
        call = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
        self._note(
            "reduce_scatter", input_tensor, lambda: call(output_tensor, input_tensor, op, group)
        )
