"""NCCL's environment variables: what they do to the tuning and to the graph.

Values are checked as strictly as their meaning allows: NCCL itself takes most nonsense for a default and
says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from clusterlab.core.errors import UsageError
from clusterlab.cost.nccl.communicator import Communicator, PathName
from clusterlab.cost.nccl.nic_filter import NicFilter
from clusterlab.cost.nccl.selection import Selection, parse_selection
from clusterlab.cost.nccl.variables import (
    GRAPH_VARIABLES,
    TUNING_VARIABLES,
    is_nccl_variable,
)
from clusterlab.cost.nccl.words import NCCL_ALGORITHMS, NCCL_PROTOCOLS


@dataclass(frozen=True, slots=True)
class GraphOverrides:
    """What changes the graph that NCCL finds; None where the user says nothing.

    Levels are the farthest path still used (NCCL_P2P_LEVEL, NCCL_NET_GDR_LEVEL; LOC: none). ``net`` is
    NCCL_NET in small letters (``socket``, ``ib``, a plugin's name).
    """

    p2p_disable: bool | None = None
    p2p_level: PathName | None = None
    shm_disable: bool | None = None
    ib_disable: bool | None = None
    ib_hca: NicFilter | None = None
    net: str | None = None
    gdr_level: PathName | None = None
    gdr_c2c: bool | None = None
    cross_nic: int | None = None
    pxn_disable: bool | None = None
    mnnvl: bool | None = None
    nvls: bool | None = None

    @property
    def no_peer_access(self) -> bool:
        """Whether GPUs may not touch each other's memory at all."""
        return bool(self.p2p_disable) or self.p2p_level == "LOC"

    def with_peer_access(self) -> GraphOverrides:
        """The same on as many nodes, but GPUs reach each other as NCCL lets them."""
        mnnvl = False if self.no_peer_access else self.mnnvl
        return replace(self, p2p_disable=None, p2p_level=None, mnnvl=mnnvl)

    def unhindered(self) -> GraphOverrides:
        """The same without what moves the machine into another class of GPUs or network."""
        freed = self.with_peer_access()
        return replace(freed, ib_disable=None, net=None, gdr_level=None, gdr_c2c=None)


@dataclass(frozen=True, slots=True)
class Overrides:
    """The user's variables, read. Those whose effect a prediction leaves out are not here: ``remarks.py``."""

    algorithms: Selection = ()
    protocols: Selection = ()
    nvls: bool | None = None
    collnet: bool | None = None
    pat: bool | None = None
    ll128_c2c: bool = True
    min_channels: int | None = None
    max_channels: int | None = None
    min_ctas: int | None = None
    max_ctas: int | None = None
    nvls_channels: int | None = None
    min_message_channels: int | None = None
    max_message_channels: int | None = None
    net_peer_channels: int | None = None
    threads: int | None = None
    ll128_threads: int | None = None
    net_overhead_us: float | None = None
    thresholds: tuple[int, ...] = ()
    graph: GraphOverrides = GraphOverrides()

    def allows_algorithm(self, collective: str, algorithm: str) -> bool:
        """Whether NCCL_ALGO leaves ``algorithm``."""
        return all(algorithm in chosen for name, chosen in self.algorithms if name == collective)

    def allows_protocol(self, collective: str, protocol: str) -> bool | None:
        """Whether NCCL_PROTO leaves ``protocol``: then LL128 is on without its own conditions. None where
        it says nothing.
        """
        for name, chosen in self.protocols:
            if name == collective:
                return protocol in chosen
        return None

    @property
    def sets_channels(self) -> bool:
        """Whether the user has a say in how many channels a call gets."""
        return any(getattr(self, name) != own for name, own in _OWN_CHANNELS.items())

    def with_own_channels(self) -> Overrides:
        """The same where NCCL counts its channels and threads by itself."""
        return replace(self, **_OWN_CHANNELS)

    def thread_threshold(self, algorithm: str, protocol: str) -> int | None:
        """NCCL_THREAD_THRESHOLDS: bytes per thread of tree and ring by protocol, negative: default."""
        i = 3 * (algorithm == "ring") + list(NCCL_PROTOCOLS).index(protocol)
        asked = self.thresholds[i] if i < len(self.thresholds) else -1
        return asked if asked >= 0 else None


NO_OVERRIDES = Overrides()
_OWN_CHANNELS: Mapping[str, Any] = {
    name: getattr(NO_OVERRIDES, name)
    for name in (
        *("min_channels", "max_channels", "min_ctas", "max_ctas", "nvls_channels"),
        *("min_message_channels", "max_message_channels", "net_peer_channels"),
        *("threads", "ll128_threads", "thresholds"),
    )
}


def parse_overrides(variables: Mapping[str, str]) -> Overrides:
    """What ``variables`` (NCCL_… to text; others are ignored) do. Raises UsageError naming variable, value
    and what was expected.
    """
    return _parse(tuple(sorted((k, v) for k, v in variables.items() if is_nccl_variable(k))))


@lru_cache(maxsize=256)
def _parse(variables: tuple[tuple[str, str], ...]) -> Overrides:
    given = {name: text.strip() for name, text in variables if text.strip()}
    graph = _read(given, GRAPH_VARIABLES)
    known: dict[str, Any] = _read(given, TUNING_VARIABLES)
    if "NCCL_ALGO" in given:
        known["algorithms"] = parse_selection("NCCL_ALGO", given["NCCL_ALGO"], NCCL_ALGORITHMS)
    if "NCCL_PROTO" in given:
        known["protocols"] = parse_selection("NCCL_PROTO", given["NCCL_PROTO"], NCCL_PROTOCOLS)
    return _checked(Overrides(**known, graph=GraphOverrides(**graph, nvls=known.get("nvls"))))


def _read(
    given: Mapping[str, str], table: Mapping[str, tuple[str, Callable[[str, str], Any]]]
) -> dict[str, Any]:
    """Later variables of ``table`` win over earlier ones for the same field."""
    return {
        field: read(name, given[name]) for name, (field, read) in table.items() if name in given
    }


def _checked(overrides: Overrides) -> Overrides:
    """Minimum above maximum: NCCL then takes the minimum for CTAs; a mistake all the same."""
    least, most = overrides.min_ctas, overrides.max_ctas
    if least and most and least > most:
        raise UsageError(
            f"{least} is above NCCL_MAX_CTAS={most}",
            where="NCCL_MIN_CTAS",
            expected=f"at most {most}",
        )
    return overrides


def apply_overrides(comm: Communicator, overrides: Overrides) -> Communicator:
    """``comm`` as ``overrides`` leave it where they act on what it can do, not on its graphs' search.

    NCCL_NVLS_ENABLE=0 takes NVLS away, NCCL_COLLNET_ENABLE=0 CollNet; the rest acts inside the tuning.
    """
    dropped: set[str] = set()
    if overrides.nvls is False:
        comm, dropped = replace(comm, nvls=False), {"nvls"}
    if overrides.collnet is False:
        comm, dropped = replace(comm, collnet=False), dropped | {"collnet_direct", "collnet_chain"}
    if not dropped & set(comm.graphs):
        return comm
    return replace(comm, graphs={k: v for k, v in comm.graphs.items() if k not in dropped})
