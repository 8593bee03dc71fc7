"""One tiny decoder-only transformer, whole or a rank's part of it.

What parallelism changes is in ``Ways``, called at the places where it must: around attention and MLP, around
the heads, after the embedding and before the head. With the plain ``Ways`` it is the reference model.
Shapes: x_BSH; with positions split among ranks S is a rank's own part.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import nn

from clusterlab.trainers.config import ModelConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusterlab.trainers.plans.routed import Routed


class Ways:
    """Where parallelism acts. Each takes and returns a tensor; here every one returns what it got."""

    forced_BSK: torch.Tensor | None = None
    """Experts of the next forward's tokens where routing is forced (moe.force); -1: of none."""

    routed: tuple[Routed, ...] = ()
    """What each mixture sent in the last step, where there are any."""

    def noting(self) -> AbstractContextManager[None]:
        """Around a step: calls that a library makes by itself are in the ledger, too."""
        return nullcontext()

    def split(self, x_BSH: torch.Tensor) -> torch.Tensor:
        """After the embedding: this rank's positions."""
        return x_BSH

    def join(self, x_BSH: torch.Tensor) -> torch.Tensor:
        """Before the head: all positions."""
        return x_BSH

    def enter(self, x_BSH: torch.Tensor) -> torch.Tensor:
        """Before weights that are cut by columns."""
        return x_BSH

    def leave(self, x_BSH: torch.Tensor) -> torch.Tensor:
        """After weights that are cut by rows."""
        return x_BSH

    def rows(self, linear: Linear, x: torch.Tensor) -> torch.Tensor:
        """``linear``, cut by rows: its bias is added once, after the parts are summed."""
        y_BSH = self.leave(linear.product(x))
        return y_BSH if linear.bias is None else y_BSH + linear.bias

    def to_heads(self, x_BSAD: torch.Tensor) -> torch.Tensor:
        """Before attention: all positions of some heads."""
        return x_BSAD

    def from_heads(self, x_BSAD: torch.Tensor) -> torch.Tensor:
        """After attention: the positions and heads as before."""
        return x_BSAD

    def experts(self, x_TH: torch.Tensor, block: Block) -> torch.Tensor:
        """The mixture of experts of ``block``; only where the model has experts."""
        from clusterlab.trainers.moe import mixture

        return mixture(x_TH, block, self.forced_BSK)

    def finish(self, parameters: Mapping[str, nn.Parameter]) -> None:
        """After the step's last backward: sum gradients that ranks of this axis have only in part."""


