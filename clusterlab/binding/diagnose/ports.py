"""Rules about the port ranks meet at."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from clusterlab.binding.diagnose.rendezvous import only_here
from clusterlab.binding.diagnose.saying import finding, quoted, those, who
from clusterlab.binding.diagnose.scene import Scene, uses_elastic
from clusterlab.binding.diagnose.variables import number
from clusterlab.binding.records import RankRecord
from clusterlab.core.findings import Finding, Severity

_IN_USE = re.compile(
    r"EADDRINUSE|address already in use|port (is )?(already )?(used|in use)", re.IGNORECASE
)


def no_port(scene: Scene) -> Iterable[Finding]:
    """MASTER_ADDR_WRONG: MASTER_PORT is no port."""
    bad = []
    for rank in scene.ranks:
        port = number(rank.env, "MASTER_PORT")
        if "MASTER_PORT" in rank.env and (port is None or port > 65535):
            bad.append(rank)
    if bad:
        evidence = [f"{who(r)}: MASTER_PORT={r.env['MASTER_PORT'][:40]!r} is no port" for r in bad]
        yield finding("MASTER_ADDR_WRONG", bad, evidence, _port_fix(bad))


def port_taken(scene: Scene) -> Iterable[Finding]:
    """MASTER_PORT_COLLISION: the port was in use."""
    for world in scene.worlds:
        bad = [r for r in world if _IN_USE.search(f"{r.error} {r.stderr}")]
        if not bad:
            continue
        evidence = [f"{who(r)}: {quoted(r.error or r.stderr)}" for r in bad]
        inside = [r for r in bad if _ephemeral(r)]
        if inside:
            first, last = inside[0].ephemeral_ports or (0, 0)
            evidence.append(
                f"port {inside[0].env.get('MASTER_PORT')} lies in net.ipv4.ip_local_port_range"
                f" {first}-{last}: any client socket may take it"
            )
        yield finding("MASTER_PORT_COLLISION", bad, evidence, _port_fix(bad))


def jobs_share_a_port(scene: Scene) -> Iterable[Finding]:
    """MASTER_PORT_COLLISION: two jobs on one host derived the same port."""
    taken: dict[tuple[str, str], list[list[RankRecord]]] = defaultdict(list)
    for world in scene.worlds:
        first = world[0]
        address, port = first.env.get("MASTER_ADDR", ""), first.env.get("MASTER_PORT")
        if port and port != "0" and not uses_elastic(first):
            taken[first.host if only_here(address) else address, port].append(world)
    for (host, port), worlds in taken.items():
        if len(worlds) < 2:
            continue
        ranks = [r for world in worlds for r in world]
        jobs = [w[0].job or w[0].env.get("SLURM_JOB_ID", "?") for w in worlds]
        evidence = [f"jobs {', '.join(jobs)} all use {host}:{port}"]
        yield finding("MASTER_PORT_COLLISION", ranks, evidence, _port_fix(ranks))


def port_at_risk(scene: Scene) -> Iterable[Finding]:
    """MASTER_PORT_COLLISION as information: a fixed port inside the range of client sockets."""
    for world in scene.worlds:
        risky = [r for r in world if _ephemeral(r) and not uses_elastic(r)]
        if risky and not any(_IN_USE.search(r.error) for r in world):
            evidence = [
                f"{those(risky)}: MASTER_PORT={risky[0].env['MASTER_PORT']} is in the range of client ports"
            ]
            fix = _port_fix(risky)
            yield finding("MASTER_PORT_COLLISION", risky, evidence, fix, severity=Severity.INFO)


def _ephemeral(rank: RankRecord) -> bool:
    port = number(rank.env, "MASTER_PORT")
    return port is not None and rank.ephemeral_ports is not None and (
        rank.ephemeral_ports[0] <= port <= rank.ephemeral_ports[1]
    )  # fmt: skip


def _port_fix(ranks: Sequence[RankRecord]) -> str:
    if all(uses_elastic(r) for r in ranks):
        return "torchrun --rdzv-backend=c10d --rdzv-endpoint=HOST:PORT SCRIPT\n# another port; on one node :0"
    return (
        'export MASTER_PORT=$(python3 -c \'import socket; s=socket.socket(); s.bind(("", 0));'
        " print(s.getsockname()[1])')\n# on rank 0, and hand it to the others; fixed ports: outside"
        " /proc/sys/net/ipv4/ip_local_port_range"
    )


RULES = (no_port, port_taken, jobs_share_a_port, port_at_risk)
