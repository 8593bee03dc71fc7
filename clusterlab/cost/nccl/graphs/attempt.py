"""One depth-first placement of channels, for one pattern, speed and set of allowed paths.

NCCL's ncclTopoSearchRec (src/graph/search.cc) in spirit: channels are placed one after the other, each
taking its speed from every link on its way; the best number found is kept; a budget of visited GPUs ends
what does not end by itself. Ours also ends when a bound on the number of channels is met, which changes
no result.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from clusterlab.cost.nccl.graphs.ceiling import can_improve, channel_ceiling, least_hops
from clusterlab.cost.nccl.graphs.system import System, Way
from clusterlab.cost.nccl.graphs.wanted import Best, Outcome, Wanted
from clusterlab.topology.routing.host_graph import PathType

TREES = ("balanced_tree", "split_tree", "tree")
_PCI_BUDGET = 1 << 10


class _EndedError(Exception):
    """The attempt is over: budget spent, or nothing better can come."""


def attempt(system: System, wanted: Wanted, best: Best, budget: int) -> Outcome:
    """Look for a better placement than ``best``, which is replaced by any that is found."""
    ceiling = channel_ceiling(system, wanted)
    if ceiling < wanted.least or not can_improve(system, wanted, best, ceiling):
        return Outcome()
    return _Attempt(system, wanted, best, budget, ceiling).run()


class _Attempt:
    """The state of one attempt."""

    def __init__(
        self, system: System, wanted: Wanted, best: Best, budget: int, ceiling: int
    ) -> None:
        self.system = system
        self.wanted = wanted
        self.best = best
        self.budget = budget
        self.given = budget
        self.ceiling = ceiling
        self.orders: list[list[int]] = []
        self.nics: list[list[int]] = []
        self.hops = 0
        self.outcome = Outcome()
        self.ways = system.gpu_ways
        self.nearest_first: dict[tuple[int, int | None], list[int]] = {}
        self.stars: dict[int, list[tuple[Way, int]] | None] = {}
        n = len(system.gpus)
        ring = wanted.pattern == "ring"
        self.to_net = -1
        if system.inter:
            self.to_net = n - 1 if ring else 1 if wanted.pattern == "split_tree" else 0
        self.to_first = n - 1 if ring and not system.inter else -1

    def run(self) -> Outcome:
        left, net_left = list(self.system.left), list(self.system.net_left)
        with contextlib.suppress(_EndedError):
            self._place()
        self.system.left[:] = left
        self.system.net_left[:] = net_left
        self.outcome.visited = self.given - max(self.budget, 0)
        self.outcome.spent = self.budget <= 0 and not self.outcome.perfect
        return self.outcome

    def _place(self) -> None:
        """Place the next channel in every way, and the ones after it."""
        if self.system.inter:
            self._place_from_nics()
            return
        k, wanted = len(self.orders), self.wanted
        if wanted.pattern == "nvls":
            self._explore(k, "free", None)
            return
        if k == 0:
            self._explore(0, "pci", None)
        else:
            self._explore(self.orders[-1][0], "replay", None)
        if k == 0 or not wanted.same_channels:
            for gpu in range(len(self.system.gpus)):
                self._explore(gpu, "free", None)

    def _place_from_nics(self) -> None:
        system, wanted, k = self.system, self.wanted, len(self.orders)
        order = system.nics_for(None, wanted.type_inter)
        taken = max(wanted.inter // 1000, 0) * 1000  # NCCL takes whole GB/s from a NIC
        heads = wanted.pattern in ("nvls", "collnet_direct")
        found = False
        for i in range(len(order)):
            nic = order[(k + i) % len(order)]
            if heads and found:
                break
            if system.net_left[nic] < taken:
                continue
            paired = wanted.pattern == "ring" and wanted.cross_nic == 2 and k & 1
            if paired and nic != self.nics[-1][1]:
                continue
            system.net_left[nic] -= taken
            if heads:
                owner = system.nic_owner[nic]
                new = owner is not None and all(o[0] != owner for o in self.orders)
                if k < len(order) and new and owner is not None:
                    self._explore(owner, "free", nic)
                    found = True
            else:
                self._start_at(nic)
            system.net_left[nic] += taken

    def _start_at(self, nic: int) -> None:
        """A channel that begins at a NIC, at the GPUs nearest to it."""
        system, k = self.system, len(self.orders)
        if k and self.wanted.same_channels:
            self._explore(self.orders[-1][0], "replay", nic)
            return
        if k == 0 and not system.nvswitch:
            self._explore_briefly(0, "pci", nic)
        owner = system.nic_owner[nic]
        if owner is not None:
            self._explore(owner, "free", nic)
        for gpu in system.nearest_gpus(nic):
            if gpu != owner:
                self._explore(gpu, "free", nic)

    def _explore_briefly(self, gpu: int, mode: str, nic: int) -> None:
        """The order of the PCI bus as a reference, on a budget of its own."""
        left, net_left, hops = list(self.system.left), list(self.system.net_left), self.hops
        before, self.budget = self.budget, _PCI_BUDGET
        depth = len(self.orders)
        try:
            self._explore(gpu, mode, nic)
        except _EndedError:
            if self.budget > 0:
                raise
            self.system.left[:], self.system.net_left[:] = left, net_left
            self.hops = hops
            del self.orders[depth:], self.nics[depth:]
        self.budget = before

    def _explore(self, gpu: int, mode: str, nic: int | None) -> None:
        """All channels that begin at ``gpu`` (coming from ``nic``), and what can follow each."""
        if nic is not None:
            entry = self.system.way(self.system.nics[nic], self.system.gpus[gpu])
            if not self._allowed(entry, inter=True) or not self._take(entry, self.wanted.inter):
                return
        for order, nics in self._walks(gpu, mode, nic):
            self.orders.append(order)
            self.nics.append(nics)
            self._consider()
            if len(self.orders) < self.wanted.most:
                self._place()
            self.orders.pop()
            self.nics.pop()
        if nic is not None:
            self._give(entry, self.wanted.inter)

    def _consider(self) -> None:
        """Keep the placement if it is better (ncclTopoCompareGraphs); stop if none can be better still."""
        wanted, best, count = self.wanted, self.best, len(self.orders)
        if count < wanted.least:
            return
        if wanted.pattern == "nvls":
            more = best.channels < count <= len(self.system.gpus)
            better = more or count * wanted.inter > best.channels * best.wanted.inter
        else:
            now, then = count * wanted.intra, best.channels * best.wanted.intra
            alike = (wanted.pattern, wanted.cross_nic) == (
                best.wanted.pattern,
                best.wanted.cross_nic,
            )
            better = now > then or (now == then and alike and self.hops < best.hops)
        if not better:
            return
        best.wanted, best.hops = wanted, self.hops
        best.orders, best.nics = [list(o) for o in self.orders], [list(n) for n in self.nics]
        if count == wanted.most:
            self.outcome.perfect = True
            raise _EndedError
        if count == self.ceiling and self.hops <= count * least_hops(self.system, wanted):
            raise _EndedError

    def _visit(self) -> None:
        if self.budget <= 0:
            raise _EndedError
        self.budget -= 1

    def _walks(
        self, first: int, mode: str, nic: int | None
    ) -> Iterator[tuple[list[int], list[int]]]:
        """Every way through all GPUs from ``first``; its links are taken while the caller looks at it."""
        order, nics = [first], [] if nic is None else [nic]
        stack = [self._moves(order, nics, 0, self.to_net, mode)]
        self._visit()
        undo: list[tuple[tuple[tuple[Way, int], ...], bool, bool]] = []
        while stack:
            move = next(stack[-1], None)
            if move is None:
                stack.pop()
                if undo:
                    taken, grew, left_by_nic = undo.pop()
                    for way, speed in taken:
                        self._give(way, speed)
                    if grew:
                        order.pop()
                    if left_by_nic:
                        nics.pop()
                continue
            taken, gpu, exit_nic, step, to_net = move
            if gpu is not None:
                order.append(gpu)
            if exit_nic is not None:
                nics.append(exit_nic)
            undo.append((taken, gpu is not None, exit_nic is not None))
            self._visit()
            if step == len(self.system.gpus):
                yield order, nics
                stack.append(iter(()))
            else:
                stack.append(self._moves(order, nics, step, to_net, mode))

    def _moves(
        self, order: list[int], nics: list[int], step: int, to_net: int, mode: str
    ) -> Iterator[tuple[tuple[tuple[Way, int], ...], int | None, int | None, int, int]]:
        """What can come next: (links taken, GPU gone to, NIC left by, step, step of the way to a NIC)."""
        n, here = len(self.system.gpus), order[-1]
        if self.system.inter and step == to_net:
            yield from self._exits(here, nics, step)
        elif self.wanted.pattern in ("nvls", "collnet_direct"):
            if here not in self.stars:
                star = self._star(here)
                open_ = all(self._allowed(way, inter=False) for way, _ in star)
                self.stars[here] = star if open_ else None
            ways = self.stars[here]
            if ways is not None and self._take_all(ways):
                yield tuple(ways), None, None, n, -1
        elif step < n - 1:
            speed = self.wanted.intra
            for gpu in self._next(order, nics, step, to_net, mode):
                way = self.ways[here][gpu]
                if self._allowed(way, inter=False) and self._take(way, speed):
                    yield ((way, speed),), gpu, None, step + 1, to_net
        elif step == self.to_first:
            way = self.ways[here][order[0]]
            if n == 1:
                yield (), None, None, n, -1
            elif self._allowed(way, inter=False) and self._take(way, self.wanted.intra):
                yield ((way, self.wanted.intra),), None, None, n, -1
        else:
            yield (), None, None, n, -1

    def _exits(
        self, here: int, nics: list[int], step: int
    ) -> Iterator[tuple[tuple[tuple[Way, int], ...], int | None, int | None, int, int]]:
        """The ways from a GPU back to a NIC."""
        wanted, system = self.wanted, self.system
        balanced = wanted.pattern == "balanced_tree"
        speed = wanted.inter // 2 if balanced else wanted.inter
        after = 1 if balanced and step == 0 else -1
        if len(system.gpus) == 1:
            after = -1
        for nic in system.nics_for(here, wanted.type_inter):
            if not self._nic_fits(nic, nics, step):
                continue
            way = system.way(system.gpus[here], system.nics[nic])
            back = system.way(system.nics[nic], system.gpus[here])
            if wanted.pattern in TREES and back.type > wanted.type_inter:
                continue
            if self._allowed(way, inter=True) and self._take(way, speed):
                yield ((way, speed),), None, nic, step, after

    def _nic_fits(self, nic: int, nics: list[int], step: int) -> bool:
        """ncclTopoSearchCheckNet, without rails and planes: a channel comes back on its own NIC."""
        wanted = self.wanted
        if wanted.pattern == "tree":
            return nic == nics[0]
        if wanted.pattern == "ring" and wanted.cross_nic == 2:
            return not len(self.orders) & 1 or nic == self.nics[-1][0]
        if wanted.cross_nic == 0 and nic != nics[0]:
            return False
        return not (wanted.pattern == "balanced_tree" and step != 0 and nic != nics[1])

    def _star(self, head: int) -> list[tuple[Way, int]]:
        """What a head takes: of NVLS to and from the switch, twice at the head; of CollNet to each GPU."""
        system, speed = self.system, self.wanted.intra
        names = system.gpus
        if self.wanted.pattern == "nvls":
            return [(system.to_switch, speed), (system.to_switch_of(head), speed)]
        share = round(speed / max(1, len(names) - 1))
        peers = [g for g in range(len(names)) if g != head]
        there = [(system.way(names[head], names[g]), share) for g in peers]
        return there + [(system.way(names[g], names[head]), share) for g in peers]

    def _next(
        self, order: list[int], nics: list[int], step: int, to_net: int, mode: str
    ) -> list[int]:
        """The GPUs to try next, the most promising first (ncclTopoSearchNextGpuSort)."""
        if mode == "pci":
            return [step + 1] if step + 1 not in order else []
        if mode == "replay":
            return [self.orders[-1][step + 1]]
        here = order[-1]
        if self.system.nvswitch:
            return [g for g in self._neighbours(here) if g not in order]
        back = 0 if to_net == -1 else 1 if to_net == step + 1 else -1
        ranked = self._by_score(here, nics[0] if back and nics else None)
        scored = [g for g in ranked if g not in order]
        if back != -1:
            return scored
        alike = len({self._score(here, g, None) for g in scored}) <= 1
        return scored[::-1] if alike else scored

    def _by_score(self, here: int, nic: int | None) -> list[int]:
        """All other GPUs, the best score first, of equals the next by number."""
        found = self.nearest_first.get((here, nic))
        if found is None:
            n = len(self.system.gpus)
            others = [(here + i) % n for i in range(1, n)]
            found = sorted(others, key=lambda g: self._score(here, g, nic))
            self.nearest_first[here, nic] = found
        return found

    def _score(self, here: int, gpu: int, nic: int | None) -> tuple[int, ...]:
        """The lower the better: near the NIC the channel is to end at, then near the GPU it is on."""
        system, way = self.system, self.ways[here][gpu]
        score = (-(way.MBps // 1000), len(way.links))
        if nic is None:
            return score
        out = system.way(system.nics[nic], system.gpus[gpu])
        return (-(out.MBps // 1000), len(out.links), *score)

    def _neighbours(self, here: int) -> list[int]:
        """On NVSwitches NCCL keeps to the neighbours by number."""
        found = self.nearest_first.get((here, None))
        if found is None:
            n = len(self.system.gpus)
            after, before = (here + 1) % n, (here - 1) % n
            first = {
                "ring": (before, after),
                "split_tree": (after, before),
                "balanced_tree": (after, before),
            }.get(self.wanted.pattern, (after,))
            # Each is put in front of the ones before it, as NCCL does: the last one is tried first.
            found = self.nearest_first[here, None] = list(dict.fromkeys(first))
        return found

    def _allowed(self, way: Way, *, inter: bool) -> bool:
        limit = self.wanted.type_inter if inter else self.wanted.type_intra
        return way.type < PathType.DIS and way.type <= limit

    def _take_all(self, ways: list[tuple[Way, int]]) -> bool:
        for i, (way, speed) in enumerate(ways):
            if not self._take(way, speed):
                for taken, rate in ways[:i]:
                    self._give(taken, rate)
                return False
        return True

    def _take(self, way: Way, speed: int) -> bool:
        """Take ``speed`` from every link of a path, or nothing where one has too little left."""
        left, links = self.system.left, way.links
        if not way.dear and way.back < 0:
            for i, link in enumerate(links):
                if left[link] < speed:
                    for taken in links[:i]:
                        left[taken] += speed
                    return False
                left[link] -= speed
        else:
            loads = self._loads(way, speed)
            for i, (link, load) in enumerate(loads):
                if left[link] < load:
                    for taken, given in loads[:i]:
                        left[taken] += given
                    return False
                left[link] -= load
        self.hops += len(links)
        return True

    def _give(self, way: Way, speed: int) -> None:
        left = self.system.left
        if not way.dear and way.back < 0:
            for link in way.links:
                left[link] += speed
        else:
            for link, load in self._loads(way, speed):
                left[link] += load
        self.hops -= len(way.links)

    @staticmethod
    def _loads(way: Way, speed: int) -> list[tuple[int, int]]:
        dear = way.dear or (False,) * len(way.links)
        loads = [(k, speed * 6 // 5 if d else speed) for k, d in zip(way.links, dear, strict=True)]
        return [*loads, (way.back, speed // 8)] if way.back >= 0 else loads