class Norm(nn.Module):
    """Layer norm over H."""

    def __init__(self, values: Mapping[str, torch.Tensor], name: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(values[f"{name}.weight"])
        self.bias = nn.Parameter(values[f"{name}.bias"])

    def forward(self, x_BSH: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x_BSH, self.weight.shape, self.weight, self.bias)


class Linear(nn.Linear):
    """y = x Wᵀ + b, torch's own but for its first values."""

    def __init__(self, values: Mapping[str, torch.Tensor], name: str) -> None:
        nn.Module.__init__(self)
        self.weight = nn.Parameter(values[f"{name}.weight"])
        self.out_features, self.in_features = self.weight.shape[-2:]
        bias = values.get(f"{name}.bias")
        self.register_parameter("bias", nn.Parameter(bias) if bias is not None else None)

    def product(self, x: torch.Tensor) -> torch.Tensor:
        """x Wᵀ."""
        return F.linear(x, self.weight)


class EightBitLinear(Linear):
    """Multiplied in 8 bits (eight_bits.py)."""

    def product(self, x: torch.Tensor) -> torch.Tensor:
        """As in Linear."""
        from clusterlab.trainers.eight_bits import product

        return product(x, self.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.product(x)
        return y if self.bias is None else y + self.bias


class Stacked(Linear):
    """Several at once, stacked along dimension 0 of W and b: q, k and v."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:  # type: ignore[override]
        assert self.bias is not None, "qkv has a bias"
        each = range(self.weight.shape[0])
        return tuple(F.linear(x, self.weight[i], self.bias[i]) for i in each)


class Experts(nn.Module):
    """This rank's experts: up (e, F, H) and down (e, H, F)."""

    def __init__(self, values: Mapping[str, torch.Tensor], name: str) -> None:
        super().__init__()
        self.up = nn.Parameter(values[f"{name}.up"])
        self.down = nn.Parameter(values[f"{name}.down"])

    def one(self, x_TH: torch.Tensor, expert: int) -> torch.Tensor:
        """Tokens through the expert that is number ``expert`` on this rank."""
        return F.gelu(x_TH @ self.up[expert].T) @ self.down[expert].T


class Block(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)) or the experts'."""

    def __init__(
        self, model: ModelConfig, values: Mapping[str, torch.Tensor], layer: int, ways: Ways
    ) -> None:
        super().__init__()
        self.model, self.ways, self.layer = model, ways, layer
        name = f"blocks.{layer}"
        self.norm1 = Norm(values, f"{name}.norm1")
        self.qkv = Stacked(values, f"{name}.qkv")
        self.out = Linear(values, f"{name}.out")
        self.norm2 = Norm(values, f"{name}.norm2")
        if model.experts:
            self.router = Linear(values, f"{name}.router")
            self.expert_weights = Experts(values, f"{name}.experts")
        else:
            kind = EightBitLinear if model.fp8 else Linear
            self.up = kind(values, f"{name}.up")
            self.down = kind(values, f"{name}.down")

    def forward(self, x_BSH: torch.Tensor) -> torch.Tensor:
        x_BSH = x_BSH + self.attention(self.norm1(x_BSH))
        return x_BSH + self.feed_forward(self.norm2(x_BSH))

    def attention(self, x_BSH: torch.Tensor) -> torch.Tensor:
        ways, D = self.ways, self.model.head_width
        qkv_BSAD = (t.unflatten(-1, (-1, D)) for t in self.qkv(ways.enter(x_BSH)))
        q, k, v = (ways.to_heads(t).transpose(1, 2) for t in qkv_BSAD)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        return ways.rows(self.out, ways.from_heads(mixed.contiguous()).flatten(2))

    def feed_forward(self, x_BSH: torch.Tensor) -> torch.Tensor:
        if self.model.experts:
            shape = x_BSH.shape
            return self.ways.experts(x_BSH.reshape(-1, shape[-1]), self).view(shape)
        h_BSF = F.gelu(self.up(self.ways.enter(x_BSH)))
        return self.ways.rows(self.down, h_BSF)


class Embedding(nn.Module):
    """Token and position, summed."""

    def __init__(self, values: Mapping[str, torch.Tensor], ways: Ways) -> None:
        super().__init__()
        self.ways = ways
        self.token = nn.Parameter(values["embed.token"])
        self.position = nn.Parameter(values["embed.position"])

    def forward(self, tokens_BS: torch.Tensor) -> torch.Tensor:
        return self.ways.split(F.embedding(tokens_BS, self.token) + self.position)


class Transformer(nn.Module):
    """``layers`` of the model; with the first of them comes the embedding, with the last the head."""

    def __init__(
        self,
        model: ModelConfig,
        values: Mapping[str, torch.Tensor],
        layers: Sequence[int],
        ways: Ways,
    ) -> None:
        super().__init__()
        self.model, self.layers, self.ways = model, tuple(layers), ways
        self.embed = Embedding(values, ways) if 0 in layers else None
        self.blocks = nn.ModuleDict({str(i): Block(model, values, i, ways) for i in layers})
        last = model.layers - 1 in layers
        self.norm = Norm(values, "norm") if last else None
        self.head = Linear(values, "head") if last else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Tokens_BS or the stage before's x_BSH; logits_BSV or x_BSH."""
        if self.embed is not None:
            x = self.embed(x)
        return self.through(x, self.layers)

    def through(self, x_BSH: torch.Tensor, layers: Sequence[int]) -> torch.Tensor:
        """Only ``layers`` of those it has, and the head if the model's last is among them."""
        for layer in layers:
            x_BSH = self.blocks[str(layer)](x_BSH)
        if self.norm is not None and self.head is not None and self.model.layers - 1 in layers:
            return self.head(self.ways.join(self.norm(x_BSH)))  # type: ignore[no-any-return]
        return x_BSH


def loss_of(logits_BSV: torch.Tensor, targets_BS: torch.Tensor, tokens: int) -> torch.Tensor:
    """The cross entropy of these tokens over all ``tokens`` of the step: its parts add up to its mean."""
    flat = logits_BSV.reshape(-1, logits_BSV.shape[-1])
    return F.cross_entropy(flat, targets_BS.reshape(-1), reduction="sum") / tokens


def named(model: Transformer) -> dict[str, nn.Parameter]:
    """The parameters by the names of ``weights_of``."""
    renamed = {}
    for name, parameter in model.named_parameters():
        renamed[name.replace("expert_weights", "experts")] = parameter
    return renamed
