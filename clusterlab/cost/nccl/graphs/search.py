"""NCCL's search for a graph: speeds from the fastest down, paths from the nearest out, then faster again.

ncclTopoCompute of src/graph/search.cc in spirit: what it tries in which order, and when it stops.
"""

from __future__ import annotations

from dataclasses import replace

from clusterlab.cost.nccl.communicator import Graph, PathName, Pattern
from clusterlab.cost.nccl.graphs.attempt import attempt
from clusterlab.cost.nccl.graphs.speeds import speeds
from clusterlab.cost.nccl.graphs.system import MAX_CHANNELS, System
from clusterlab.cost.nccl.graphs.wanted import Best, Outcome, Wanted
from clusterlab.topology.routing.host_graph import PathType

_BUDGET = 1 << 14
_BUDGET_SAME = 1 << 8
_BUDGET_ALL = 1 << 19
"""GPUs visited in one attempt, in one with equal channels, and in all (NCCL_SEARCH_*TIMEOUT*)."""
_LEAST_STEP = 0.49
_MAX_NVLS_HEADS = 32
_MAX_DIRECT_HEADS = 8
_FALLBACK_GBPS = 0.1


def find_graph(
    system: System,
    pattern: Pattern,
    *,
    version: str,
    least: int = 1,
    most: int = MAX_CHANNELS // 2,
    cross_nic: int = 2,
) -> Graph | None:
    """The graph NCCL finds for a pattern with ``least`` to ``most`` channels; None where it has none.

    ``cross_nic`` is NCCL_CROSS_NIC. A ring or tree that cannot be placed falls back to one channel of
    0.1 GB/s, as NCCL does.
    """
    if pattern == "nvls" and (system.nvswitch is None or system.capability < 90):
        return None
    return _Search(system, pattern, version, (least, most), cross_nic).run()


