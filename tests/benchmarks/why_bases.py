"""Healthy curves to put faults on: predictions as a site would have measured them, and published tables.

A prediction is not what a site measures. What lies between is drawn here: the site's own latency and rate,
a slow wander over the sizes, noise of each row, and now and then a row that is far off. Two healthy tables
of one class differ by 6.8 % over all sizes and by 1.0 % at the plateau (medians, 59 published tables);
predictions miss more than that, so more is drawn.
"""

from __future__ import annotations

import math
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from clusterlab.cost.scoring.choices import choice_of
from clusterlab.cost.scoring.measured import MeasuredPoint, read_measured
from clusterlab.cost.scoring.scored import predict_points

SIZES = tuple(8 << k for k in range(32))
"""8 B to 16 GiB."""


@dataclass(frozen=True, slots=True)
class Site:
    """Machines in a table's words, and the figures that the faults' physics needs.

    ``nic_GBps`` is one NIC's line rate in each direction; 0 and no ``nics`` on one node. ``pcie_GBps`` is
    what a GPU gets of its host. ``channel_GBps`` is what one of NCCL's thread blocks can move.
    """

    system: str
    gpu: str
    intra: str
    inter: str
    gpus: int
    nics: int
    nic_GBps: float
    pcie_GBps: float
    channel_GBps: float
    nvls: bool = False
    nodes: tuple[int, ...] = (1,)


_HOPPER = {"pcie_GBps": 52.0, "channel_GBps": 20.0, "nvls": True}
_AMPERE = {"pcie_GBps": 25.0, "channel_GBps": 12.0}
_BLACKWELL = {"pcie_GBps": 52.0, "channel_GBps": 36.0, "nvls": True}
_NV3 = "nvswitch3-900"

