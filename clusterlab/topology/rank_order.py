"""In which order ranks go to hosts: Slurm's block, cyclic and plane, or any order of one's own. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from clusterlab.core.errors import UsageError
from clusterlab.core.placement import Placement
from clusterlab.core.suggest import unknown
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.place import rank_on_gpu


def host_of_each_rank(
    hosts: Sequence[str], ranks: int, per_host: int, distribution: str
) -> tuple[str, ...]:
    """The host of every rank: ``block`` fills host after host, ``cyclic`` deals ranks out one by one,
    ``plane=K`` in runs of K. ``per_host`` is the most a host takes. Raises UsageError when they do not fit.
    """
    if ranks > per_host * len(hosts):
        raise UsageError(
            f"{ranks} ranks at {per_host} per host", where="ranks",
            expected=f"at most {per_host * len(hosts)} on these {len(hosts)} hosts",
        )  # fmt: skip
    run = _run_length(distribution, per_host)
    return tuple(host for host, _ in zip(_dealt(hosts, per_host, run), range(ranks), strict=False))


def _run_length(distribution: str, per_host: int) -> int:
    word, _, size = distribution.partition("=")
    if word == "block" and not size:
        return per_host
    if word == "cyclic" and not size:
        return 1
    if word == "plane" and size.isascii() and size.isdigit() and int(size) > 0:
        return int(size)
    raise unknown(
        "distribution", distribution, ("block", "cyclic", "plane=SIZE"), where="--distribution"
    )


def _dealt(hosts: Sequence[str], per_host: int, run: int) -> Iterator[str]:
    left = dict.fromkeys(hosts, per_host)
    while any(left.values()):
        for host in hosts:
            for _ in range(min(run, left[host])):
                yield host
            left[host] -= min(run, left[host])


def place_in_order(fabric: Fabric, hosts: Iterable[str]) -> Placement:
    """Ranks on the GPUs of the host named for each, a host's GPUs in its own order, as Slurm binds tasks.

    Raises UsageError for a host that is not in the fabric or has fewer GPUs than ranks.
    """
    order = tuple(hosts)
    known = set(fabric.hosts)
    gpus = {}
    for host, wanted in Counter(order).items():
        if host not in known:
            raise unknown("host", host, fabric.hosts, where=f"fabric {fabric.name}")
        gpus[host] = fabric.on_host(host, "gpu")
        if wanted > len(gpus[host]):
            raise UsageError(
                f"{wanted} ranks on {host}", where=f"fabric {fabric.name}",
                expected=f"at most its {len(gpus[host])} GPUs",
            )  # fmt: skip
    taken: Counter[str] = Counter()
    ranks = []
    for rank, host in enumerate(order):
        local_rank = taken[host]
        taken[host] += 1
        gpu = gpus[host][local_rank]
        ranks.append(rank_on_gpu(gpu, host, rank=rank, local_rank=local_rank))
    return Placement(tuple(ranks))
