"""What the reader must know of a prediction: variables that do not count in it or act oddly, NVLS, routing.

One sentence a variable, its name first. A variable that acts and does no more than its name says is silent
here; ``--explain`` tells what each of them changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from clusterlab.cost.nccl.case import Case
from clusterlab.cost.nccl.channels import (
    communicator_channels,
    max_threads,
    message_channels,
    nvls_channels,
)
from clusterlab.cost.nccl.constants import constants_for
from clusterlab.cost.nccl.entry import setting_of
from clusterlab.cost.nccl.graphs.transports import VERBS
from clusterlab.cost.nccl.hindered import SOCKETS_GBps, over_sockets
from clusterlab.cost.nccl.overrides import Overrides
from clusterlab.cost.nccl.selection import parse_selection
from clusterlab.cost.nccl.variables import (
    GRAPH_VARIABLES,
    SELECTIONS,
    TUNING_VARIABLES,
    is_nccl_variable,
)
from clusterlab.cost.nccl.words import COLLECTIVES, GATHERS, NCCL_ALGORITHMS
from clusterlab.cost.types import PredictRequest
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Device
from clusterlab.topology.routing.nics import links_out

_BY_NVLS = ("all_reduce", *GATHERS)
_KNOWN = (*TUNING_VARIABLES, *GRAPH_VARIABLES, *SELECTIONS)


@dataclass(frozen=True, slots=True)
class _Set:
    """A variable with its text, and what it was set for: a call by ``algorithm``, hosts with ``nics``."""

    name: str
    text: str
    case: Case
    algorithm: str
    nics: Sequence[Device]

    @property
    def several(self) -> bool:
        return self.case.comm.nodes > 1

    @property
    def transport(self) -> str:
        network = self.case.comm.network
        return network.transport if network is not None else ""

    @property
    def messages(self) -> bool:
        return self.case.collective not in COLLECTIVES

    @property
    def by_switch(self) -> bool:
        return self.algorithm in ("nvls", "nvls_tree")

    def uncounted(self, why: str = "") -> str:
        return f"{self.name} is set; the prediction does not count it" + (f": {why}" if why else "")

    def both(self) -> tuple[Overrides, Overrides]:
        """The user's variables, and those with NCCL's own channels and threads."""
        return self.case.overrides, self.case.overrides.with_own_channels()


def remarks(request: PredictRequest, case: Case, algorithm: str) -> tuple[str, ...]:
    """Of the variables of ``request`` for a call that goes by ``algorithm``."""
    fabric = request.fabric
    host = fabric.host_of(request.groups[0][0].device or "")
    nics = fabric.on_host(host, "nic") if host is not None and case.comm.nodes > 1 else ()
    found = list(_of_variables(request.overrides, case, algorithm, nics))
    if _without_multicast(fabric, case):
        found.append("NVLS is ruled out: no NVSwitch of the fabric multicasts (in_network: true)")
    network = case.comm.network
    if network is not None and not any(links_out(fabric, d.name) for d in nics):
        found.append(
            f"no cables of NICs are described: each carries what its model does, {network.nic_GBps:g} GB/s"
        )
    if network is not None and request.routing == "adaptive" and _hashes(fabric):
        found.append(
            "switches are taken to spread over all equal ways; --routing hash: what ECMP leaves"
        )
    return tuple(found)


def _without_multicast(fabric: Fabric, case: Case) -> bool:
    """Whether NVLS is left out for nothing but that the fabric does not say that its NVSwitches multicast."""
    comm, asked = case.comm, case.overrides
    hopper = comm.library == "nccl" and (comm.compute_capability or 0) >= 90
    if not hopper or not comm.nvswitch or comm.ranks_per_node < 2 or asked.nvls is False:
        return False
    algorithms = constants_for(comm.version, comm.library).rules["algorithms"]
    if comm.nvls or "nvls" not in algorithms or case.collective not in _BY_NVLS:
        return False
    parts = (fabric.single_devices, *(group.items for group in fabric.equal_hosts))
    return not any(d.kind == "nvswitch" and d.in_network for part in parts for d in part)


def _hashes(fabric: Fabric) -> bool:
    """Whether flows have several ways through Ethernet switches, which usually hash."""
    if "several ways by hash" not in fabric.memo:
        spines = {d.name for d in fabric.network_devices if d.kind in ("spine", "core")}
        fabric.memo["several ways by hash"] = any(
            k.link_class == "ethernet" and (k.src in spines or k.dst in spines)
            for k in fabric.network_links
        )
    found: bool = fabric.memo["several ways by hash"]
    return found


def _of_variables(
    variables: Mapping[str, str], case: Case, algorithm: str, nics: Sequence[Device]
) -> Iterator[str]:
    for name, text in sorted(variables.items()):
        if not text.strip() or not is_nccl_variable(name):
            continue
        one = _Set(name, text.strip(), case, algorithm, nics)
        if name in _REMARKS:
            said = _REMARKS[name](one)
            if said:
                yield said
        elif name not in _KNOWN:
            yield one.uncounted()


def _selection(one: _Set) -> str | None:
    """NCCL_ALGO and NCCL_PROTO: no choice to make for messages, and what leaves nothing in RCCL."""
    case, library = one.case, one.case.comm.library.upper()
    if one.messages:
        return one.uncounted(f"{library} has no choice of algorithms for {case.collective}")
    if one.name != "NCCL_ALGO":
        return None
    chosen = dict(parse_selection(one.name, one.text, NCCL_ALGORITHMS)).get(case.collective)
    if chosen is None or one.algorithm in chosen:
        return None
    version = f"{library} {constants_for(case.comm.version, case.comm.library).version}"
    return f"{one.name}={one.text} leaves nothing for {case.collective}; {version} takes {one.algorithm}"


def _no_peers(one: _Set) -> str | None:
    if not one.case.overrides.graph.no_peer_access or not one.by_switch:
        return None
    return (
        f"{one.name}={one.text} does not take NVLS away, which needs no peer access; "
        "NCCL_NVLS_ENABLE=0 does"
    )


def _no_shared_memory(one: _Set) -> str | None:
    comm = one.case.comm
    if not one.case.overrides.graph.shm_disable or not comm.host_memory:
        return None
    return one.uncounted("GPUs without peer access would go by the network")


def _no_verbs(one: _Set) -> str | None:
    if not one.several or not one.case.overrides.graph.ib_disable:
        return None
    if over_sockets(one.case.comm, one.case.plain):
        return _sockets(one)
    own = one.transport
    return f"{one.name}={one.text} reaches NCCL's own transport, not the plugin for {own}"


def _net(one: _Set) -> str | None:
    if not one.several:
        return None
    if over_sockets(one.case.comm, one.case.plain):
        return _sockets(one)
    known = {"socket": ("tcp",), "ib": VERBS}.get(one.text.lower(), ())
    if one.transport in known:
        return None
    return one.uncounted(f"the NICs speak {one.transport}")


def _sockets(one: _Set) -> str:
    return (
        f"{one.name}={one.text}: TCP over the same NICs, at most {SOCKETS_GBps:g} GB/s a rank each way; "
        "a management network may be slower"
    )


def _nics(one: _Set) -> str | None:
    here, own = one.case.comm.network, one.case.overrides.graph.ib_hca
    if here is None or own is None:
        return None
    if here.transport not in VERBS:
        return one.uncounted(f"the NICs speak {here.transport}")
    known = any(own.allows(d) for d in one.nics)
    return None if known else one.uncounted("no NIC of the fabric is called so")


def _interfaces(one: _Set) -> str | None:
    return one.uncounted() if one.several and one.transport == "tcp" else None


def _plugin(one: _Set) -> str | None:
    return one.uncounted() if one.several else None


def _no_pxn(one: _Set) -> str | None:
    comm, off = one.case.comm, one.case.overrides.graph.pxn_disable
    relayed = one.case.collective == "all_to_all" and comm.nodes not in (1, comm.ranks)
    if not off or not relayed:
        return None
    return one.uncounted("messages to other rails would cross the spines")


def _collnet(one: _Set) -> str | None:
    comm, asked = one.case.comm, one.case.overrides.collnet
    if not asked or not one.several or comm.collnet:
        return None
    return f"{one.name}={one.text} changes nothing: no leaf of the fabric reduces in the network"


def _most_channels(one: _Set) -> str | None:
    if not one.by_switch:
        return None
    count = nvls_channels(setting_of(one.case.with_peers, one.case.overrides))
    return (
        f"{one.name}={one.text} does not bound NVLS, which has {count} channels of its own "
        "(NCCL_MAX_CTAS, NCCL_NVLS_NCHANNELS)"
    )


def _more_channels(one: _Set) -> str | None:
    """Of variables that may raise a number above NCCL's own."""
    asked, own = (_count(one, overrides) for overrides in one.both())
    if asked <= own:
        return None
    return f"{one.name}={one.text}: {asked} channels instead of {own} are counted as no faster"


