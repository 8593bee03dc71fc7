"""All ranks' records at one rank, although ranks are missing, be it the one that should collect them.

``rendezvous.meet`` needs every rank and torch; a diagnosis must work with those that came, and before
anything works. Where to hand in travels by PMIx (put, commit, get), by the meeting point of a Slurm step,
by torchrun's store, or is MASTER_ADDR.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from clusterlab.core.errors import DeadlineError, UsageError
from clusterlab.formats.hostlist import expand_hostlist
from clusterlab.launch.claims import Environ, said
from clusterlab.launch.desk import Desk, Record, hand_in
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.meeting_point import MeetingPoint, find_store
from clusterlab.launch.pmix_types import PmixClient
from clusterlab.launch.rendezvous import address_of, connect_store, meeting_hosts, step_name
from clusterlab.launch.stores import LOOPBACK, StoreAddress, parse_address

Report = Callable[[Sequence[Record], Sequence[int]], int]
"""Looks at the records that came, in rank order, and the ranks that did not; what it returns is told
to every rank."""

DESK_KEY = "clusterlab.desk"
_PROBE_S = 2.0
_SKEW_S = 3.0
"""By how much the starts of ranks may differ when they look for a second place to meet."""
_LEAST_S = 3.0
"""What is left for handing in at least, however late the rank found out where."""
_GRACE_S = 30.0
"""How much longer the others wait for the answer than the collecting rank waits for them."""


class NoWayError(UsageError):
    """Nothing says where the ranks could meet."""


@dataclass(slots=True)
class _Where:
    """Where to hand in; ``address`` None: here. ``point`` answers those who ask the way."""

    address: StoreAddress | None
    point: MeetingPoint | None = None


def gather(
    identity: RankIdentity,
    topic: str,
    record: Record,
    report: Report,
    *,
    pmix: PmixClient | None,
    environ: Environ,
    end: float,
) -> int:
    """Hand in ``record``; one rank reports on all that came; what ``report`` returned, on every rank.

    ``end`` is when (``time.monotonic``) those that have not come count as missing. Raises NoWayError
    when nothing says where to meet, DeadlineError when no other rank can be reached or nobody reports.
    """
    everyone = identity.world_size
    record = json.loads(json.dumps(record))  # as those that travel: lists, no tuples
    if everyone == 1:
        return report([record], [])
    with Desk(_fixed_port(identity, pmix, environ)) as desk:
        where = _where(identity, desk, pmix, environ, end)
        try:
            if where.address is None:
                until = max(end, time.monotonic() + _LEAST_S)
                records, answers = desk.collect(topic, everyone, record, end=until)
                here = {r["rank"] for r in records}
                code = report(records, [r for r in range(everyone) if r not in here])
                for answer in answers:
                    answer({"code": code})
                return code
        finally:
            if where.point is not None:
                where.point.close()
    left = max(_LEAST_S, end - time.monotonic())
    told = hand_in(
        where.address, topic, record, end=time.monotonic() + left, answer_s=left + _GRACE_S
    )
    if told is None:
        raise DeadlineError(
            "the rank that reports went away before its report",
            where="launch",
            fix="see what it printed: rank 0, or the first process of the first node",
        )
    return int(told["code"])


def _fixed_port(identity: RankIdentity, pmix: PmixClient | None, environ: Environ) -> int:
    """MASTER_PORT on the rank that is to be found there; else any."""
    if pmix is None and identity.rank == 0 and _by_exported_address(identity, environ):
        return _master_port(environ)
    return 0


def _by_exported_address(identity: RankIdentity, environ: Environ) -> bool:
    elastic = bool(environ.get("TORCHELASTIC_RUN_ID")) and identity.source == "torchrun"
    return step_name(identity, environ) is None and bool(environ.get("MASTER_ADDR")) and not elastic


def _master_port(environ: Environ) -> int:
    port = said(environ, "MASTER_PORT", minimum=1)
    if port is None or port.value > 65535:
        text = repr(environ.get("MASTER_PORT", ""))
        raise UsageError(text, where="MASTER_PORT", expected="a port, 1 to 65535")
    return port.value


def _where(
    identity: RankIdentity, desk: Desk, pmix: PmixClient | None, environ: Environ, end: float
) -> _Where:
    if pmix is not None:
        return _by_pmix(identity, desk, pmix, environ, end)
    step = step_name(identity, environ)
    if step is not None:
        return _by_meeting_point(identity, desk, step, environ, end)
    if _by_exported_address(identity, environ):
        if identity.rank == 0:
            return _Where(None)
        return _Where(StoreAddress((environ["MASTER_ADDR"],), _master_port(environ)))
    if environ.get("MASTER_ADDR"):
        return _by_agents_store(identity, desk, environ, end)
    raise NoWayError(
        f"{identity.world_size} ranks started by {identity.source} have no way to find each other",
        where="launch",
        expected="PMIx, a Slurm node list, or MASTER_ADDR and MASTER_PORT",
        fix="install libpmix2 on every node, or start with srun or torchrun",
    )


def _by_pmix(
    identity: RankIdentity, desk: Desk, pmix: PmixClient, environ: Environ, end: float
) -> _Where:
    """Every rank offers its desk, since any may have to stand in; no fence, which needs all ranks.

    A get waits for the other rank's commit, but a get past its deadline makes the client useless:
    ``absent`` does the waiting.
    """
    wait_s = max(_LEAST_S, end - time.monotonic())
    pmix.put(DESK_KEY, address_of(desk.port, identity, environ, pmix).to_text().encode())
    pmix.commit(timeout_s=wait_s)
    leader = 0
    if identity.rank != 0 and pmix.absent([0], DESK_KEY, wait_s=wait_s) != []:
        everyone = range(identity.world_size)
        absent = pmix.absent(everyone, DESK_KEY, wait_s=_PROBE_S)
        if absent is None:
            raise DeadlineError(f"rank 0 did not arrive within {wait_s:g} s", where="launch")
        leader = min(set(everyone) - set(absent), default=identity.rank)
    if leader == identity.rank:
        return _Where(None)
    text = pmix.get(leader, DESK_KEY, timeout_s=_PROBE_S)
    if not isinstance(text, bytes):
        raise DeadlineError(f"rank {leader} published no {DESK_KEY}", where="PMIx")
    where = f"PMIx {DESK_KEY} of rank {leader}"
    return _Where(parse_address(text.decode("utf-8", "replace"), where=where))


def _by_meeting_point(
    identity: RankIdentity, desk: Desk, step: str, environ: Environ, end: float
) -> _Where:
    """The first process of the first node; when it is missing, the lowest rank that came.

    Then every rank opens a meeting point of its own and goes to that of the lowest rank it finds.
    """
    mine = address_of(desk.port, identity, environ, None)
    if identity.node_rank == 0 and identity.local_rank == 0:
        return _Where(None, MeetingPoint(step, mine))
    hosts = meeting_hosts(identity, environ)
    try:
        wait_s = max(0.0, end - time.monotonic())
        return _Where(find_store(step, hosts, timeout_s=wait_s))
    except DeadlineError:
        point = MeetingPoint(f"{step} {identity.rank}", mine)
    time.sleep(_SKEW_S)
    listed = environ.get("SLURM_STEP_NODELIST")
    hosts = expand_hostlist(listed, where="SLURM_STEP_NODELIST") if listed else [LOOPBACK]
    for rank in range(identity.rank):
        with suppress(DeadlineError):  # not there
            return _Where(find_store(f"{step} {rank}", hosts, timeout_s=0.0), point)
    return _Where(None, point)


def _by_agents_store(identity: RankIdentity, desk: Desk, environ: Environ, end: float) -> _Where:
    """torchrun's store tells where rank 0 collects, or the lowest that came. Needs torch."""
    wait_s = max(_LEAST_S, end - time.monotonic())
    store = connect_store(identity, pmix=None, environ=environ, timeout_s=wait_s).store
    mine = address_of(desk.port, identity, environ, None).to_text()
    store.set(f"{DESK_KEY}/{identity.rank}", mine)
    if identity.rank == 0:
        return _Where(None)
    leader = 0
    while not store.check([f"{DESK_KEY}/0"]):
        if time.monotonic() > end:
            here = (r for r in range(identity.world_size) if store.check([f"{DESK_KEY}/{r}"]))
            leader = min(here, default=identity.rank)
            break
        time.sleep(0.05)
    if leader == identity.rank:
        return _Where(None)
    text = store.get(f"{DESK_KEY}/{leader}").decode("utf-8", "replace")
    return _Where(parse_address(text, where=f"torchrun's store, rank {leader}"))
