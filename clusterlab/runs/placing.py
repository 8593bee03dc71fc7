"""``clusterlab place``: an allocation's hosts, the job's groups, and the better order in srun's form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from clusterlab.core.errors import UsageError
from clusterlab.cost.placing.pattern import read_pattern
from clusterlab.cost.placing.propose import Job, Proposal, propose
from clusterlab.cost.routing import named_routing, routing_of
from clusterlab.formats.hostlist import compress_hostlist, expand_hostlist
from clusterlab.runs.typed import (
    backend_of,
    check_backend,
    checked_variables,
    refuse_unmeasured,
)
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.opening import open_fabric
from clusterlab.topology.rank_order import host_of_each_rank


@dataclass(frozen=True, slots=True)
class PlaceOptions:
    """What was typed. ``nodes`` is a Slurm hostlist in the order ranks would get, or ``@FILE`` with one host
    a line (a line per rank with ``distribution`` arbitrary).
    """

    fabric: str
    nodes: str
    ranks: int | None
    per_host: int | None
    pattern: str
    distribution: str = "block"
    routing: str | None = None
    variables: tuple[str, ...] = ()
    backend: str = "auto"


@dataclass(frozen=True, slots=True)
class Placed:
    """The proposal and how srun is told: lines of SLURM_HOSTFILE (a host per task)."""

    proposal: Proposal
    job: Job

    @property
    def hostfile(self) -> str:
        """A host for every task, in order of ranks."""
        return "".join(f"{host}\n" for host in self.proposal.best.hosts)

    @property
    def order(self) -> str:
        """The hosts of the best order, each once, as a hostlist."""
        return compress_hostlist(dict.fromkeys(self.proposal.best.hosts))


def place(options: PlaceOptions) -> Placed:
    """Raises UsageError for hosts, ranks or patterns that do not fit the fabric."""
    check_backend(options.backend)
    if options.routing is not None:
        named_routing(options.routing)
    fabric = open_fabric(options.fabric)
    backend = backend_of(options.backend, fabric)
    if backend == "gloo":
        _refuse_for_gloo(options, fabric)
    hosts = _hosts(options.nodes)
    known = set(fabric.hosts)
    for host in hosts:
        if host not in known:
            raise UsageError(
                f"no host {host!r}", where=f"--nodes on fabric {fabric.name}",
                expected=f"names such as {compress_hostlist(fabric.hosts[:4])}",
            )  # fmt: skip
    if options.distribution == "arbitrary":
        given = tuple(hosts)
        per_host = max(Counter(given).values())
        _fits(options.ranks, len(given))
    else:
        _each_once(hosts)
        per_host = options.per_host or _gpus(fabric, hosts)
        ranks = options.ranks or per_host * len(hosts)
        given = host_of_each_rank(hosts, ranks, per_host, options.distribution)
    job = Job(
        len(given),
        per_host,
        read_pattern(options.pattern, len(given)),
        routing_of(fabric, backend, options.routing),
        checked_variables(options.variables),
        backend=backend,
    )
    return Placed(propose(fabric, given, job), job)


def _refuse_for_gloo(options: PlaceOptions, fabric: Fabric) -> None:
    refuse_unmeasured(fabric)
    if options.variables:
        raise UsageError(
            "means something to NCCL only, and this is predicted for gloo", where="-x",
            expected="--backend nccl and a fabric with GPUs",
        )  # fmt: skip


def _hosts(text: str) -> list[str]:
    if not text.startswith("@"):
        return expand_hostlist(text, where="--nodes")
    path = Path(text[1:])
    try:
        lines = path.read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot be read: {error}", where=str(path), expected="a host a line"
        ) from None
    if not lines:
        raise UsageError("empty", where=str(path), expected="a host a line")
    return lines


def _each_once(hosts: Sequence[str]) -> None:
    host, times = Counter(hosts).most_common(1)[0]
    if times > 1:
        raise UsageError(
            f"{host!r} twice", where="--nodes", expected="each host once",
            fix="for a host per rank: --distribution arbitrary",
        )  # fmt: skip


def _fits(ranks: int | None, lines: int) -> None:
    if ranks is not None and ranks != lines:
        raise UsageError(
            f"{ranks} ranks and {lines} hosts", where="--ranks",
            expected="as many hosts as ranks with --distribution arbitrary",
        )  # fmt: skip


def _gpus(fabric: Fabric, hosts: Sequence[str]) -> int:
    return min(len(fabric.on_host(host, "gpu")) for host in hosts)
