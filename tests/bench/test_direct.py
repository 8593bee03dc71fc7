"""NCCL's own calls are bound so that every collective delivers; a missing library is one clear error."""

from __future__ import annotations

import sys
import types

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.bench import direct as direct_module
from clusterlab.bench.buffers import Arena
from clusterlab.bench.check import check_rank, checkable, reset
from clusterlab.bench.direct import Direct, communicator_ranks, load_nccl
from clusterlab.bench.groups import seat_of
from clusterlab.bench.nccl_calls import NCCL_DTYPES, NCCL_OPS
from clusterlab.core.collectives import OPERATIONS, REDUCE_OPS
from clusterlab.core.dtypes import DTYPES
from clusterlab.core.errors import UsageError
from clusterlab.core.rows import make_point
from tests.bench.fake_nccl import REDUCE, FakeNccl, World

CPU = torch.device("cpu")
names = st.sampled_from(list(OPERATIONS))
dtypes = st.sampled_from(["int8", "int32", "int64", "float16", "float32", "bfloat16"])


def bound(point, n, version, ranks=None):
    """Every rank's buffers and call, over fake communicators of the ranks that direct would choose."""
    whole = tuple(range(n))
    members = communicator_ranks(point, whole)
    world = World(len(members))
    made = []
    for rank in range(n):
        seat = seat_of([point], rank)
        if seat is None:
            continue
        comm = object()
        fake = FakeNccl(world, members.index(rank), comm, 99, version)
        buffers = Arena([point], CPU).buffers(point, seat.rank)
        reset(point, buffers, seat.rank)
        direct = Direct(fake, {members: comm}, whole, 99)
        made.append((seat, buffers, direct, direct.bind(seat, buffers)))
    return world, made


@settings(max_examples=120, deadline=None)
@given(names, st.integers(1, 3000), dtypes, st.integers(1, 5), st.booleans(), st.data())
def test_every_operation_delivers_what_the_data_check_wants(name, size, dtype, n, in_place, draw):
    between_two = name in ("send", "ping_pong")
    n = max(n, 2) if between_two else n
    k = 2 if between_two else draw.draw(st.integers(1, n))
    ranks = tuple(sorted(draw.draw(st.permutations(range(n)))[:k]))
    point = make_point(
        name,
        size,
        DTYPES[dtype],
        k,
        op=draw.draw(st.sampled_from(["min", "max"])),
        root=draw.draw(st.integers(0, k - 1)),
        in_place=in_place,
        ranks=None if k == n and not between_two else ranks,
        uneven=draw.draw(st.sampled_from(["linear", "hot:0.5", "random:3"]))
        if name == "all_to_all_v" and k > 1
        else None,
    )
    if not checkable(point):
        return
    world, made = bound(point, n, draw.draw(st.sampled_from([22809, 22304])))
    world.run([operation.call for _, _, _, operation in made])
    for seat, buffers, _, _ in made:
        assert check_rank(point, buffers.recv, seat.rank).wrong == 0


@pytest.mark.parametrize("op", ["sum", "prod", "min", "max"])
def test_operators_have_nccls_numbers(op):
    point = make_point("all_reduce", 4000, DTYPES["int32"], 3, op=op)
    world, made = bound(point, 3, 22809)
    world.run([operation.call for _, _, _, operation in made])
    assert [check_rank(point, b.recv, s.rank).wrong for s, b, _, _ in made] == [0, 0, 0]


def test_numbers_are_nccl_h_s():
    """ncclDataType_t and ncclRedOp_t as in nccl.h of 2.28; the fakes' own table is from there as well."""
    assert set(NCCL_OPS) == set(REDUCE_OPS)
    assert set(NCCL_DTYPES) == set(DTYPES)
    assert [op for _, op in sorted((n, op) for op, n in NCCL_OPS.items())] == [
        "sum",
        "prod",
        "max",
        "min",
        "avg",
    ]
    assert REDUCE[NCCL_OPS["max"]] is torch.amax


def test_calls_of_a_group_are_one_group():
    point = make_point("all_reduce", 64, DTYPES["int32"], 2, op="max")
    world, made = bound(point, 2, 22809)
    grouped = [direct.grouped([operation.call] * 4) for _, _, direct, operation in made]
    world.run(grouped)
    assert [direct.nccl.groups for _, _, direct, _ in made] == [1, 1]
    assert made[0][2].grouped([made[0][3].call]) is made[0][3].call


def test_without_nccl4py_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "nccl", None)
    monkeypatch.setitem(sys.modules, "nccl.bindings", None)
    monkeypatch.setitem(sys.modules, "nccl.bindings.nccl", None)
    with pytest.raises(UsageError, match=r"clusterlab\[direct\]"):
        load_nccl()


def test_another_nccl_than_torchs_is_refused(monkeypatch):
    fake = types.ModuleType("nccl.bindings.nccl")
    fake.get_version = lambda: 23004
    for name in ("nccl", "nccl.bindings"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "nccl.bindings.nccl", fake)
    monkeypatch.setattr(direct_module, "loaded_library", lambda: None)
    assert load_nccl() is fake
    torchs = types.SimpleNamespace(path=None, version=(2, 28, 9), version_text="2.28.9")
    monkeypatch.setattr(direct_module, "loaded_library", lambda: torchs)
    monkeypatch.setattr(direct_module.ctypes, "CDLL", lambda *_, **__: None)
    with pytest.raises(UsageError, match=r"found NCCL 2\.30\.4, and torch uses 2\.28\.9"):
        load_nccl()