def _count(one: _Set, overrides: Overrides) -> int:
    if one.messages:
        channels = message_channels(setting_of(one.case.comm, overrides))
        return channels.all if one.case.collective == "all_to_all" else channels.each
    setting = setting_of(one.case.comm_of(one.algorithm), overrides)
    return nvls_channels(setting) if one.by_switch else communicator_channels(setting)


def _message_channels(one: _Set) -> str | None:
    return _more_channels(one) if one.messages else None


def _threads(one: _Set) -> str | None:
    if one.messages or one.by_switch:
        return None
    asked, own = (
        [
            max_threads(one.algorithm, p, setting_of(one.case.comm, o))
            for p in ("ll", "ll128", "simple")
        ]
        for o in one.both()
    )
    return one.uncounted() if asked != own else None


def _thresholds(one: _Set) -> str | None:
    return None if one.messages or one.by_switch else one.uncounted()


_REMARKS: Mapping[str, Callable[[_Set], str | None]] = {
    "NCCL_ALGO": _selection,
    "NCCL_PROTO": _selection,
    "NCCL_P2P_DISABLE": _no_peers,
    "NCCL_P2P_LEVEL": _no_peers,
    "NCCL_SHM_DISABLE": _no_shared_memory,
    "NCCL_IB_DISABLE": _no_verbs,
    "NCCL_NET": _net,
    "NCCL_IB_HCA": _nics,
    "NCCL_SOCKET_IFNAME": _interfaces,
    "NCCL_SOCKET_NTHREADS": _interfaces,
    "NCCL_NSOCKS_PERTHREAD": _interfaces,
    "NCCL_NET_PLUGIN": _plugin,
    "NCCL_PXN_DISABLE": _no_pxn,
    "NCCL_COLLNET_ENABLE": _collnet,
    "NCCL_MAX_NCHANNELS": _most_channels,
    "NCCL_MAX_NRINGS": _most_channels,
    "NCCL_MIN_NCHANNELS": _more_channels,
    "NCCL_MIN_NRINGS": _more_channels,
    "NCCL_MIN_CTAS": _more_channels,
    "NCCL_NVLS_NCHANNELS": _more_channels,
    "NCCL_MIN_P2P_NCHANNELS": _message_channels,
    "NCCL_NCHANNELS_PER_NET_PEER": _message_channels,
    "NCCL_NTHREADS": _threads,
    "NCCL_LL128_NTHREADS": _threads,
    "NCCL_THREAD_THRESHOLDS": _thresholds,
}
