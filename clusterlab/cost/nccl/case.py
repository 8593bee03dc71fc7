"""One group's communicator with everything of a prediction that does not depend on the size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clusterlab.core.collectives import collective as named
from clusterlab.cost.calibrated.calibration import SystemCalibration, calibrated_table
from clusterlab.cost.calibrated.correction import NONE, Correction
from clusterlab.cost.calibrated.machine import OtherMachineError, machine_of, same
from clusterlab.cost.effects.constants import Effects, shipped_effects
from clusterlab.cost.effects.features import Features, features, message_features, with_bytes
from clusterlab.cost.effects.formula import time_us
from clusterlab.cost.estimate import Group
from clusterlab.cost.nccl.beyond_nics import BeyondNics, beyond_nics
from clusterlab.cost.nccl.communicator import NEWEST, Communicator
from clusterlab.cost.nccl.entry import Cell
from clusterlab.cost.nccl.graphs import communicator
from clusterlab.cost.nccl.hindered import SocketShares, hindered_effects, socket_shares
from clusterlab.cost.nccl.narrowed import message_slowdown, slowdown
from clusterlab.cost.nccl.overrides import (
    GraphOverrides,
    Overrides,
    apply_overrides,
    parse_overrides,
)
from clusterlab.cost.recall import recalled_groups
from clusterlab.cost.types import PredictRequest

_BY_SWITCH = ("nvls", "nvls_tree")


@dataclass(frozen=True, slots=True)
class Case:
    """``beyond`` is what the network behind the NICs leaves of their rate, ``sockets`` what TCP leaves of it.

    ``plain`` is the communicator without the variables that take paths away, ``with_peers`` without those
    that take peer access: NVLS goes by the NVSwitches' multicast and needs none. ``source`` says where
    the constants come from, ``calibrated`` that it is no class, ``correction`` what was found besides.
    """

    collective: str
    comm: Communicator
    plain: Communicator
    with_peers: Communicator
    overrides: Overrides
    dtype: str
    op: str
    effects: Effects
    effects_with_peers: Effects
    beyond: BeyondNics
    sockets: SocketShares
    source: str
    calibrated: bool = False
    correction: Correction = NONE

    def comm_of(self, algorithm: str) -> Communicator:
        """The communicator as ``algorithm`` moves bytes on it."""
        return self.with_peers if algorithm in _BY_SWITCH else self.comm

    def effects_of(self, algorithm: str) -> Effects:
        """The constants of ``algorithm``'s communicator."""
        return self.effects_with_peers if algorithm in _BY_SWITCH else self.effects

    def nic_share(self, algorithm: str) -> float:
        """Share that is left of the NICs' rate."""
        return self.beyond.of(algorithm).share * self.sockets.nics

    def share_of(self, algorithm: str) -> float:
        """Share that is left of the rate at which ``algorithm``'s bytes between hosts are counted: of its
        channels' for a ring or tree, of the NICs' for others.
        """
        if algorithm in ("ring", "tree"):
            return self.beyond.of(algorithm).share * self.sockets.channels
        return self.nic_share(algorithm)

    def features(self, algorithm: str, protocol: str, size_bytes: float) -> Features:
        """One size of a collective that NCCL has a model for, as the formula sees it."""
        comm = self.comm_of(algorithm)
        point = features(
            comm, self.collective, algorithm, protocol, size_bytes, share=self.share_of(algorithm)
        )
        factor = slowdown(
            Cell(self.collective, algorithm, protocol), size_bytes, self.comm, self.overrides
        )
        return point if factor == 1.0 else with_bytes(point, factor)

    def message_features(self, size_bytes: float, wire_us: float) -> Features:
        """The same of all_to_all, send_recv and send, whose bytes take ``wire_us`` at the links' rate."""
        point = message_features(self.comm, self.collective, size_bytes, wire_us)
        factor = message_slowdown(self.collective, self.comm, self.overrides)
        return point if factor == 1.0 else with_bytes(point, factor)

    def time_us(self, algorithm: str, protocol: str, size_bytes: float) -> float:
        """µs by the formula, before the rules of ``predict``."""
        point = self.features(algorithm, protocol, size_bytes)
        return float(time_us(point, self.effects_of(algorithm))) * self.correction.at(size_bytes)

    def message_us(self, size_bytes: float, wire_us: float) -> float:
        """The same of all_to_all, send_recv and send."""
        point = self.message_features(size_bytes, wire_us)
        return float(time_us(point, self.effects)) * self.correction.at(size_bytes)


