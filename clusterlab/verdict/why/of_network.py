"""Causes between nodes: NICs, transport, paths to them, and what lies behind their ports. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from clusterlab.cost.nccl.hindered import SOCKETS_GBps
from clusterlab.verdict.why.candidate import Candidate
from clusterlab.verdict.why.changes import (
    over_sockets,
    with_network_step,
    with_nic_share,
    without_gdr,
)
from clusterlab.verdict.why.scene import Scene

_MOST_NICS = 16
_MIB = 1 << 20


def of_network(scene: Scene) -> Iterator[Candidate]:
    """Candidates of causes that need two nodes."""
    if scene.nodes < 2:
        return
    yield from _nics(scene)
    yield from _transport(scene)
    yield from _behind_the_ports(scene)


def _nics(scene: Scene) -> Iterator[Candidate]:
    network = scene.world.comm.network
    for share in (0.5, 0.25):
        yield _at(
            "NIC_HALF_WIDTH", scene, share, f"every NIC at {share:.0%} of its rate",
            weight=2.0 if share == 0.5 else 1.0,
        )  # fmt: skip
    count = network.nics if network is not None else 1
    for left in sorted(
        {max(1, round(count * k / _MOST_NICS)) for k in (0.5, *range(1, _MOST_NICS))}
    ):
        if left < count:
            yield _at(
                "FEWER_NICS_THAN_EXPECTED", scene, left / count, f"{left} of {count} NICs in use"
            )
    for share in (0.7, 0.6, 0.5, 0.42):
        yield _at(
            "WRONG_NIC_OR_RAIL", scene, share, f"a far NIC that carries {share:.0%}",
            step_us=1.5, rate=0.06,
        )  # fmt: skip
    for share in (0.3, 0.25, 0.21):
        yield _at(
            "ACS_IOMMU_DETOUR", scene, share, f"NICs through the root complex, {share:.0%} left",
            step_us=1.2, rate=0.06,
        )  # fmt: skip
    for share in (0.8, 0.65):
        yield _at(
            "SLOW_LINK", scene, share, f"one NIC's port at {share:.0%}", rate=0.05, weight=0.5
        )


def _transport(scene: Scene) -> Iterator[Candidate]:
    staged = without_gdr(scene.world)
    if staged is not None:
        for share in (0.47, 0.39, 0.32, 0.26):
            yield _at(
                "GDR_OFF", scene, share, f"NICs by host memory, {share:.0%} of their rate left",
                step_us=4.0, rate=0.06, latency=0.05,
            )  # fmt: skip
        curve = scene.log_curve(staged)
        yield Candidate("GDR_OFF", "NICs by host memory", curve, 0.3, rate=0.2, latency=0.1)
    sockets = over_sockets(scene.world)
    if sockets is not None:
        own = scene.per_node * SOCKETS_GBps
        for node_GBps in (1.0, 2.0, 4.0, 8.0, 16.0):
            curve = scene.log_curve(with_nic_share(sockets, node_GBps / own))
            what = f"TCP, {node_GBps:g} GB/s a node"
            yield Candidate("TCP_FALLBACK", what, curve, rate=0.25, latency=0.3, model=0.15)


def _behind_the_ports(scene: Scene) -> Iterator[Candidate]:
    sizes = np.array(scene.sizes, float)
    for share in (0.67, 0.5, 0.4, 0.3, 0.2, 0.08, 0.02):
        slow = scene.log_curve(with_nic_share(scene.world, share))
        for start in (4, 8, 16, 32, 64):
            over = 1 / (1 + (start * _MIB / sizes) ** 1.3)
            ratio = -math.log(share)
            what = f"{share:.0%} of the rate from {start} MiB on"
            yield Candidate(
                "CONGESTION_OVERSUBSCRIPTION", what, scene.expected + ratio * over,
                rate=0.12, point=0.04,
            )  # fmt: skip
        yield Candidate(
            "CONGESTION_OVERSUBSCRIPTION", f"{share:.0%} of the NICs' rate", slow,
            weight=0.2, rate=0.15, point=0.1,
        )  # fmt: skip
    for before, after in ((0.3, 0.05), (0.12, 0.02), (0.12, 0.04)):
        slow = scene.log_curve(with_nic_share(scene.world, before))
        for start in (16, 64):
            over = 1 / (1 + (start * _MIB / sizes) ** 3)
            yield Candidate(
                "CONGESTION_OVERSUBSCRIPTION",
                f"{before:.0%} of the NICs' rate, {after:.0%} from {start} MiB on",
                slow + math.log(before / after) * over,
                weight=0.5, rate=0.3, latency=0.4, model=0.4, point=0.2,
            )  # fmt: skip
    for share in (2 / 3, 1 / 2, 1 / 3):
        yield _at(
            "ECMP_COLLISIONS", scene, share, f"{1 / share:.2g} flows on one uplink", point=0.03
        )
    if scene.nodes > 2:
        for share in (0.8, 0.65, 0.5, 0.35):
            yield _at(
                "MISPLACED_RANKS", scene, share, f"crossings leave {share:.0%} of the NICs' rate",
                step_us=0.5, rate=0.06,
            )  # fmt: skip
    for share in (0.88, 0.78, 0.68, 0.58):
        yield _at(
            "TOO_FEW_QPS", scene, share, f"one queue pair fills {share:.0%} of the paths", rate=0.04
        )


def _at(
    code: str,
    scene: Scene,
    share: float,
    variant: str,
    *,
    step_us: float = 0.0,
    rate: float = 0.0,
    latency: float = 0.0,
    point: float = 0.0,
    weight: float = 1.0,
) -> Candidate:
    """``share`` of the NICs' rate left, and ``step_us`` more for each step between nodes."""
    world = with_nic_share(scene.world, share)
    curve = scene.log_curve(with_network_step(world, step_us) if step_us else world)
    return Candidate(code, variant, curve, weight, rate=rate, latency=latency, point=point)
