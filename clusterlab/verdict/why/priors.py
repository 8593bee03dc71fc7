"""How common causes are before the curve is seen, given what the system can have. Pure.

Relative weights. Forum threads and vendors' checklists name peer access, GPUDirect, sockets and NICs most;
misplacement and queue pairs least. A factor of two here matters only where curves do not decide.
"""

from __future__ import annotations

from clusterlab.verdict.why.scene import Scene

COMMON: dict[str, float] = {
    "P2P_DISABLED": 1.5,
    "NVLS_OFF": 1.0,
    "SLOW_LINK": 0.8,
    "NIC_HALF_WIDTH": 0.8,
    "GDR_OFF": 1.2,
    "ACS_IOMMU_DETOUR": 0.8,
    "TCP_FALLBACK": 1.2,
    "WRONG_NIC_OR_RAIL": 0.8,
    "FEWER_NICS_THAN_EXPECTED": 1.0,
    "CONGESTION_OVERSUBSCRIPTION": 0.8,
    "ECMP_COLLISIONS": 0.6,
    "MISPLACED_RANKS": 0.4,
    "ALGO_FORCED": 0.6,
    "PROTO_FORCED": 0.7,
    "TOO_FEW_CHANNELS": 0.8,
    "TOO_FEW_QPS": 0.4,
    "LIBRARY_BUG": 0.5,
    "COLD_START_OR_WARMUP": 0.8,
    "HOST_OVERHEAD_SMALL": 0.9,
    "CPU_AFFINITY": 0.6,
    "SLOW_RANK": 0.8,
    "UNKNOWN": 0.5,
}

SAID = 20.0
"""How much more likely a cause is that the run or its description names itself."""


def prior(code: str, scene: Scene) -> float:
    """The weight of ``code`` for this system; 0 where it cannot have it."""
    weight = COMMON[code] * _fits(code, scene)
    if any(one.code == code for one in scene.said):
        weight *= SAID
    return weight


def _fits(code: str, scene: Scene) -> float:
    """What the kind of system makes of a cause."""
    network = scene.world.comm.network
    transport = network.transport if network is not None and scene.nodes > 1 else ""
    if code == "ECMP_COLLISIONS":
        return {"roce": 1.5, "gib": 1.5, "ib": 0.5, "efa": 0.2}.get(transport, 0.7)
    if code == "TOO_FEW_QPS":
        return 1.0 if scene.nodes >= 4 else 0.3
    if code == "CONGESTION_OVERSUBSCRIPTION":
        return 0.5 if scene.nodes == 2 else 1.5
    if code == "ACS_IOMMU_DETOUR":
        return 1.0 if transport in ("ib", "roce", "") else 0.3
    if code == "P2P_DISABLED" and scene.world.comm.intra == "pcie":
        return 2.0
    if code == "P2P_DISABLED" and scene.nodes > 1:
        return 0.4
    return 1.0