def made_case(request: PredictRequest, name: str, group: Group, groups: Sequence[Group]) -> Case:
    """Of ``group``, which runs beside the other ``groups``, with the request's variables applied. Raises
    UsageError for variables, GPUs or networks that NCCL could not run with.
    """
    which = groups.index(group)
    variables = tuple(sorted(request.overrides.items()))
    forced = (request.library_version, variables, request.routing, request.calibration)
    return recalled_groups(
        request.fabric,
        ("case", name, which, forced, request.dtype, request.op),
        [g.devices for g in groups],
        lambda _: _made_case(request, name, groups, which),
    )


def _made_case(request: PredictRequest, name: str, groups: Sequence[Group], which: int) -> Case:
    group = groups[which]
    ranks, devices = group.ranks, group.devices
    overrides = parse_overrides(request.overrides)
    measured = request.calibration
    calibration = measured if isinstance(measured, SystemCalibration) else None
    version = version_of(request)

    def made(asked: GraphOverrides) -> Communicator:
        found = communicator(request.fabric, ranks, devices, version=version, overrides=asked)
        return apply_overrides(found, overrides)

    asked = overrides.graph
    comm = made(asked)
    free, peers = asked.unhindered(), asked.with_peer_access()
    plain = comm if free == asked else made(free)
    with_peers = comm if peers == asked else made(peers)
    if calibration is not None:
        _check_machine(calibration, request, devices[0], plain)
    table = shipped_effects() if calibration is None else calibrated_table(calibration)
    effects = hindered_effects(table, comm, plain)
    return Case(
        collective=name,
        comm=comm,
        plain=plain,
        with_peers=with_peers,
        overrides=overrides,
        dtype=request.dtype,
        op=request.op or "sum",
        effects=effects,
        effects_with_peers=hindered_effects(table, with_peers, plain),
        beyond=beyond_nics(
            request.fabric, name, [g.devices for g in groups], which, request.routing
        )
        if comm.nodes > 1
        else BeyondNics(),
        sockets=socket_shares(comm, plain, effects),
        source=table.source,
        calibrated=calibration is not None,
        correction=NONE if calibration is None else calibration.correction(name),
    )


def version_of(request: PredictRequest) -> str:
    """The release that chooses: the one asked for, else the newest that was calibrated, else the newest."""
    measured = request.calibration
    known = measured.newest_version if isinstance(measured, SystemCalibration) else None
    return request.library_version or known or NEWEST


def _check_machine(
    calibration: SystemCalibration, request: PredictRequest, device: str, comm: Communicator
) -> None:
    machine = machine_of(request.fabric, device, comm)
    if not same(calibration.machine, machine):
        raise OtherMachineError(
            f"made on another system: {calibration.system} ({calibration.machine})",
            where=calibration.path or "calibration",
            expected=f"{request.fabric.name} ({machine})",
            fix="calibrate from measurements of this one, or predict on the fabric it was made on",
        )


def case_of(request: PredictRequest) -> Case:
    """Of the request's first group."""
    groups = groups_of(request)
    return made_case(request, named(request.collective).name, groups[0], groups)


def groups_of(request: PredictRequest) -> list[Group]:
    """The request's groups on their devices."""
    return [
        Group(ranks, tuple(r.device or "" for r in ranks), request.root or 0)
        for ranks in request.groups
    ]
