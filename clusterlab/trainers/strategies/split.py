"""A backward in two parts: the gradient of a stage's input now, those of its weights later.

Autograd's graph of a stage, from its output y back to its input x; a node that uses a weight has one edge on
the way to x and one to the weight::

      y ── N4 ── N3 ── N2 ── N1 ── x       B: from y to x only; what arrives at N3 and N1, where weights
                 │           │                branch off, is kept
                 W2          W1            W: from N3 to W2 and from N1 to W1, with what was kept; in all
                                              each edge of the graph is gone along once

For y = x Wᵀ B computes dx = dy W and W computes dW = dyᵀ x, one matrix product each, and dy is what is kept.
A node between branches (a gelu, attention, another rank's part of a sum) is on the way to x: B alone goes
through it, so its collectives are made once. The idea is from Qi et al. 2023, "Zero Bubble Pipeline
Parallelism", section 2; torch's own (pipelining/_backward.py) goes through the graph likewise, by gradient
edges and hooks of nodes.

A weight that is used twice, one use before the other, would be reached from the later use by way of the
earlier one, too; no layer here does that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge

Grads = tuple[torch.Tensor | None, ...]


class SplitBackward:
    """Of one micro-batch through a stage: from ``y`` (its output, or its loss) to ``x`` (its first float)."""

    def __init__(
        self, y: torch.Tensor, x: torch.Tensor, parameters: Iterable[nn.Parameter]
    ) -> None:
        self._y, self._x = y, x
        self._kept: dict[Node, Grads] = {}
        used_by = _users(get_gradient_edge(y).node)
        end = get_gradient_edge(x)
        self._on_way = _reaching(end.node, used_by)
        self._branches: dict[Node, list[nn.Parameter]] = {}
        for parameter in parameters:
            for node in self._branching(get_gradient_edge(parameter).node, used_by):
                self._branches.setdefault(node, []).append(parameter)
        self._end = end
        self._hooks = [
            node.register_prehook(self._keeper(node)) for node in self._branches if node != end.node
        ]

    def of_input(self, grad_y: torch.Tensor | None) -> torch.Tensor:
        """x's gradient, given y's (None: y is the loss)."""
        (grad_x,) = torch.autograd.grad(self._y, self._x, grad_y, retain_graph=True)
        for hook in self._hooks:
            hook.remove()
        # No hook sees what arrives at the very end of the way: it is what was asked for.
        before: Grads = (None,) * self._end.output_nr
        self._kept[self._end.node] = (*before, grad_x)
        return grad_x

    def of_weights(self) -> None:
        """Adds to the parameters' ``grad``, after ``of_input``; and the graph can go."""
        for node, parameters in self._branches.items():
            arrived = [(i, g) for i, g in enumerate(self._kept.get(node, ())) if g is not None]
            if not arrived:
                continue
            # The graph goes when this object does: nodes may share what is on the way to a weight.
            grads = torch.autograd.grad(
                [GradientEdge(node, i) for i, _ in arrived],
                parameters,
                [g for _, g in arrived],
                retain_graph=True,
                allow_unused=True,
            )
            for parameter, grad in zip(parameters, grads, strict=True):
                if grad is not None:
                    parameter.grad = grad if parameter.grad is None else parameter.grad + grad

    def _branching(self, weight: Node, used_by: dict[Node, list[Node]]) -> list[Node]:
        """The nodes on the way to x that ``weight`` comes in at."""
        found: dict[Node, None] = {}
        seen, todo = {weight}, [weight]
        while todo:
            for user in used_by.get(todo.pop(), ()):
                if user in self._on_way:
                    found[user] = None
                elif user not in seen:
                    seen.add(user)
                    todo.append(user)
        return list(found)

    def _keeper(self, node: Node) -> Any:
        def keep(grads: Grads) -> None:
            self._kept[node] = grads

        return keep


def _users(root: Node) -> dict[Node, list[Node]]:
    """Of every node before ``root``: those that used what it made."""
    found: dict[Node, list[Node]] = {root: []}
    todo = [root]
    while todo:
        user = todo.pop()
        for node, _ in user.next_functions:
            if node is None:
                continue
            if node not in found:
                found[node] = []
                todo.append(node)
            found[node].append(user)
    return found


def _reaching(end: Node, used_by: dict[Node, list[Node]]) -> set[Node]:
    """``end`` and all that lies between it and the root."""
    found, todo = {end}, [end]
    while todo:
        for user in used_by.get(todo.pop(), ()):
            if user not in found:
                found.add(user)
                todo.append(user)
    return found