SITES = (
    Site("a100-ib", "A100-SXM4-80G", "nvswitch2-600", "8x200G IB HDR", 8, 8, 25.0,
         **_AMPERE, nodes=(1, 1, 2, 4, 8)),
    Site("a100-roce", "A100-SXM4-40G", "nvswitch2-600", "8x200G RoCE", 8, 8, 25.0,
         **_AMPERE, nodes=(2, 4)),
    Site("h100-ib", "H100-SXM-80G", _NV3, "8x400G IB NDR", 8, 8, 50.0,
         **_HOPPER, nodes=(1, 1, 2, 4, 8, 16)),
    Site("h100-roce", "H100-SXM-80G", _NV3, "8x400G RoCE", 8, 8, 50.0, **_HOPPER, nodes=(2, 4, 8)),
    Site("h200-ib", "H200-SXM", _NV3, "8x400G IB NDR", 8, 8, 50.0,
         **_HOPPER, nodes=(1, 1, 2, 4, 16)),
    Site("h200-efa", "H200-SXM", _NV3, "EFA 3200G (16x200G)", 8, 16, 25.0,
         **_HOPPER, nodes=(2, 4, 16)),
    Site("b200-ib", "B200", "nvswitch4-1800", "8x400G IB NDR", 8, 8, 50.0,
         **_BLACKWELL, nodes=(1, 1, 2, 4)),
    Site("mi300x-roce", "MI300X", "xgmi-mesh", "8x400G RoCE", 8, 8, 50.0, 52.0, 12.0,
         nodes=(1, 2, 4)),
    Site("gh200-cxi", "GH200-120G", "nvlink4-mesh", "4x200G Slingshot-11 (cxi)", 4, 4, 25.0,
         52.0, 20.0, nodes=(1, 2, 4, 8)),
    Site("h100-one", "H100-SXM-80G", "none", "1x400G IB NDR", 1, 1, 50.0, 52.0, 20.0,
         nodes=(2, 4)),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Base:
    """A healthy curve: ``points`` by ascending size, ``site`` with the figures, ``nodes`` of it in use.

    ``published`` names the table that was really measured so; empty for a drawn one.
    """

    points: tuple[MeasuredPoint, ...]
    site: Site
    nodes: int
    published: str = ""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bytes, of each row."""
        return tuple(p.size_bytes for p in self.points)

    @property
    def times_us(self) -> tuple[float, ...]:
        """Of each row."""
        return tuple(p.time_us for p in self.points)

    @property
    def ranks(self) -> int:
        """In all."""
        return self.points[0].n_ranks

    @property
    def per_node(self) -> int:
        """Ranks of a node."""
        return -(-self.ranks // self.nodes)

    @property
    def floor_us(self) -> float:
        """The least time."""
        return min(self.times_us)

    @property
    def has_floor(self) -> bool:
        """Whether small sizes were measured."""
        return self.sizes[0] <= 1024 and self.sizes[-1] >= 64 << 10

    @property
    def has_plateau(self) -> bool:
        """Whether large sizes were measured."""
        return self.sizes[-1] >= 512 << 20

    @property
    def plateau_GBps(self) -> float:
        """The largest busbw."""
        return max(p.busbw_GBps for p in self.points)


def drawn_base(draw: random.Random) -> Base:
    """A healthy curve of one of the sites, as a site of that kind might measure it."""
    site = draw.choice(SITES)
    nodes = draw.choice(site.nodes)
    ranks = (
        site.gpus * nodes if nodes > 1 else draw.choice([n for n in (2, 4, 8, 8) if n <= site.gpus])
    )
    collective = draw.choice(
        ["all_reduce"] * 5 + ["all_gather", "reduce_scatter", "all_to_all", "broadcast"]
    )
    predicted = _predicted(site, nodes, ranks, collective)
    first, last = draw.choice([(0, 31), (0, 31), (0, 28), (7, 30), (0, 26)])
    chosen = predicted[first : last + 1]
    points = _measured_like(draw, chosen, both_ways=draw.random() < 0.5)
    return Base(points, site, nodes)


@cache
def _predicted(site: Site, nodes: int, ranks: int, collective: str) -> tuple[MeasuredPoint, ...]:
    """What the model says, as points."""
    asked = [
        MeasuredPoint(
            table="",
            system=site.system,
            gpu=site.gpu,
            n_nodes=nodes,
            gpus_per_node=site.gpus,
            n_ranks=ranks,
            intra_fabric=site.intra,
            inter_fabric=site.inter if nodes > 1 else "none",
            collective=collective,
            dtype="float32",
            in_place=False,
            size_bytes=size,
            time_us=1.0,
            nccl_version="",
            algo="",
            proto="",
            published=False,
            line=0,
            samples=1,
        )
        for size in SIZES
    ]
    found = []
    for one in predict_points(asked):
        assert one.predicted_us is not None, one.reason
        found.append(replace(one.point, time_us=one.predicted_us))
    return tuple(found)


def _measured_like(
    draw: random.Random, points: Sequence[MeasuredPoint], *, both_ways: bool
) -> tuple[MeasuredPoint, ...]:
    """``points`` with a site's own latency and rate, a wander over the sizes, and noise of each row."""
    latency, rate = 0.08 * _tailed(draw), 0.015 * _tailed(draw)
    small_noise, noise = draw.uniform(0.01, 0.03), draw.uniform(0.002, 0.008)
    wander = 0.0
    rows = []
    for i, point in enumerate(points):
        kept = math.exp(-1 / 4)  # a wander of four doublings of the size
        wander = kept * wander + math.sqrt(1 - kept**2) * draw.gauss(0, 1)
        # How far the size is on the way from the floor to the plateau, by size alone.
        plateau = 1 / (1 + (8 << 20) / point.size_bytes)
        shift = (1 - plateau) * (latency + 0.05 * wander) + plateau * (rate + 0.008 * wander)
        sigma = (1 - plateau) * small_noise + plateau * noise
        for in_place in (False, True) if both_ways else (False,):
            factor = math.exp(shift + draw.gauss(0, sigma))
            if draw.random() < 0.006:
                factor *= draw.uniform(1.3, 3.0)
            rows.append(
                replace(point, time_us=point.time_us * factor, in_place=in_place, line=2 + i)
            )
    return tuple(rows)


def _tailed(draw: random.Random) -> float:
    """Student's t with four degrees of freedom, to unit scale: some sites are far off."""
    return draw.gauss(0, 1) / math.sqrt(sum(draw.gauss(0, 1) ** 2 for _ in range(4)) / 4)


def published_bases(shared: Path | None) -> list[Base]:
    """The healthy tables of the published file in ``shared`` that have ten sizes and a known machine."""
    if shared is None:
        return []
    file = shared / "measured" / "published_nccl_tests.csv"
    if not file.is_file():
        return []
    tables: defaultdict[str, list[MeasuredPoint]] = defaultdict(list)
    for point in read_measured(file).points:
        tables[point.table].append(point)
    return list(_usable(tables.values()))


def _usable(tables: Iterable[list[MeasuredPoint]]) -> Iterator[Base]:
    for rows in tables:
        ordered = tuple(sorted(rows, key=lambda p: (p.size_bytes, bool(p.in_place))))
        site = _site_of(ordered[0])
        if site is None or len({p.size_bytes for p in ordered}) < 10:
            continue
        if predict_points(ordered[:1])[0].predicted_us is None:
            continue
        yield Base(ordered, site, ordered[0].n_nodes or 1, published=ordered[0].table)


def _site_of(point: MeasuredPoint) -> Site | None:
    """The figures of a published table's machines, of its words; None where they do not say enough."""
    like = next((s for s in SITES if s.gpu.split("-")[0] == point.gpu.split("-")[0]), None)
    nodes = point.n_nodes or 1
    said = re.search(r"(\d+)x(\d+)G", point.inter_fabric)
    if like is None or choice_of(point.algo, point.proto).variables or (nodes > 1 and said is None):
        return None
    count, Gbps = (int(said.group(1)), int(said.group(2))) if said else (0, 0)
    return replace(
        like,
        system=point.system,
        gpus=point.gpus_per_node or like.gpus,
        nics=count,
        nic_GBps=Gbps / 8,
        nodes=(nodes,),
    )
