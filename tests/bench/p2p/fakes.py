"""A machine without GPUs for the probe: ways have a start-up time and a rate, SMs a rate of their own."""

from __future__ import annotations

from dataclasses import dataclass, field

from clusterlab.bench.p2p.plan import CopyStep, KernelStep
from clusterlab.bench.p2p.probe import Measured
from clusterlab.core.p2p import P2pGpu, PeerAccess, Wrong


def gpus(count: int, sms: int = 132) -> tuple[P2pGpu, ...]:
    return tuple(P2pGpu(i, "NVIDIA H200", f"GPU-{i}", sms, 141 << 30) for i in range(count))


def access(count: int, *, cuda: bool = True) -> tuple[PeerAccess, ...]:
    pairs = [(a, b) for a in range(count) for b in range(count) if a != b]
    return tuple(PeerAccess(a, b, cuda, (("read", "OK"), ("nvlink", "NS"))) for a, b in pairs)


@dataclass
class FakeMachine:
    """``link_GBps`` is what copies and kernels reach at most, ``sm_GBps`` what an SM adds at 16 bytes."""

    link_GBps: float = 380.0
    sm_GBps: float = 12.0
    startup_us: float = 2.0
    wrong: dict[object, Wrong] = field(default_factory=dict)
    behind: frozenset[int] = frozenset()
    compiled: dict[int, int] = field(default_factory=dict)
    done: list[object] = field(default_factory=list)

    def copy(self, step: CopyStep) -> Measured:
        self.done.append(step)
        time_us = self.startup_us + step.size_bytes / self.link_GBps / 1e3
        ahead = step.size_bytes not in self.behind
        return Measured([2 * time_us, time_us, 0.5 * time_us], ahead, self.wrong.get(step))

    def kernel(self, step: KernelStep) -> Measured:
        self.done.append(step)
        rate = min(self.link_GBps, step.programs * self.sm_GBps * step.access_bytes / 16)
        compiled = self.compiled.get(step.access_bytes, step.access_bytes)
        return Measured([step.size_bytes / rate / 1e3], True, self.wrong.get(step), compiled)
