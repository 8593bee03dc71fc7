"""Calls that torch's own parallel parts make by themselves, with an entry each in the ledger.

DTensor calls operators of torch.ops._c10d_functional, torch.distributed.pipelining calls isend and irecv.
While a step of a library form runs, both are ours: they note the call, make it, and note who waits for it.
Groups other than the axis's, and everything between steps, are left alone. Torch looks names up at every
call, in whatever thread backward runs, so nothing slows down but the calls (a dispatch mode would see every
operation). Should a release look up something else, the tests that count its calls by a mode fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from clusterlab.trainers.axis import Axis, noted
from clusterlab.trainers.completion import note_end
from clusterlab.trainers.ledger import Ledger, OpenEntry

FUNCTIONAL = {
    "all_reduce": "all_reduce",
    "all_gather_into_tensor": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
}
"""Operators of torch.ops._c10d_functional and what we call them."""


class _Functional:
    """An operator that notes its calls; anything else that is asked of it is the original's."""

    def __init__(self, original: Any, call: Callable[..., Any]) -> None:
        self._original, self._call = original, call

    def __call__(self, *args: Any, **more: Any) -> Any:
        return self._call(self._original, *args, **more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


@contextmanager
def noting_functional(axis: Axis) -> Iterator[None]:
    """DTensor's calls among the ranks of ``axis``."""
    under_way: dict[int, Any] = {}
    ledger = axis.ledger
    assert axis.group is not None, "more than one rank"
    own = axis.group, axis.group.group_name

    def noting(op: str) -> Callable[..., Any]:
        def call(original: Any, tensor: torch.Tensor, *rest: Any) -> Any:
            if rest[-1] not in own:
                return original(tensor, *rest)
            whole_bytes = axis.size if op == "all_gather" else 1
            entry = noted(axis, op, tensor, times=whole_bytes)
            result = original(tensor, *rest)
            ledger.issued(entry)
            under_way[_storage(result)] = entry
            return result

        return call

    def wait(original: Any, tensor: torch.Tensor) -> Any:
        entry = under_way.pop(_storage(tensor), None)
        if entry is None:
            return original(tensor)
        ledger.waiting(entry)
        waited = original(tensor)
        ledger.seen(entry, at_once=False)
        return waited

    ops: Any = torch.ops._c10d_functional
    before = {name: getattr(ops, name) for name in (*FUNCTIONAL, "wait_tensor")}
    ours = {name: _Functional(before[name], noting(op)) for name, op in FUNCTIONAL.items()}
    ours["wait_tensor"] = _Functional(before["wait_tensor"], wait)
    with _instead([(ops, name, one) for name, one in ours.items()]):
        yield


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


@dataclass(frozen=True, slots=True)
class _Message:
    """``tensor`` is kept until the wait, as in Axis; ``peer``: the other side."""

    entry: OpenEntry
    tensor: torch.Tensor
    peer: object


class _Work:
    """``work`` of one message or of several together; who waits for it has waited for all of them."""

    def __init__(self, ledger: Ledger, work: Any, messages: list[_Message]) -> None:
        self._ledger, self._work, self._messages = ledger, work, messages
        for one in messages:
            note_end(ledger, one.entry, work, f"{one.entry.op} {one.peer} by torch")

    def wait(self, *args: Any) -> Any:
        for one in self._messages:
            self._ledger.waiting(one.entry)
        waited = self._work.wait(*args)
        for one in self._messages:
            self._ledger.seen(one.entry, at_once=False)
        self._messages = []
        return waited

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)


@contextmanager
def noting_messages(axis: Axis, labels: Mapping[int, tuple[str, int]]) -> Iterator[None]:
    """Sends and receives along ``axis``, one by one and in batches. ``labels``: phase and micro-batch of a
    message, by the id of its tensor; others are of phase ``start``: in the first step torch's schedules ask
    each other whether their stages go together.
    """
    together: list[list[_Message]] = []

    def noting(op: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(tensor: torch.Tensor, *args: Any, **more: Any) -> Any:
            if more.get("group") is not axis.group:
                return original(tensor, *args, **more)
            with axis.ledger.labelled(*labels.get(id(tensor), ("start", None))):
                entry = noted(axis, op, tensor)
            work = original(tensor, *args, **more)
            axis.ledger.issued(entry)
            message = _Message(entry, tensor, more.get("group_dst", more.get("group_src")))
            if together:
                together[-1].append(message)
                return work
            return _Work(axis.ledger, work, [message])

        return call

    def batch(ops: list[dist.P2POp]) -> list[Any]:
        together.append([])
        try:
            works = batched(ops)
        finally:
            messages = together.pop()
        if len(works) == len(messages):
            return [_Work(axis.ledger, w, [m]) for w, m in zip(works, messages, strict=True)]
        # NCCL makes one of them.
        return [_Work(axis.ledger, work, messages) for work in works[:1]] + works[1:]

    batched = dist.batch_isend_irecv
    send, receive = noting("send", dist.isend), noting("recv", dist.irecv)
    places = [(m, n, f) for m in (dist, distributed_c10d) for n, f in (
        ("isend", send), ("irecv", receive), ("batch_isend_irecv", batch),
    )]  # fmt: skip
    with _instead(places):
        yield


@contextmanager
def _instead(places: list[tuple[Any, str, Any]]) -> Iterator[None]:
    """Each ``(object, name, value)`` in place of what it has, until the end."""
    before = [(where, name, getattr(where, name)) for where, name, _ in places]
    for where, name, value in places:
        setattr(where, name, value)
    try:
        yield
    finally:
        for where, name, value in before:
            setattr(where, name, value)
