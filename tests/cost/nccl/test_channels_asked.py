"""Fewer channels than NCCL's own slow the bytes down; more do not speed them up."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise

import pytest

from clusterlab.cost.nccl.case import case_of
from clusterlab.cost.nccl.channels import message_channels
from clusterlab.cost.nccl.communicator import Network
from clusterlab.cost.nccl.entry import setting_of
from clusterlab.cost.nccl.overrides import parse_overrides
from clusterlab.cost.predict import predict
from clusterlab.cost.types import Prediction, PredictRequest, one_group
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.place import place_on
from tests.cost.fabrics import load_fabric
from tests.cost.nccl.nccl_logs import h100_nodes

COUNTS = (1, 2, 4, 8, 16, 24, 32, 64)
DESIGNS = ("dgx-h100", "dgx-a100", "dgx-b200", "mi300x", "a100-pcie-8", "dgx-1v", "dgx-h100-2node")
COLLECTIVE_BY_RING = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")
MESSAGES = ("all_to_all", "send_recv")


@cache
def design(name: str) -> Fabric:
    return load_fabric(name)


def request(name: str, collective: str, size: int, variables: dict[str, str]) -> PredictRequest:
    fabric = design(name)
    return PredictRequest(
        fabric=fabric, groups=one_group(place_on(fabric, len(fabric.of_kind("gpu")))),
        collective=collective, size_bytes=size, backend="nccl", issue="graph", overrides=variables,
    )  # fmt: skip


def asked(name: str, collective: str, size: int, **variables: str) -> Prediction:
    return predict(request(name, collective, size, variables))


@pytest.mark.parametrize("variable", ["NCCL_MAX_NCHANNELS", "NCCL_MAX_NRINGS", "NCCL_MAX_CTAS"])
@pytest.mark.parametrize("collective", [*COLLECTIVE_BY_RING, *MESSAGES])
@pytest.mark.parametrize("name", DESIGNS)
def test_fewer_channels_are_never_faster(name: str, collective: str, variable: str) -> None:
    for size in (1 << 10, 1 << 18, 1 << 30):
        own = asked(name, collective, size, NCCL_ALGO="ring").time_us
        times = [
            asked(name, collective, size, NCCL_ALGO="ring", **{variable: str(count)}).time_us
            for count in COUNTS
        ]
        assert all(few >= many for few, many in pairwise(times))
        assert times[-1] == pytest.approx(own)
    assert times[0] > 1.2 * own  # one block cannot do the work of all, at sizes where bytes count


@pytest.mark.parametrize(
    ("name", "block_GBps"),
    [("dgx-a100", 12.0), ("dgx-h100", 38.7 / 2), ("dgx-b200", 35.0), ("dgx-1v", 26.5 / 2)],
)
@pytest.mark.parametrize("count", [1, 2, 4])
def test_few_channels_carry_what_nccl_lets_a_thread_block_have(
    name: str, block_GBps: float, count: int
) -> None:
    found = asked(
        name, "all_reduce", 1 << 32, NCCL_ALGO="ring", NCCL_MAX_NCHANNELS=str(count)
    ).busbw_GBps
    assert found == pytest.approx(count * block_GBps, rel=0.15)


@pytest.mark.parametrize("name", ["dgx-h100", "dgx-b200", "dgx-h100-2node", "gb200-nvl72"])
def test_nvls_has_channels_of_its_own(name: str) -> None:
    """`ncclNvlsTuning`: bound by CTAs, not by NCCL_MAX_NCHANNELS."""
    own = asked(name, "all_reduce", 1 << 30)
    assert own.algorithm.startswith("nvls")
    assert asked(name, "all_reduce", 1 << 30, NCCL_MAX_NCHANNELS="2").time_us == own.time_us
    for variable in ("NCCL_MAX_CTAS", "NCCL_NVLS_NCHANNELS"):
        times = [
            asked(name, "all_reduce", 1 << 30, **{variable: str(n)}).time_us for n in (2, 4, 8)
        ]
        assert all(few > 1.8 * many for few, many in pairwise(times))
        assert times[-1] > 1.5 * own.time_us


@pytest.mark.parametrize("collective", MESSAGES)
@pytest.mark.parametrize("name", ["dgx-h100", "dgx-h100-2node"])
def test_messages_have_limits_of_their_own(name: str, collective: str) -> None:
    own = asked(name, collective, 1 << 30).time_us
    few = asked(name, collective, 1 << 30, NCCL_MAX_P2P_NCHANNELS="1").time_us
    assert few > 2 * own
    lifted = {"NCCL_MAX_NCHANNELS": "1", "NCCL_MIN_P2P_NCHANNELS": "32"}
    assert asked(name, collective, 1 << 30, **lifted).time_us == pytest.approx(own)
    one = asked(name, collective, 1 << 30, NCCL_NCHANNELS_PER_NET_PEER="1").time_us
    between = name == "dgx-h100-2node" and collective == "send_recv"
    assert (one > 2 * own) == between
    ring = asked(name, "all_gather", 1 << 30).time_us
    assert asked(name, "all_gather", 1 << 30, NCCL_MAX_P2P_NCHANNELS="1").time_us == ring


@pytest.mark.parametrize(
    ("nodes", "per_node", "variables", "all_", "each"),
    [
        (1, 8, {}, 16, 16),
        (1, 8, {"NCCL_MAX_NCHANNELS": "3"}, 4, 4),
        (1, 8, {"NCCL_MAX_P2P_NCHANNELS": "2"}, 2, 2),
        (1, 8, {"NCCL_MIN_P2P_NCHANNELS": "20"}, 32, 32),
        (2, 1, {}, 4, 4),
        (2, 1, {"NCCL_NCHANNELS_PER_NET_PEER": "2"}, 4, 2),
        (2, 8, {}, 16, 4),
        (16, 8, {}, 16, 1),
    ],
)
def test_messages_channels_are_counted_as_nccl_does(
    nodes: int, per_node: int, variables: dict[str, str], all_: int, each: int
) -> None:
    """`ncclTopoComputeP2pChannels`: powers of two; of many peers each gets few."""
    network = Network("ib", per_node, 50.0) if nodes > 1 else None
    comm = h100_nodes(nodes, per_node, "2.30.7", network=network)
    found = message_channels(setting_of(comm, parse_overrides(variables)))
    assert (found.all, found.each) == (all_, each)


def test_what_says_nothing_of_channels_changes_nothing() -> None:
    plain = case_of(request("dgx-h100", "all_gather", 1 << 20, {}))
    named = case_of(request("dgx-h100", "all_gather", 1 << 20, {"NCCL_PROTO": "Simple"}))
    assert not named.overrides.sets_channels
    points = [c.features("ring", "simple", 1 << 20) for c in (plain, named)]
    assert points[0] == points[1]
    narrow = replace(named, overrides=parse_overrides({"NCCL_MAX_CTAS": "1"}))
    assert narrow.features("ring", "simple", 1 << 20).wire_us > points[0].wire_us
