"""Causes between nodes: NICs, transport, paths to them, and what lies behind their ports. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from clusterlab.verdict.why.candidate import Candidate
from clusterlab.verdict.why.changes import over_sockets, with_nic_share, without_gdr
from clusterlab.verdict.why.scene import Scene

_MOST_NICS = 8
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
        yield _at("NIC_HALF_WIDTH", scene, share, f"every NIC at {share:.0%} of its rate")
    count = network.nics if network is not None else 1
    for left in sorted({max(1, round(count * k / _MOST_NICS)) for k in range(1, _MOST_NICS)}):
        if left < count:
            yield _at(
                "FEWER_NICS_THAN_EXPECTED", scene, left / count, f"{left} of {count} NICs in use"
            )
    for share, steps in ((0.85, 1.1), (0.7, 1.15), (0.55, 1.2), (0.4, 1.3), (0.3, 1.3)):
        yield _at(
            "WRONG_NIC_OR_RAIL", scene, share, f"a far NIC that carries {share:.0%}",
            steps=steps, rate=0.08,
        )  # fmt: skip
    for share in (0.35, 0.27, 0.2, 0.14, 0.1):
        yield _at(
            "ACS_IOMMU_DETOUR", scene, share, f"NICs through the root complex, {share:.0%} left",
            steps=1.05, rate=0.08,
        )  # fmt: skip
    for share in (0.8, 0.65):
        yield _at("SLOW_LINK", scene, share, f"one NIC's port at {share:.0%}", rate=0.05)


def _transport(scene: Scene) -> Iterator[Candidate]:
    staged = without_gdr(scene.world)
    if staged is not None:
        for share in (0.8, 0.6, 0.45, 0.3):
            curve = scene.log_curve(with_nic_share(staged, share))
            what = f"NICs by host memory, {share:.0%} of that left"
            yield Candidate("GDR_OFF", what, curve, rate=0.1, latency=0.2)
    sockets = over_sockets(scene.world)
    if sockets is not None:
        for faster in (0.5, 1.0, 2.0, 4.0):
            curve = scene.log_curve(with_nic_share(sockets, faster))
            what = f"TCP, {1.5 * faster:g} GB/s a rank"
            yield Candidate("TCP_FALLBACK", what, curve, rate=0.25, latency=0.3, model=0.1)


def _behind_the_ports(scene: Scene) -> Iterator[Candidate]:
    sizes = np.array(scene.sizes, float)
    for share in (0.6, 0.4, 0.25, 0.12, 0.05, 0.02):
        slow = scene.log_curve(with_nic_share(scene.world, share))
        for start in (1, 8, 64, 256):
            over = 1 / (1 + (start * _MIB / sizes) ** 2)
            curve = scene.expected + (slow - scene.expected) * over
            what = f"{share:.0%} of the NICs' rate from {start} MiB on"
            yield Candidate(
                "CONGESTION_OVERSUBSCRIPTION", what, curve, rate=0.15, point=0.1, model=0.1
            )
        yield Candidate(
            "CONGESTION_OVERSUBSCRIPTION", f"{share:.0%} of the NICs' rate", slow,
            weight=2.0, rate=0.15, point=0.1,
        )  # fmt: skip
    for share in (2 / 3, 1 / 2, 1 / 3):
        yield _at(
            "ECMP_COLLISIONS", scene, share, f"{1 / share:.2g} flows on one uplink", point=0.1
        )
    if scene.nodes > 2:
        for share in (0.8, 0.65, 0.5, 0.35):
            yield _at(
                "MISPLACED_RANKS", scene, share, f"crossings leave {share:.0%} of the NICs' rate",
                steps=1.1, rate=0.05,
            )  # fmt: skip
    for share in (0.9, 0.82, 0.72, 0.6):
        yield _at(
            "TOO_FEW_QPS", scene, share, f"one queue pair fills {share:.0%} of the paths", rate=0.03
        )


def _at(
    code: str,
    scene: Scene,
    share: float,
    variant: str,
    *,
    steps: float = 1.0,
    rate: float = 0.03,
    point: float = 0.0,
) -> Candidate:
    """``share`` of the NICs' rate left, and latency times ``steps``."""
    curve = scene.log_curve(with_nic_share(scene.world, share))
    if steps != 1.0:
        curve = curve + math.log(steps) * scene.steps_share(curve)
    return Candidate(code, variant, curve, rate=rate, point=point)
