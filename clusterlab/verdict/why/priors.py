"""How common causes are before the curve is seen, given what the system can have. Pure.

Relative weights. Forum threads and vendors' checklists name peer access, GPUDirect, sockets and NICs most;
misplacement and queue pairs least. Some were then moved, by at most two, as two sets of generated curves
(tests/benchmarks/why_curves.py) both asked for. A factor of two matters only where curves do not decide.
"""

from __future__ import annotations

import numpy as np

from clusterlab.verdict.why.scene import Scene
from clusterlab.verdict.why.shape_curve import curve_of
from clusterlab.verdict.why.shapes import cold_start

COMMON: dict[str, float] = {
    "P2P_DISABLED": 1.2,
    "NVLS_OFF": 1.3,
    "SLOW_LINK": 0.7,
    "NIC_HALF_WIDTH": 1.0,
    "GDR_OFF": 1.1,
    "ACS_IOMMU_DETOUR": 0.8,
    "TCP_FALLBACK": 1.0,
    "WRONG_NIC_OR_RAIL": 0.4,
    "FEWER_NICS_THAN_EXPECTED": 1.2,
    "CONGESTION_OVERSUBSCRIPTION": 0.9,
    "ECMP_COLLISIONS": 0.5,
    "MISPLACED_RANKS": 0.2,
    "ALGO_FORCED": 0.6,
    "PROTO_FORCED": 0.7,
    "TOO_FEW_CHANNELS": 1.0,
    "TOO_FEW_QPS": 0.3,
    "LIBRARY_BUG": 1.2,
    "COLD_START_OR_WARMUP": 1.2,
    "HOST_OVERHEAD_SMALL": 1.0,
    "CPU_AFFINITY": 1.0,
    "SLOW_RANK": 1.0,
    "UNKNOWN": 0.2,
}

SAID = 300.0
"""How much more likely a cause is that the run or its description names itself; and how much less one that
NCCL's own log rules out.
"""

FORCED = 5.0
"""The same of an algorithm or protocol that is forced: people force what they compare."""

BEGINS_COLD = 6.0
"""The same where the first rows are slower than larger buffers: one healthy table in ten has such rows."""


def prior(code: str, scene: Scene) -> float:
    """The weight of ``code`` for this system; 0 where it cannot have it."""
    weight = COMMON[code] * _fits(code, scene)
    if any(one.code == code for one in scene.said):
        weight *= FORCED if code in ("ALGO_FORCED", "PROTO_FORCED") else SAID
    elif code in scene.cleared:
        weight /= SAID
    if code == "COLD_START_OR_WARMUP" and _begins_cold(scene):
        weight *= BEGINS_COLD
    return weight


def _begins_cold(scene: Scene) -> bool:
    """Whether the first rows are slower than larger buffers, which no prediction is needed to see."""
    curve = curve_of(scene.sizes, np.exp(scene.data.log_time).tolist())
    return cold_start(curve) is not None


def _fits(code: str, scene: Scene) -> float:
    """What the kind of system makes of a cause."""
    network = scene.world.comm.network
    transport = network.transport if network is not None and scene.nodes > 1 else ""
    factors = {
        "ECMP_COLLISIONS": {"roce": 1.5, "gib": 1.5, "ib": 0.5, "efa": 0.2}.get(transport, 0.7),
        "TOO_FEW_QPS": 1.5 if scene.nodes >= 4 else 0.3,
        "CONGESTION_OVERSUBSCRIPTION": 0.3 if scene.nodes == 2 else 1.6,
        "ACS_IOMMU_DETOUR": 1.0 if transport in ("ib", "roce", "") else 0.3,
        "P2P_DISABLED": _peers(scene),
    }
    return factors.get(code, 1.0)


def _peers(scene: Scene) -> float:
    """Containers and drivers take peer access from cards most; between nodes it seldom shows."""
    if scene.world.comm.intra == "pcie":
        return 2.0
    return 0.1 if scene.nodes > 1 else 1.0
