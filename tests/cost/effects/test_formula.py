"""One formula for floats and arrays, for every branch of it."""

from __future__ import annotations

from dataclasses import fields, replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.cost.effects.constants import CHIPS, NETWORKS, Effects, shipped_effects
from clusterlab.cost.effects.features import Features
from clusterlab.cost.effects.formula import LL_SHARE, time_us

BRANCHES = [
    *((kind, protocol) for kind in ("ring", "tree") for protocol in ("ll", "ll128", "simple")),
    ("nvls", "simple"),
    ("nvls_tree", "simple"),
    ("p2p_ll", "ll"),
    ("p2p_simple", "simple"),
    ("other", "simple"),
]
NAMED = ("kind", "protocol", "several_nodes", "sums")


def constants(chip: str, network: str) -> Effects:
    table = shipped_effects()
    return Effects(**table.chips[chip], **table.networks[network], **table.shared)


effects = st.builds(constants, st.sampled_from(CHIPS), st.sampled_from(NETWORKS))
positive = st.floats(1e-3, 1e7)
points = st.builds(
    lambda branch, **rest: Features(*branch, **rest),
    st.sampled_from(BRANCHES),
    several_nodes=st.booleans(),
    sums=st.booleans(),
    size_bytes=st.floats(1, 1e11),
    part_bytes=st.floats(1, 1e11),
    hops_inside=st.integers(0, 200),
    hops_between=st.integers(0, 200),
    net_hop_us=positive,
    wire_us=positive,
    network_wire_us=st.floats(0, 1e7),
    copy_us=st.floats(0, 1e7),
    staged_us=st.floats(0, 1e7),
    crowd=st.floats(1, 4),
)


@given(points, effects)
def test_an_array_of_one_gives_what_the_float_gives(point: Features, k: Effects) -> None:
    columns = {
        f.name: getattr(point, f.name)
        if f.name in NAMED
        else np.array([float(getattr(point, f.name))] * 2)
        for f in fields(point)
    }
    rows = SimpleNamespace(**{f.name: np.array([getattr(k, f.name)] * 2) for f in fields(k)})
    found = time_us(SimpleNamespace(**columns), rows)
    assert found == pytest.approx([time_us(point, k)] * 2, rel=1e-12)


@given(
    points, effects, st.floats(1, 100),
    st.sampled_from(["hops_inside", "hops_between", "wire_us", "copy_us", "staged_us", "network_wire_us"]),
)  # fmt: skip
def test_more_of_anything_never_takes_less_time(
    point: Features, k: Effects, factor: float, field: str
) -> None:
    more = replace(point, **{field: getattr(point, field) * factor})
    assert time_us(more, k) >= time_us(point, k) * (1 - 1e-12)


@given(points, effects, st.floats(1, 100))
def test_a_larger_buffer_never_takes_less_time(point: Features, k: Effects, factor: float) -> None:
    by_size = ("size_bytes", "part_bytes", "wire_us", "network_wire_us", "copy_us", "staged_us")
    larger = replace(point, **{f: getattr(point, f) * factor for f in by_size})
    assert time_us(larger, k) >= time_us(point, k) * (1 - 1e-12)


@given(effects)
def test_ll_pays_for_its_flags_and_host_memory_for_its_crowd(k: Effects) -> None:
    point = Features("ring", "ll", False, True, 1e9, 1e8, 0, 0, 0.0, 1e6, 0.0, 0.0, 0.0, 1.0)
    plain = replace(point, protocol="simple")
    assert time_us(point, k) * k.rate_ll / (time_us(plain, k) * k.rate_simple) == pytest.approx(
        LL_SHARE, rel=0.1
    )
    alone = replace(plain, wire_us=1e-9, staged_us=1e9)
    four = replace(alone, crowd=2.0)
    assert time_us(four, k) / time_us(alone, k) == pytest.approx(2**k.crowding, rel=0.01)