class _Search:
    """The state of one search."""

    def __init__(
        self,
        system: System,
        pattern: Pattern,
        version: str,
        channels: tuple[int, int],
        cross_nic: int,
    ) -> None:
        least, most = channels
        gpus = len(system.gpus)
        if pattern == "nvls":
            most = min(_MAX_NVLS_HEADS, gpus)
            least = least if system.inter else most
        if pattern == "collnet_direct":
            most = min(_MAX_DIRECT_HEADS, gpus)
        if gpus == 1 and pattern != "ring":
            pattern = "tree"
        if pattern == "ring" and system.split and most >= 2:
            least = max(least, 2)
        self.system = system
        self.pattern: Pattern = "tree" if pattern == "collnet_chain" else pattern
        self.collnet = pattern in ("collnet_chain", "collnet_direct")
        self.list = [round(s * 1000) for s in speeds(system.capability, system.inter, version)]
        may_cross = len(system.nics) > 1 and self.pattern in ("ring", "balanced_tree", "split_tree")
        self.cross_nic = cross_nic if may_cross else 0
        near, far, near_out, far_out = system.least_types
        self.near, self.near_out = near, near_out
        self.far_out = far_out if system.inter and system.capability >= 90 else PathType.SYS
        self.far = self.far_out if system.inter else far
        self.same = self.pattern != "nvls"
        self.wanted = Wanted(
            self.pattern, 0, 0, near, near_out, least, most, self.same, int(self.cross_nic == 1)
        )
        self.best = Best(self.wanted)
        self.at = 0
        self.left = _BUDGET_ALL
        self.tried: set[Wanted] = set()

    def run(self) -> Graph | None:
        self._start()
        self._slower()
        if self.best.channels:
            self._duplicate()
            self._faster()
        elif self.collnet or self.pattern == "nvls":
            return None
        return self._graph()

    def _start(self) -> None:
        """The fastest speed that a path and the GPUs' links allow."""
        system, devices = self.system, len(self.system.gpus)
        total = system.total_MBps
        if devices > 1 and self.pattern != "ring":
            total = total * devices // (devices - 1)
        last = len(self.list) - 1
        while self.at < last and (
            self.list[self.at] > system.fastest_MBps
            or self.list[self.at] * self.wanted.least > total
        ):
            self.at += 1
        self._at_speed(self.list[self.at])

    def _at_speed(self, speed: int) -> None:
        self.wanted = replace(self.wanted, intra=speed, inter=speed)

    def _try(self) -> Outcome:
        budget = _BUDGET_SAME if self.wanted.same_channels else _BUDGET
        alike = replace(
            self.wanted,
            type_intra=self.system.farthest_between(self.wanted.type_intra),
            type_inter=self.system.farthest_out(self.wanted.type_inter),
        )
        if alike in self.tried:  # the same paths were open before: nothing new can be found
            return Outcome()
        self.tried.add(alike)
        return attempt(self.system, self.wanted, self.best, budget)

    def _slower(self) -> None:
        """Pass 1: until something is found, and on while it may get better."""
        while True:
            outcome = self._try()
            self.left -= outcome.visited
            enough = self.best.channels * self.best.wanted.inter >= self.system.total_MBps
            if outcome.perfect or (self.best.channels and enough):
                return
            if not self._relax():
                return

    def _relax(self) -> bool:
        """The next thing to try; False when there is none."""
        by_cpus = self.system.amd and self.wanted.type_intra is PathType.SYS
        if self.wanted.same_channels and not by_cpus:
            self.wanted = replace(self.wanted, same_channels=False)
            return True
        self.wanted = replace(self.wanted, same_channels=self.same)
        if self.left < 0 and self.best.channels:
            return False
        if self.system.capability >= 90 and self.wanted.pattern == "balanced_tree":
            self.wanted = replace(self.wanted, pattern="tree")
            return True
        self.wanted = replace(self.wanted, pattern=self.pattern)
        return self._farther() or self._across() or self._next_speed()

    def _farther(self) -> bool:
        """Farther paths between GPUs, then to NICs; both start over when none is left."""
        wanted, best, found = self.wanted, self.best.wanted, self.best.channels > 0
        limit = min(wanted.type_inter if self.system.inter else self.far, PathType.NET)
        if wanted.type_intra < limit and (not found or wanted.type_intra < best.type_intra):
            self.wanted = replace(wanted, type_intra=PathType(wanted.type_intra + 1))
            return True
        self.wanted = wanted = replace(wanted, type_intra=self.near)
        nearer = wanted.type_inter < best.type_inter or wanted.type_inter < PathType.PXN
        below = wanted.type_inter < min(self.far_out, PathType.NET)
        if self.system.inter and below and (not found or nearer):
            self.wanted = replace(wanted, type_inter=PathType(wanted.type_inter + 1))
            return True
        self.wanted = replace(wanted, type_inter=self.near_out)
        return False

    def _across(self) -> bool:
        """Channels that leave by another NIC than they came by, where NCCL_CROSS_NIC lets NCCL choose."""
        crosses = self.pattern in ("ring", "balanced_tree")
        if self.cross_nic == 2 and self.wanted.cross_nic == 0 and crosses:
            self.wanted = replace(self.wanted, cross_nic=2)
            return True
        self.wanted = replace(self.wanted, cross_nic=int(self.cross_nic == 1))
        return False

    def _next_speed(self) -> bool:
        if self.at >= len(self.list) - 1:
            return False
        slower = self.list[self.at + 1]
        if self.best.channels and slower / self.best.wanted.inter <= _LEAST_STEP:
            return False
        self.at += 1
        self._at_speed(slower)
        return True

    def _duplicate(self) -> None:
        """ncclTopoDupChannels: twice the channels of half the speed, unless there are enough of them."""
        best = self.best
        wanted, channels = best.wanted, best.channels
        if self.pattern == "nvls" or wanted.intra < 25_000:
            return
        if self.system.capability > 80 and wanted.intra < 50_000 and channels > 4:
            return
        doubled = min(2 * channels, wanted.most)
        share = -(-doubled // channels)
        best.orders = (best.orders * 2)[:doubled]
        best.nics = (best.nics * 2)[:doubled]
        best.wanted = replace(wanted, intra=wanted.intra // share, inter=wanted.inter // share)

    def _faster(self) -> None:
        """Pass 2: the same channels at a higher speed; trees and NVLS also on one side only."""
        last = len(self.list) - 1
        at = next((i for i, s in enumerate(self.list) if s <= self.best.wanted.inter), last)
        self.wanted = replace(self.best.wanted, least=self.best.channels)
        self._at_speed(self.list[at])
        outcome = Outcome(perfect=True)
        while not outcome.spent and at > 0:
            wanted, best = self.wanted, self.best.wanted
            if self.pattern == "ring":
                at -= 1
                self._at_speed(self.list[at])
            elif (
                self.pattern == "nvls"
                and wanted.inter == best.inter
                and wanted.inter < 2 * wanted.intra
            ):
                at -= 1
                count = self.best.channels
                self.wanted = replace(wanted, least=count, most=count, inter=self.list[at])
            elif wanted.intra == best.intra and wanted.intra < 2 * wanted.inter:
                at -= 1
                self.wanted = replace(wanted, intra=self.list[at])
            else:
                return
            outcome = self._try()

    def _graph(self) -> Graph:
        best, system = self.best, self.system
        wanted = best.wanted
        if not best.channels:
            inter = _FALLBACK_GBPS if system.nics else 0.0
            return Graph(self.pattern, 1, _FALLBACK_GBPS, inter, "SYS", "SYS")
        return Graph(
            pattern=wanted.pattern,
            channels=best.channels,
            intra_GBps=wanted.intra / 1000,
            inter_GBps=wanted.inter / 1000,
            type_intra=_name(wanted.type_intra),
            type_inter=_name(wanted.type_inter),
            same_channels=wanted.same_channels,
        )


def _name(path: PathType) -> PathName:
    names: dict[PathType, PathName] = {
        PathType.LOC: "LOC",
        PathType.NVL: "NVL",
        PathType.NVB: "NVB",
        PathType.C2C: "C2C",
        PathType.PIX: "PIX",
        PathType.PXB: "PXB",
        PathType.P2C: "P2C",
        PathType.PXN: "PXN",
        PathType.PHB: "PHB",
        PathType.SYS: "SYS",
    }
    return names.get(path, "NET")
