"""Rules about where ranks are: their order over hosts, and hosts that look alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from clusterlab.binding.diagnose.saying import finding, quoted, those, who
from clusterlab.binding.diagnose.scene import Scene, by_host
from clusterlab.binding.diagnose.slurm_identity import node_list
from clusterlab.binding.records import RankRecord
from clusterlab.core.findings import Finding, Severity


def rank_order(scene: Scene) -> Iterable[Finding]:
    """RANK_PLACEMENT: rank 0 is not on the host that MASTER_ADDR names; or hosts alternate (information)."""
    for world in scene.worlds:
        first = next((r for r in world if r.rank == 0), None)
        hosts = by_host(world)
        address = first.env.get("MASTER_ADDR") if first else None
        if (
            first
            and address in hosts
            and address != first.host
            and not same_short_name(address, first.host)
        ):
            evidence = [f"rank 0 runs on {first.host}, MASTER_ADDR={address} is the host of"
                        f" {those(hosts[address])}"]  # fmt: skip
            fix = (
                f"srun -w {','.join(hosts)} --distribution=block COMMAND\n# gives the order; or let rank 0"
                " publish its own name (PMIx, or a file in the run directory)"
            )
            yield finding("RANK_PLACEMENT", world, evidence, fix, severity=Severity.FATAL)
            continue
        split = [h for h, there in hosts.items() if _has_gaps(there, world)]
        listed = node_list(first) if first else []
        later = listed and listed[0] in hosts and first and first.host in listed[1:]
        if split or later:
            evidence = [f"{h}: {those(hosts[h])}" for h in (split or hosts)]
            fix = "srun --distribution=block:block COMMAND\n# a node's ranks adjoin; mpirun: --map-by slot"
            yield finding("RANK_PLACEMENT", world, evidence, fix, severity=Severity.INFO)


def same_short_name(one: str, other: str) -> bool:
    """Whether two host names are alike up to the first dot."""
    return one.partition(".")[0] == other.partition(".")[0]


def _has_gaps(there: Sequence[RankRecord], world: Sequence[RankRecord]) -> bool:
    """Whether a rank of another host stands between those of one host."""
    numbers = {r.rank for r in there}
    low, high = min(numbers), max(numbers)
    return high - low >= len(numbers) and any(
        low < r.rank < high and r.rank not in numbers for r in world
    )


def same_name_for_two_machines(scene: Scene) -> Iterable[Finding]:
    """HOSTNAME_COLLISION: machines that libraries cannot tell apart by host name or boot id."""
    for world in scene.worlds:
        names: dict[str, set[str]] = defaultdict(set)
        boots: dict[str, set[str]] = defaultdict(set)
        known: dict[str, str] = {}
        for rank in world:
            node = scene.node(rank)
            boot = rank.boot_id or (node.boot_id if node else None)
            if rank.hostname_short:
                names[rank.hostname_short].add(rank.host)
            if boot:
                boots[boot].add(rank.host)
                known[rank.host] = boot
        complaint = next((r for r in world if "different host" in r.error.lower()), None)
        if complaint:
            for host in by_host(world):
                names[host.partition(".")[0]].add(host)
        evidence = [f"{', '.join(sorted(h))}: boot id {b}" for b, h in boots.items() if len(h) > 1]
        for name, hosts in names.items():
            apart = len({known.get(h) for h in hosts}) == len(hosts) and all(
                h in known for h in hosts
            )
            if len(hosts) > 1 and (complaint or not apart):
                evidence.append(f"{', '.join(sorted(hosts))} all call themselves {name}")
        if evidence:
            if complaint:
                evidence.append(f"{who(complaint)}: {quoted(complaint.error)}")
            fix = (
                "export NCCL_HOSTID=$(hostname -f)\n# on all ranks, every machine a name of its own; or"
                " hostnamectl set-hostname; images that were cloned need a new /etc/machine-id"
            )
            yield finding("HOSTNAME_COLLISION", world, evidence, fix)


RULES = (rank_order, same_name_for_two_machines)
