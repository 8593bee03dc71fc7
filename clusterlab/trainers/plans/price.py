"""What a planned call takes on a fabric: asked of the cost room, all groups of its axis at once. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from clusterlab.core.placement import Placement, RankPlacement
from clusterlab.core.stepping import P2P
from clusterlab.cost.predict import predict
from clusterlab.cost.types import Prediction, PredictRequest
from clusterlab.trainers.config import MeshConfig, Setup
from clusterlab.trainers.mesh import groups_of, place_of, rank_of
from clusterlab.trainers.plans.plan import PlannedCall

Groups = tuple[tuple[RankPlacement, ...], ...]


@dataclass(frozen=True, slots=True)
class Site:
    """Where a run is: every rank's place, on the fabric of ``template``, whose backend, way of issuing calls,
    release and variables are those of all requests; its groups, collective and size are not read.
    """

    template: PredictRequest
    placement: Placement


@dataclass(frozen=True, slots=True)
class Priced:
    """A call and its prediction, of one of its ``call.count``."""

    call: PlannedCall
    prediction: Prediction

    @property
    def each_us(self) -> float:
        """One call."""
        return self.prediction.time_us

    @property
    def total_us(self) -> float:
        """All of a step's, one after the other."""
        return self.call.count * self.prediction.time_us


class Prices:
    """Of calls of one run on one site; each kind is asked for once."""

    def __init__(self, setup: Setup, site: Site) -> None:
        self._mesh, self._site = setup.mesh, site
        self._groups: dict[object, Groups] = {}
        self._known: dict[object, Prediction] = {}

    def of(self, calls: Iterable[PlannedCall], rank: int) -> tuple[Priced, ...]:
        """Of ``rank``'s ``calls``."""
        return tuple(Priced(call, self._predicted(call, rank)) for call in calls)

    def _predicted(self, call: PlannedCall, rank: int) -> Prediction:
        boundary = _boundary(call, rank, self._mesh) if call.op in P2P else None
        where = (call.axis, boundary)
        key = (*where, "send_recv" if call.op in P2P else call.op, call.size_bytes, call.dtype)
        if key not in self._known:
            self._known[key] = predict(
                replace(
                    self._site.template,
                    groups=self._placed(call.axis, boundary),
                    collective=str(key[2]),
                    size_bytes=max(1, call.size_bytes),  # nobody may have a token to send
                    dtype=call.dtype,
                    root=0 if call.op == "broadcast" else None,
                    op="sum" if call.op in ("all_reduce", "reduce_scatter") else None,
                )
            )
        return self._known[key]

    def _placed(self, axis: str, boundary: int | None) -> Groups:
        """The same tuple for the same groups: what the fabric remembers of them goes by that."""
        key = (axis, boundary)
        if key not in self._groups:
            mesh, ranks = self._mesh, self._site.placement.ranks
            groups = groups_of(axis, mesh) if boundary is None else _pairs(boundary, mesh)
            placed = tuple(tuple(ranks[r] for r in group) for group in groups)
            self._groups[key] = _each_kind_once(self._site, placed)
        return self._groups[key]


def _each_kind_once(site: Site, groups: Groups) -> Groups:
    """Where no group leaves its host, those on one host of each kind: hosts do not slow each other down."""
    by_host: dict[str, list[tuple[RankPlacement, ...]]] = defaultdict(list)
    for group in groups:
        if len({rank.host for rank in group}) > 1:
            return groups
        by_host[group[0].host].append(group)
    fabric = site.template.fabric
    ends = ((fabric.host_of(link.src), fabric.host_of(link.dst)) for link in fabric.single_links)
    changed = {source for source, target in ends if source == target}
    found: dict[object, list[tuple[RankPlacement, ...]]] = {}
    for host, own in by_host.items():
        kind = host if host in changed else fabric.template_of(host)
        places = tuple(tuple(_local(rank) for rank in group) for group in own)
        found.setdefault((kind, places), own)
    return tuple(group for own in found.values() for group in own)


def _local(rank: RankPlacement) -> str:
    return (rank.device or "").removeprefix(f"{rank.host}/")


def _boundary(call: PlannedCall, rank: int, mesh: MeshConfig) -> int:
    """The place along ``pp`` before the two that share the call. A send in forward and a receive in backward
    are with the next place; handshakes are with both, and one stands for both.
    """
    own = place_of(rank, mesh).pp
    if call.phase not in ("forward", "backward"):
        return min(own, mesh.pp - 2)
    onwards = (call.op == "send") == (call.phase == "forward")
    return own if onwards else (own - 1) % mesh.pp


def _pairs(boundary: int, mesh: MeshConfig) -> list[tuple[int, ...]]:
    """All that send each other at this place: one pair for every rank of a stage."""
    after = (boundary + 1) % mesh.pp
    return [
        (rank_of(dp, tp, boundary, mesh), rank_of(dp, tp, after, mesh))
        for dp in range(mesh.dp)
        for tp in range(mesh.tp)
    ]
