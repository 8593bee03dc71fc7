"""For any fabric: less capacity or more damage never helps a given algorithm, and names do not matter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.cost.predict import predict
from clusterlab.cost.types import Prediction, PredictRequest, one_group
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Link
from clusterlab.topology.place import place_on
from tests.cost.fabrics import load_fabric

DESIGNS = (
    "hgx-h100", "hgx-a100", "dgx-b200", "dgx-h100-2node", "l40s-8", "alps-gh200", "mi300x",
    "aws-p4d", "dgx-1v", "rail-only", "superpod-h100-1su",
)  # fmt: skip
COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all", "send_recv")
PROTOCOLS = ("LL", "LL128", "Simple")
SIZES = (1 << 12, 1 << 20, 1 << 28)
few = settings(max_examples=25, deadline=None)
fabric_of = cache(load_fabric)


def asked(
    fabric: Fabric, ranks: int, collective: str, size: int, variables: Mapping[str, str]
) -> Prediction | None:
    """None where NCCL would not offer what the variables ask for."""
    count = min(ranks, len(fabric.of_kind("gpu")))
    request = PredictRequest(
        fabric, one_group(place_on(fabric, count)), collective, size,
        backend="nccl", issue="library", overrides=variables,
    )  # fmt: skip
    try:
        return predict(request)
    except UsageError:
        return None


def forced(collective: str, protocol: str, tree: bool) -> dict[str, str]:
    algorithm = "Tree" if tree and collective == "all_reduce" else "Ring"
    return {"NCCL_ALGO": algorithm, "NCCL_PROTO": protocol}


def worse(link: Link, factor: float) -> Link:
    return replace(
        link,
        GBps=None if link.GBps is None else link.GBps * factor,
        wire_GBps=None if link.wire_GBps is None else link.wire_GBps * factor,
    )


cases = {
    "design": st.sampled_from(DESIGNS),
    "ranks": st.sampled_from((2, 4, 8, 16)),
    "collective": st.sampled_from(COLLECTIVES),
    "protocol": st.sampled_from(PROTOCOLS),
    "tree": st.booleans(),
}


@few
@given(
    **cases,
    link_class=st.sampled_from(("nvlink", "xgmi", "pcie", "ib", "ethernet", "")),
    factor=st.sampled_from((0.9, 0.75, 0.5, 0.2)),
)
def test_less_capacity_never_helps(
    design: str,
    ranks: int,
    collective: str,
    protocol: str,
    tree: bool,
    link_class: str,
    factor: float,
) -> None:
    whole = fabric_of(design)
    links = (
        worse(k, factor) if k.link_class == (link_class or k.link_class) else k for k in whole.links
    )
    no_better(whole, replace(whole, links=tuple(links)), ranks, collective, protocol, tree)


@few
@given(
    **cases,
    seed=st.integers(0, 10_000),
    count=st.sampled_from((1, 2, 5)),
    health=st.sampled_from((0.0, 0.5)),
)
def test_damage_never_helps(
    design: str, ranks: int, collective: str, protocol: str, tree: bool,
    seed: int, count: int, health: float,
) -> None:  # fmt: skip
    whole = fabric_of(design)
    near = [k for k in whole.links if k.src.startswith(tuple(f"{h}/" for h in whole.hosts[:2]))]
    hurt = {(k.src, k.dst) for k in Random(seed).sample(near, min(count, len(near)))}
    hurt |= {(b, a) for a, b in hurt}
    links = (replace(k, health=health) if (k.src, k.dst) in hurt else k for k in whole.links)
    no_better(whole, replace(whole, links=tuple(links)), ranks, collective, protocol, tree)


def no_better(
    whole: Fabric, hurt: Fabric, ranks: int, collective: str, protocol: str, tree: bool
) -> None:
    variables = forced(collective, protocol, tree)
    for size in SIZES:
        before = asked(whole, ranks, collective, size, variables)
        after = asked(hurt, ranks, collective, size, variables)
        if before is not None and after is not None:
            assert after.time_us >= before.time_us * (1 - 1e-9)
            assert after.time_us >= after.bound.time_us


@pytest.mark.parametrize("design", ["hgx-h100", "dgx-h100-2node", "alps-gh200", "mi300x", "l40s-8"])
def test_other_names_for_the_same_parts_change_nothing(design: str) -> None:
    whole = fabric_of(design)
    hosts = {h: f"node-{len(whole.hosts) - i:03d}" for i, h in enumerate(whole.hosts)}

    def other(name: str) -> str:
        host, _, part = name.partition("/")
        return f"{hosts[host]}/{part}" if part and host in hosts else f"x-{name}"

    renamed = replace(
        whole,
        devices=tuple(
            replace(d, name=other(d.name), host=hosts.get(d.host, d.host)) for d in whole.devices
        ),
        links=tuple(replace(k, src=other(k.src), dst=other(k.dst)) for k in whole.links),
    )
    for ranks in (2, 8, 16):
        for collective in COLLECTIVES:
            for size in SIZES:
                one, two = (asked(f, ranks, collective, size, {}) for f in (whole, renamed))
                assert one is not None
                assert two is not None
                assert two.time_us == pytest.approx(one.time_us, rel=1e-9)
                assert (two.algorithm, two.protocol) == (one.algorithm, one.protocol)
