"""How ranks meet: a store, then torch.distributed's default process group on it.

No MASTER_ADDR: under PMIx the address of the store travels put → commit → fence → get; without PMIx it
is asked for at a meeting point on the first node of the step; torchrun has a store of its own.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from clusterlab.core.errors import DeadlineError, UsageError
from clusterlab.formats.hostlist import expand_hostlist
from clusterlab.launch.claims import Environ, said
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.meeting_point import MeetingPoint, find_store
from clusterlab.launch.pmix_types import (
    NODE_LIST,
    WILDCARD_RANK,
    PmixClient,
    PmixDeadlineError,
    PmixError,
)
from clusterlab.launch.refusals import arrival_record, check_arrivals
from clusterlab.launch.roll_call import rank_words, roll_call
from clusterlab.launch.scheduling import finish_before_yielding
from clusterlab.launch.stores import (
    LOOPBACK,
    StoreAddress,
    parse_address,
    reach_store,
    serve_store,
    source_address,
)

if TYPE_CHECKING:
    import torch
    from torch.distributed import Store

ADDRESS_KEY = "clusterlab.store"
"""The PMIx key under which rank 0 publishes the store; every other rank publishes its presence there."""

_PROBE_S = 2.0
_MOST_PROBERS = 64


def init_process_group(
    identity: RankIdentity,
    store: Store,
    backend: str,
    *,
    timeout_s: float,
    device: torch.device | None = None,
) -> None:
    """Join the default process group over ``store``. ``backend`` is ``gloo`` or ``nccl``.

    gloo's threads are started under SCHED_BATCH (see ``scheduling``). NCCL's communicator is made here
    where ``device`` is given, else by the first collective.
    """
    import torch.distributed as dist

    if backend == "gloo":
        _check_gloo_interface(os.environ.get("GLOO_SOCKET_IFNAME"))
        finish_before_yielding()
    dist.init_process_group(
        backend,
        store=store,
        rank=identity.rank,
        world_size=identity.world_size,
        timeout=timedelta(seconds=timeout_s),
        device_id=device,
    )


def _check_gloo_interface(named: str | None) -> None:
    """gloo ends in C++ when an interface it is told to use is not there: say it in words before."""
    here = sorted(name for _, name in socket.if_nameindex())
    for name in (named or "").split(","):
        if name and name not in here:
            raise UsageError(
                f"no network interface {name!r} on this host",
                where="GLOO_SOCKET_IFNAME",
                expected="one of " + ", ".join(here),
            )


def open_store(
    identity: RankIdentity, *, pmix: PmixClient | None, environ: Environ, timeout_s: float
) -> Store:
    """The job's store, after every rank has been seen at it. See ``meet``."""
    return meet(identity, pmix=pmix, environ=environ, timeout_s=timeout_s).store


@dataclass(frozen=True, slots=True)
class Meeting:
    """A store that all ranks reached; ``served_here``: by this process, which must leave last.

    ``stand_in`` is the rank that serves it because the one that should is missing. ``way`` is how the
    ranks found it: ``single``, ``pmix``, ``node_list``, ``meeting_point`` (on this host), ``torchrun``,
    ``master_addr`` or ``file``.
    """

    store: Store
    served_here: bool
    meeting_point: MeetingPoint | None = None
    stand_in: int | None = None
    way: str = "unknown"


def meet(
    identity: RankIdentity, *, pmix: PmixClient | None, environ: Environ, timeout_s: float
) -> Meeting:
    """Open or reach the job's store and wait until every rank has been seen at it.

    ``pmix``: this rank's client, or None to do without. Raises DeadlineError naming the ranks that did
    not arrive within ``timeout_s``, RefusedError when the ranks that came are not one job, UsageError
    when nothing says where to meet. Collective: every rank calls it.
    """
    end = time.monotonic() + timeout_s
    meeting = connect_store(identity, pmix=pmix, environ=environ, timeout_s=timeout_s)
    try:
        roll_call(
            meeting.store,
            identity,
            "arrival",
            arrival_record(identity),
            check_arrivals,
            timeout_s=max(1.0, end - time.monotonic()),
        )
    finally:
        if meeting.meeting_point is not None:
            meeting.meeting_point.close()
    return meeting


