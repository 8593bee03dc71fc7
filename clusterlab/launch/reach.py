"""The job's store although ranks are missing, be it the one that should serve it.

``rendezvous.meet`` needs every rank; a diagnosis must work with those that came.
"""

from __future__ import annotations

import time
from contextlib import suppress

from clusterlab.core.errors import DeadlineError
from clusterlab.formats.hostlist import expand_hostlist
from clusterlab.launch.claims import Environ
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.meeting_point import MeetingPoint, find_store
from clusterlab.launch.pmix_types import PmixClient
from clusterlab.launch.rendezvous import (
    ADDRESS_KEY,
    Meeting,
    address_of,
    connect_store,
    step_name,
)
from clusterlab.launch.stores import LOOPBACK, parse_address, reach_store, serve_store

_PROBE_S = 2.0
_STORE_S = 60.0
_SKEW_S = 3.0
"""By how much the starts of ranks may differ when they look for a second place to meet."""


def reach(
    identity: RankIdentity, *, pmix: PmixClient | None, environ: Environ, timeout_s: float
) -> Meeting:
    """Open or reach the job's store, waiting for nobody but the rank that serves it.

    When that one has not come within ``timeout_s``, the first of those that came serves instead.
    Raises DeadlineError when no store can be reached. Collective among those that came.
    """
    if identity.world_size > 1 and pmix is not None:
        return _by_pmix(identity, pmix, environ, timeout_s)
    try:
        return connect_store(identity, pmix=None, environ=environ, timeout_s=timeout_s)
    except DeadlineError:
        step = step_name(identity, environ)
        if identity.world_size == 1 or step is None:
            raise
        return _by_second_meeting_point(identity, step, environ)


def _by_pmix(
    identity: RankIdentity, pmix: PmixClient, environ: Environ, timeout_s: float
) -> Meeting:
    """Every rank offers a store, since any may have to stand in; no fence, which needs all ranks.

    A get waits for the other rank's commit, but a get past its deadline makes the client useless:
    ``absent`` does the waiting.
    """
    store = serve_store(_STORE_S)
    pmix.put(ADDRESS_KEY, address_of(store, identity, environ, pmix).to_text().encode())
    pmix.commit(timeout_s=timeout_s)
    if identity.rank == 0:
        return Meeting(store, served_here=True)
    leader, stand_in = 0, None
    if pmix.absent([0], ADDRESS_KEY, wait_s=timeout_s) != []:
        everyone = range(identity.world_size)
        absent = pmix.absent(everyone, ADDRESS_KEY, wait_s=_PROBE_S)
        if absent is None:
            raise DeadlineError(f"rank 0 did not arrive within {timeout_s:g} s", where="launch")
        leader = stand_in = min(set(everyone) - set(absent), default=identity.rank)
    if leader == identity.rank:
        return Meeting(store, served_here=True, stand_in=stand_in)
    text = pmix.get(leader, ADDRESS_KEY, timeout_s=_PROBE_S)
    if not isinstance(text, bytes):
        raise DeadlineError(f"rank {leader} published no {ADDRESS_KEY}", where="PMIx")
    where = f"PMIx {ADDRESS_KEY} of rank {leader}"
    address = parse_address(text.decode("utf-8", "replace"), where=where)
    return Meeting(reach_store(address, _STORE_S), served_here=False, stand_in=stand_in)


def _by_second_meeting_point(identity: RankIdentity, step: str, environ: Environ) -> Meeting:
    """The first process of the first node is missing: every rank opens a meeting point of its own,
    and goes to that of the lowest rank it finds.
    """
    store = serve_store(_STORE_S)
    point = MeetingPoint(f"{step} {identity.rank}", address_of(store, identity, environ, None))
    time.sleep(_SKEW_S)
    listed = environ.get("SLURM_STEP_NODELIST")
    hosts = expand_hostlist(listed, where="SLURM_STEP_NODELIST") if listed else [LOOPBACK]
    for rank in range(identity.rank):
        with suppress(DeadlineError):  # not there
            address = find_store(f"{step} {rank}", hosts, timeout_s=0.0)
            return Meeting(reach_store(address, _STORE_S), False, point, stand_in=rank)
    return Meeting(store, True, point, stand_in=identity.rank)
