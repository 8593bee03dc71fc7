"""A hunt as it was typed, and the field that its ranks make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from clusterlab.core.errors import NoVerdictError, UsageError
from clusterlab.core.placement import Placement
from clusterlab.core.sizes import parse_size
from clusterlab.cost.routing import named_routing, routing_of
from clusterlab.runs.hunting.localise import whole_rates
from clusterlab.runs.local_ranks import backend_here, check_typed
from clusterlab.runs.probing.soak import seconds
from clusterlab.runs.sweeping.predicting import Model
from clusterlab.topology.design.load import list_designs
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.failures.breaking import break_fabric
from clusterlab.topology.match import matching_design, place_like
from clusterlab.topology.opening import open_fabric
from clusterlab.topology.routing.network import has_network, network_of
from clusterlab.topology.routing.path_types import nic_of
from clusterlab.verdict.localise.cabling import Field, field_of
from clusterlab.verdict.localise.star import star
from clusterlab.verdict.localise.types import Probe, Round

_SIZES = {"gloo": "1M", "nccl": "64M"}
_CALLS = {"gloo": 5, "nccl": 20}


@dataclass(frozen=True, slots=True)
class HuntConfig:
    """One hunt, fully resolved: what run.json keeps. ``calls`` messages of ``size_bytes`` are timed of each
    pair in a round; one that does not arrive within ``deadline_s`` failed.
    """

    backend: str
    fabric: str | None
    routing: str | None
    budget_s: float
    rounds: int
    size_bytes: int
    calls: int
    deadline_s: float
    sure: float

    def to_json(self) -> dict[str, Any]:
        """Plain data for run.json."""
        return {"measures": "hunt", **asdict(self)}


def resolve_hunt(
    *,
    backend: str,
    fabric: str | None,
    routing: str | None,
    budget: str,
    rounds: int,
    size: str | None,
    calls: int | None,
    deadline_s: float,
    sure: float,
) -> HuntConfig:
    """The hunt that was typed. Raises UsageError naming the option."""
    check_typed(None, backend)
    here = backend_here(backend)
    size_bytes = parse_size(size or _SIZES[here], where="-b")
    for value, where, expected in (
        (0 < deadline_s < 1e6, "--deadline", "seconds above 0"),
        (0.5 <= sure < 1, "--sure", "a probability from 0.5 to below 1"),
        (rounds > 0, "--rounds", "at least 1"),
        (size_bytes > 0, "-b", "at least 1 byte"),
        (calls is None or calls > 0, "-n", "at least 1"),
    ):
        if not value:
            raise UsageError("cannot be", where=where, expected=expected)
    if routing is not None:
        named_routing(routing)
    if fabric is not None:
        open_fabric(fabric)  # what cannot be read is said before ranks are started
    return HuntConfig(
        here,
        fabric,
        routing,
        seconds(budget, "--budget"),
        rounds,
        size_bytes,
        calls or _CALLS[here],
        deadline_s,
        sure,
    )


def check_one_host(backend: str) -> None:
    """Raise NoVerdictError where ranks of a single host are nothing to hunt on."""
    if backend == "gloo":
        raise NoVerdictError(
            "all ranks are on one host and share its cores: what is slow there changes from call to call",
            fix="start it over several hosts, or with GPUs",
        )


@dataclass(frozen=True, slots=True)
class Said:
    """What a rank says before a hunt: the interface it sends by (None: the library chooses), and of each port
    of its host whether it is up.
    """

    interface: str | None
    ports: Mapping[str, bool]


@dataclass(frozen=True, slots=True)
class Ready:
    """What to hunt on. ``ports``: network node → what its host calls it. ``model`` is for the run's files,
    ``known`` whether the fabric is a real one.
    """

    field: Field
    first: tuple[Round, ...]
    ports: Mapping[int, str]
    model: Model
    known: bool


def ready(config: HuntConfig, placement: Placement, said: Sequence[Said]) -> Ready:
    """The field of these ranks. Raises UsageError for a fabric that is too small, NoVerdictError where there
    is nothing to compare.
    """
    if len(placement.hosts) == 1:
        check_one_host(config.backend)
    fabric = _fabric(config, placement)
    known = fabric is not None
    fabric = whole_rates(fabric) if fabric is not None else star(placement)
    placed = place_like(fabric, placement)
    routing = routing_of(fabric, config.backend, config.routing)
    hosts = [fabric.host_of(str(r.device)) or "" for r in placed.ranks]
    ports = _ports(fabric, hosts, said)
    down = [name for (name, _), up in ports.items() if not up]
    # A library uses no port that is down: such a rank's messages go by another NIC of its host.
    seen = break_fabric(fabric, down) if down else fabric
    nics = [
        _nic_called(fabric, host, one.interface) or nic_of(seen, str(rank.device))
        for host, one, rank in zip(hosts, said, placed.ranks, strict=True)
    ]
    one_way = config.backend == "gloo"  # both ways in turn: two messages
    field = field_of(fabric, placed, routing, nics=nics, one_way=one_way)
    network = network_of(fabric)
    looked_at = {network.index[name]: local for (name, local), _ in ports.items()}
    first_rank = {host: hosts.index(host) for host in dict.fromkeys(hosts)}
    firsts = list(first_rank.values())
    of_hosts = tuple(Probe("host", (r,)) for r in firsts) + tuple(
        Probe("clock", (r,)) for r in firsts
    )
    of_ports = tuple(
        Probe("port", (first_rank[fabric.host_of(network.nodes[node]) or ""], node))
        for node in looked_at
    )
    first = tuple(r for r in (of_hosts, of_ports) if r)
    model = Model(placement, config.backend, fabric if known else None, placed if known else None)
    return Ready(field, first, looked_at, model, known)


def _fabric(config: HuntConfig, placement: Placement) -> Fabric | None:
    name = config.fabric
    if name is None and config.backend == "nccl":
        gpus = {r.gpu_name for r in placement.ranks}
        most = max(sum(r.host == h for r in placement.ranks) for h in placement.hosts)
        only = next(iter(gpus)) if len(gpus) == 1 else None
        name = matching_design(only, len(placement.hosts), most) if only else None
    if name is None:
        return None
    fabric = open_fabric(name)
    if not has_network(fabric):
        if config.fabric is not None and len(placement.hosts) > 1:
            raise UsageError(
                "has no switches, so nothing joins its hosts",
                where=f"--fabric {name}",
                expected=f"a fabric with a network, such as {', '.join(list_designs()[:3])}",
            )
        return None
    return fabric


def _ports(
    fabric: Fabric, hosts: Sequence[str], said: Sequence[Said]
) -> dict[tuple[str, str], bool]:
    """(NIC on a switch, what its host calls it) → whether it is up."""
    cabled = network_of(fabric).index
    found: dict[tuple[str, str], bool] = {}
    for host, one in zip(hosts, said, strict=True):
        for nic in fabric.on_host(host, "nic"):
            for name in (nic.interface, nic.name.partition("/")[2]):
                if name in one.ports and nic.name in cabled:
                    found.setdefault((nic.name, str(name)), one.ports[str(name)])
                    break
    return found


def _nic_called(fabric: Fabric, host: str, interface: str | None) -> str | None:
    if interface is None:
        return None
    cabled = network_of(fabric).index
    for nic in fabric.on_host(host, "nic"):
        if interface in (nic.interface, nic.name.partition("/")[2]) and nic.name in cabled:
            return nic.name
    return None