def part(identity: RankIdentity, meeting: Meeting, *, timeout_s: float = 10.0) -> None:
    """Say that this rank is done with the store; the process that serves it stays until all are."""
    from torch.distributed import DistError

    key, end = "clusterlab/left", time.monotonic() + timeout_s
    with suppress(DistError):  # whoever served it did not wait: it failed
        left = meeting.store.add(key, 1)
        while meeting.served_here and left < identity.world_size and time.monotonic() < end:
            time.sleep(0.01)
            left = meeting.store.add(key, 0)


def connect_store(
    identity: RankIdentity, *, pmix: PmixClient | None, environ: Environ, timeout_s: float
) -> Meeting:
    """A store all ranks can reach, and the meeting point to close once they have.

    Under PMIx all ranks must be there; otherwise only the one that serves the store.
    """
    if identity.world_size == 1:
        from torch.distributed import HashStore

        return Meeting(HashStore(), served_here=True, way="single")
    if pmix is not None:
        return _by_pmix(identity, pmix, environ, timeout_s)
    step = step_name(identity, environ)
    if step is not None:
        return _by_meeting_point(identity, step, environ, timeout_s)
    if environ.get("MASTER_ADDR"):
        return _by_master_address(identity, environ, timeout_s)
    raise UsageError(
        f"{identity.world_size} ranks started by {identity.source} have no way to find each other",
        where="launch",
        expected="PMIx, a Slurm node list, or MASTER_ADDR and MASTER_PORT",
        fix="install libpmix2 on every node, or start with srun or torchrun",
    )


def _by_pmix(
    identity: RankIdentity, pmix: PmixClient, environ: Environ, timeout_s: float
) -> Meeting:
    """Rank 0 serves a store on a free port; its address travels put → commit → fence → get."""
    store = None
    text = b"present"
    if identity.rank == 0:
        store = serve_store(timeout_s)
        text = address_of(store.port, identity, environ, pmix).to_text().encode()
    try:
        pmix.put(ADDRESS_KEY, text)
        pmix.commit(timeout_s=timeout_s)
        pmix.fence(timeout_s=timeout_s)
    except (PmixDeadlineError, PmixError) as error:
        raise _fence_failed(identity, pmix, error) from error
    if store is not None:
        return Meeting(store, served_here=True, way="pmix")
    published = pmix.get(0, ADDRESS_KEY, timeout_s=timeout_s)
    if not isinstance(published, bytes):
        raise DeadlineError(f"rank 0 published no {ADDRESS_KEY}", where="PMIx")
    where = f"PMIx {ADDRESS_KEY} of rank 0"
    address = parse_address(published.decode("utf-8", "replace"), where=where)
    return Meeting(reach_store(address, timeout_s), served_here=False, way="pmix")


