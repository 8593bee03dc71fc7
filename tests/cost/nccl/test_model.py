"""NCCL's choice, timed: damage, size, pairs, and what the user's variables do."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.core.collectives import SWEPT
from clusterlab.cost.predict import predict
from clusterlab.cost.types import Prediction, PredictRequest, one_group
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.place import place_on
from tests.cost.fabrics import load_fabric

DESIGNS = ("hgx-h100", "hgx-a100", "dgx-b200", "dgx-h100-2node", "mi300x", "l40s-8", "alps-gh200")


def asked(fabric: Fabric, ranks: int, collective: str, size: int, **more: object) -> Prediction:
    placement = place_on(fabric, ranks)
    request = PredictRequest(
        fabric=fabric, groups=one_group(placement), collective=collective, size_bytes=size,
        backend="nccl", issue="graph",
    )  # fmt: skip
    return predict(replace(request, **more))  # type: ignore[arg-type]


@given(
    st.sampled_from(DESIGNS), st.sampled_from(sorted(SWEPT)),
    st.integers(1, 1 << 34), st.integers(1, 1 << 34), st.integers(2, 8),
)  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_never_below_the_bound_and_never_faster_for_more_bytes(
    design: str, collective: str, one: int, other: int, ranks: int
) -> None:
    fabric = load_fabric(design)
    ranks = min(ranks, len(fabric.of_kind("gpu")))
    less, more = (asked(fabric, ranks, collective, size) for size in sorted((one, other)))
    assert less.time_us >= less.bound.time_us > 0
    assert more.time_us >= less.time_us * (1 - 1e-9)


@pytest.mark.parametrize("collective", sorted(SWEPT))
def test_a_dead_nic_never_makes_it_faster(collective: str) -> None:
    whole = load_fabric("dgx-h100-2node")
    hurt = replace(
        whole,
        links=tuple(
            replace(k, health=0.0) if "n1/nic3" in (k.src, k.dst) else k for k in whole.links
        ),
    )
    for size in (1 << 12, 1 << 24, 1 << 33):
        before, after = (asked(f, 16, collective, size) for f in (whole, hurt))
        assert after.time_us >= before.time_us * (1 - 1e-9)
    assert (
        asked(hurt, 16, "all_to_all", 1 << 33).time_us
        > asked(whole, 16, "all_to_all", 1 << 33).time_us
    )


def test_two_ranks_on_two_hosts_are_slower_than_on_one() -> None:
    fabric = load_fabric("dgx-h100-2node")
    placement = place_on(fabric, 16)
    times = [
        predict(
            PredictRequest(
                fabric=fabric,
                groups=((placement.ranks[0], placement.ranks[other]),),
                collective="send_recv",
                size_bytes=1 << 28,
                backend="nccl",
                issue="graph",
            )
        ).time_us
        for other in (1, 8)
    ]
    assert times[1] > 2 * times[0]


@pytest.mark.parametrize(
    ("variables", "algorithm", "protocol"),
    [
        ({}, "nvls", "simple"),
        ({"NCCL_NVLS_ENABLE": "0"}, "ring", "simple"),
        ({"NCCL_ALGO": "Tree"}, "tree", "simple"),
        ({"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL"}, "ring", "ll"),
    ],
)
def test_variables_force_the_choice(
    variables: dict[str, str], algorithm: str, protocol: str
) -> None:
    found = asked(load_fabric("hgx-h100"), 8, "all_reduce", 1 << 32, overrides=variables)
    assert (found.algorithm, found.protocol) == (algorithm, protocol)
    free = asked(load_fabric("hgx-h100"), 8, "all_reduce", 1 << 32)
    assert found.time_us >= free.time_us
    assert found.library_time_us is not None


def test_without_peer_access_it_is_slower() -> None:
    fabric = load_fabric("hgx-h100")
    variables = {"NCCL_P2P_DISABLE": "1", "NCCL_NVLS_ENABLE": "0"}
    slow = asked(fabric, 8, "all_reduce", 1 << 28, overrides=variables)
    assert slow.time_us > 3 * asked(fabric, 8, "all_reduce", 1 << 28).time_us


def test_nvls_explains_a_busbw_above_the_line_rate() -> None:
    found = asked(load_fabric("hgx-h100"), 8, "all_reduce", 1 << 34)
    assert found.busbw_GBps > 371
    assert "NVLink" in found.bottleneck.name
    assert found.bottleneck.utilisation < 1


@pytest.mark.parametrize(
    ("dtype", "op", "algorithm"),
    [
        ("float32", "sum", "nvls"),
        ("float32", "prod", "ring"),
        ("float32", "avg", "ring"),
        ("float32", "max", "ring"),
        ("bfloat16", "max", "nvls"),
        ("int32", "avg", "ring"),
    ],
)
def test_the_operator_of_the_request_decides_with_its_type(
    dtype: str, op: str, algorithm: str
) -> None:
    found = asked(load_fabric("hgx-h100"), 8, "all_reduce", 1 << 32, dtype=dtype, op=op)
    assert found.algorithm == algorithm