def _fence_failed(
    identity: RankIdentity, pmix: PmixClient, error: PmixDeadlineError | PmixError
) -> DeadlineError:
    """Name the ranks that have not come as far as their commit.

    At most _MOST_PROBERS ranks ask; the others wait as long, because a rank that exits may take its
    step, and with it the message, along.
    """
    everyone = identity.world_size
    if identity.rank % max(1, everyone // _MOST_PROBERS) == 0:
        absent = pmix.absent(range(everyone), ADDRESS_KEY, wait_s=_PROBE_S)
        if absent is None:
            who = "not all ranks arrived, and which cannot be told"
        elif absent:
            who = f"{rank_words(absent)} of {everyone} did not arrive"
        else:
            who = "all ranks are there now: one came after the deadline"
    else:
        time.sleep(_PROBE_S)
        who = "rank 0 says which rank is late"
    return DeadlineError(
        f"{who} ({error.message})",
        where="launch",
        fix="see what the late rank printed; a node without libpmix keeps its ranks from coming",
    )


def _by_meeting_point(
    identity: RankIdentity, step: str, environ: Environ, timeout_s: float
) -> Meeting:
    """The first process of the first node serves the store and tells those who ask there.

    Not rank 0: with --distribution=arbitrary rank 0 may sit on any node.
    """
    way = "node_list" if identity.source == "slurm" else "meeting_point"
    if identity.node_rank == 0 and identity.local_rank == 0:
        store = serve_store(timeout_s)
        here = address_of(store.port, identity, environ, None)
        return Meeting(store, True, MeetingPoint(step, here), way=way)
    address = find_store(step, meeting_hosts(identity, environ), timeout_s=timeout_s)
    return Meeting(reach_store(address, timeout_s), served_here=False, way=way)


def meeting_hosts(identity: RankIdentity, environ: Environ) -> list[str]:
    """Where the meeting point of a Slurm step may be: this host, or the step's first node."""
    if _one_node(identity):
        return [LOOPBACK]
    # srun's own address helps where node names do not resolve: in a batch job srun runs there
    nodes = expand_hostlist(environ["SLURM_STEP_NODELIST"], where="SLURM_STEP_NODELIST")
    return [h for h in (nodes[0], environ.get("SLURM_LAUNCH_NODE_IPADDR")) if h]


def _by_master_address(identity: RankIdentity, environ: Environ, timeout_s: float) -> Meeting:
    """torchrun's store, or one that rank 0 serves at the exported address.

    torchrun's agent keeps its store over restarts, so each attempt has its own prefix.
    """
    from torch.distributed import PrefixStore

    port = said(environ, "MASTER_PORT", minimum=1)
    if port is None or port.value > 65535:
        raise UsageError(
            f"{environ.get('MASTER_PORT', '')!r}",
            where="MASTER_PORT",
            expected="a port, 1 to 65535",
        )
    address = StoreAddress((environ["MASTER_ADDR"],), port.value)
    by_agent = environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    serves = identity.rank == 0 and not by_agent
    store = serve_store(timeout_s, port=port.value) if serves else reach_store(address, timeout_s)
    attempt = said(environ, "TORCHELASTIC_RESTART_COUNT")
    prefix = f"clusterlab/attempt_{attempt.value if attempt else 0}"
    way = "torchrun" if by_agent else "master_addr"
    return Meeting(PrefixStore(prefix, store), served_here=serves, way=way)


def step_name(identity: RankIdentity, environ: Environ) -> str | None:
    """What names this step and attempt to all its ranks, where a meeting point can be derived."""
    if identity.source == "slurm" and environ.get("SLURM_STEP_NODELIST"):
        names = ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT")
        return ".".join(environ.get(name) or "0" for name in names)
    if identity.source == "openmpi" and _one_node(identity):
        return environ.get("PMIX_NAMESPACE") or environ.get("OMPI_MCA_ess_base_jobid")
    return None


def _one_node(identity: RankIdentity) -> bool:
    return identity.local_world_size == identity.world_size


def _other_nodes(identity: RankIdentity, environ: Environ, pmix: PmixClient | None) -> list[str]:
    """The names of the job's other nodes, as far as the launcher tells."""
    if _one_node(identity):
        return []
    text = environ.get("SLURM_STEP_NODELIST")
    if text:
        names = expand_hostlist(text, where="SLURM_STEP_NODELIST")
    else:
        listed = pmix.get(WILDCARD_RANK, NODE_LIST, timeout_s=5.0) if pmix else None
        names = listed.split(",") if isinstance(listed, str) else []
    return [name for name in names if name != identity.host]


def address_of(
    port: int, identity: RankIdentity, environ: Environ, pmix: PmixClient | None
) -> StoreAddress:
    """Where the others can reach ``port``: the address this host has towards them, then its names."""
    if _one_node(identity):
        return StoreAddress((LOOPBACK,), port)
    others = _other_nodes(identity, environ, pmix)
    hosts = [source_address(others), identity.host, socket.gethostname()]
    return StoreAddress(tuple(dict.fromkeys(h for h in hosts if h)), port)
