"""Rules about Slurm's own variables: formats, node lists, scopes, rank order, leftovers."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from clusterlab.binding.diagnose.saying import finding, quoted, those, who
from clusterlab.binding.diagnose.scene import Scene, by_host
from clusterlab.binding.diagnose.variables import number
from clusterlab.binding.records import RankRecord
from clusterlab.core.errors import UsageError
from clusterlab.core.findings import Finding, Severity
from clusterlab.formats.hostlist import expand_hostlist

_COUNTS = re.compile(r"[0-9]+\(x[0-9]+\)(?:,[0-9]+(?:\(x[0-9]+\))?)*|[0-9]+(?:,[0-9]+)+\(x[0-9]+\)")
_COUNT_ERROR = re.compile(
    r"(?:invalid literal|Unsupported nproc_per_node|ValueError|not an? (?:valid )?int\w*|integer"
    r" expression|syntax error)[^\n]{0,80}?[0-9]+(?:\(x[0-9]+\)|(?:,[0-9]+)+)"
)
_NUMBERS_WANTED = ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "NPROC_PER_NODE", "OMP_NUM_THREADS", "NNODES")
_NPROC_FROM_SLURM = re.compile(
    r"nproc[_-]per[_-]node[= ]\"?\$\{?SLURM_(?:STEP_)?TASKS_PER_NODE\}?(?![%/\[(])"
)
_LISTS = ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST")


def compressed_counts(scene: Scene) -> Iterable[Finding]:
    """SLURM_VAR_FORMAT: a count such as 4(x2) taken for a number."""
    bad, evidence = [], []
    for rank in scene.ranks:
        wrong = [n for n in _NUMBERS_WANTED if _COUNTS.fullmatch(rank.env.get(n, ""))]
        said = f"{rank.error} {rank.stderr}"
        if _COUNT_ERROR.search(said):
            evidence.append(f"{who(rank)}: {quoted(rank.error or rank.stderr)}")
        elif wrong:
            evidence.append(f"{who(rank)}: {wrong[0]}={rank.env[wrong[0]]}")
        elif _NPROC_FROM_SLURM.search(scene.record.launcher) and _COUNTS.fullmatch(
            rank.env.get("SLURM_TASKS_PER_NODE", "")
        ):
            evidence.append(f"--nproc_per_node is given {rank.env['SLURM_TASKS_PER_NODE']!r}")
        else:
            continue
        bad.append(rank)
    if bad:
        fix = (
            "4(x2) means 4 on each of 2 nodes: this node's count is ${SLURM_STEP_TASKS_PER_NODE%%[(,]*}"
            " where all are equal; torchrun: --nproc_per_node=$SLURM_GPUS_ON_NODE"
        )
        yield finding("SLURM_VAR_FORMAT", bad, evidence, fix)


def node_list(rank: RankRecord) -> list[str]:
    """The hosts of the rank's step, or else its job; [] where not told or not readable."""
    for name in _LISTS:
        if rank.env.get(name):
            try:
                return expand_hostlist(rank.env[name], where=name)
            except UsageError:
                return []
    return []


def master_from_broken_parser(scene: Scene) -> Iterable[Finding]:
    """NODELIST_PARSE: MASTER_ADDR is what a hand-made parser leaves of SLURM_NODELIST, and no host."""
    for world in scene.worlds:
        bad, evidence = [], []
        for rank in world:
            address, hosts = rank.env.get("MASTER_ADDR", ""), node_list(rank)
            if address and _is_debris(address, hosts, rank):
                first = f", whose first host is {hosts[0]}" if hosts else ""
                name = next((n for n in _LISTS if rank.env.get(n)), None)
                listed = f"; {name}={rank.env[name]}" if name else ""
                bad.append(rank)
                evidence.append(f"{who(rank)}: MASTER_ADDR={address!r} is no host{listed}{first}")
        if bad:
            fix = 'export MASTER_ADDR=$(scontrol show hostnames "$SLURM_STEP_NODELIST" | head -n 1)'
            yield finding("NODELIST_PARSE", bad, evidence, fix)


def _is_debris(address: str, hosts: Sequence[str], rank: RankRecord) -> bool:
    """Whether ``address`` has a node list's punctuation, or is a mangled host of the list."""
    if re.search(r"[\[\],\s]", address) and not address.startswith("["):
        return True
    if address.startswith("[") and ":" not in address:
        return True
    if not hosts or address in hosts or address in rank.reachable or re.search(r"[.:]", address):
        return False
    plain = [n for n in _LISTS if rank.env.get(n)]
    unbracketed = re.sub(r"[\[\]]", "", rank.env[plain[0]]) if plain else ""
    if address in (unbracketed, unbracketed.partition(",")[0]):
        return True
    stem = re.sub(r"[0-9]+$", "", hosts[0])
    tail = address.removeprefix(stem)
    if not stem or tail == address or any(address.startswith(h) for h in hosts):
        return False  # another name, or a host with a suffix for another network
    return tail == "" or bool(re.fullmatch(r"[0-9]+(-[0-9]+)?", tail))


def job_for_step(scene: Scene) -> Iterable[Finding]:
    """SCOPE_MIX: the job's counts or nodes used where the step's were meant."""
    for world in scene.worlds:
        bad, evidence = [], []
        for rank in world:
            job, step = number(rank.env, "SLURM_NTASKS"), number(rank.env, "SLURM_STEP_NUM_TASKS")
            size = number(rank.env, "WORLD_SIZE")
            if (
                job
                and step
                and job != step
                and (size == job or (size is None and job > len(world)))
            ):
                used = f", WORLD_SIZE={size}" if size else ""
                evidence.append(
                    f"{who(rank)}: SLURM_NTASKS={job}, SLURM_STEP_NUM_TASKS={step}{used}"
                )
                bad.append(rank)
            elif _master_outside_step(rank):
                evidence.append(
                    f"{who(rank)}: MASTER_ADDR={rank.env['MASTER_ADDR']} is in the job's node list, not in"
                    f" the step's ({rank.env['SLURM_STEP_NODELIST']})"
                )
                bad.append(rank)
        if bad:
            fix = (
                "use the step's variables: export WORLD_SIZE=$SLURM_STEP_NUM_TASKS MASTER_ADDR=$(scontrol"
                ' show hostnames "$SLURM_STEP_NODELIST" | head -n 1)'
            )
            yield finding("SCOPE_MIX", bad, evidence, fix)


def _master_outside_step(rank: RankRecord) -> bool:
    address = rank.env.get("MASTER_ADDR", "")
    if (
        not address
        or not rank.env.get("SLURM_STEP_NODELIST")
        or not rank.env.get("SLURM_JOB_NODELIST")
    ):
        return False
    try:
        job = expand_hostlist(rank.env["SLURM_JOB_NODELIST"])
        return address in job and address not in expand_hostlist(rank.env["SLURM_STEP_NODELIST"])
    except UsageError:
        return False


def batch_shell_as_rank(scene: Scene) -> Iterable[Finding]:
    """SCOPE_MIX: a program in the batch script, without srun, that takes the job's variables for a step's."""
    for world in scene.worlds:
        rank = world[0]
        env = rank.env
        if len(world) != 1 or len(scene.ranks) > 1 or not env.get("SLURM_JOB_ID"):
            continue
        step = any(name.startswith(("SLURM_STEP_", "SLURM_STEPID")) for name in env)
        promised = max(number(env, "SLURM_NTASKS") or 1, number(env, "SLURM_NNODES") or 1)
        other = any(n in env for n in ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"))
        if step or other or promised < 2 or env.get("SLURM_PROCID") != "0":
            continue
        evidence = [
            f"{who(rank)}: SLURM_NTASKS={env.get('SLURM_NTASKS', '?')} on {env.get('SLURM_NNODES', '?')}"
            " nodes but no SLURM_STEP_*: this is the batch script, not a task of srun"
        ]
        fix = "srun COMMAND in the batch script; code should ask for SLURM_STEP_NUM_TASKS, not SLURM_NTASKS"
        yield finding("SCOPE_MIX", world, evidence, fix)


def heterogeneous_job(scene: Scene) -> Iterable[Finding]:
    """SCOPE_MIX: SLURM_NTASKS of one component of a heterogeneous job taken for the whole."""
    for world in scene.worlds:
        groups = [r for r in world if (number(r.env, "SLURM_HET_SIZE") or 0) > 1]
        sizes = {number(r.env, "SLURM_NTASKS") for r in groups} - {None}
        claims = {number(r.env, "WORLD_SIZE") for r in groups} - {None}
        beyond = [r for r in groups if r.rank >= (number(r.env, "SLURM_NTASKS") or len(world))]
        wrong = bool(claims & sizes) and len(world) > max((c for c in claims if c), default=0)
        masters = {r.env.get("MASTER_ADDR") for r in groups} - {None}
        if groups and (
            wrong or (len(sizes) > 1 and len(claims) > 1) or (beyond and len(masters) > 1)
        ):
            evidence = [
                f"{who(r)}: SLURM_NTASKS={r.env.get('SLURM_NTASKS')} of a heterogeneous job of"
                f" {r.env['SLURM_HET_SIZE']} components, WORLD_SIZE={r.env.get('WORLD_SIZE', 'unset')}"
                for r in groups
            ]
            fix = (
                "add up the components: WORLD_SIZE=$((SLURM_NTASKS_HET_GROUP_0+SLURM_NTASKS_HET_GROUP_1)),"
                ' MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST_HET_GROUP_0" | head -n 1);'
                " start with srun --het-group=0,1"
            )
            yield finding("SCOPE_MIX", groups, evidence, fix)


def rank_order(scene: Scene) -> Iterable[Finding]:
    """RANK_PLACEMENT: rank 0 is not on the host that MASTER_ADDR names; or hosts alternate (information)."""
    for world in scene.worlds:
        first = next((r for r in world if r.rank == 0), None)
        hosts = by_host(world)
        address = first.env.get("MASTER_ADDR") if first else None
        if first and address in hosts and address != first.host and not _short(address, first.host):
            evidence = [f"rank 0 runs on {first.host}, MASTER_ADDR={address} is the host of"
                        f" {those(hosts[address])}"]  # fmt: skip
            fix = (
                "let rank 0 publish its own name (PMIx, or a file in the run directory); or give srun the"
                f" order: srun -w {','.join(hosts)} --distribution=block …"
            )
            yield finding("RANK_PLACEMENT", world, evidence, fix, severity=Severity.FATAL)
            continue
        split = [h for h, there in hosts.items() if _has_gaps(there, world)]
        if split:
            evidence = [f"{h}: {those(hosts[h])}" for h in split]
            fix = "srun --distribution=block:block …  (mpirun --map-by slot), to have a node's ranks adjoin"
            yield finding("RANK_PLACEMENT", world, evidence, fix, severity=Severity.INFO)


def _short(one: str, other: str) -> bool:
    return one.partition(".")[0] == other.partition(".")[0]


def _has_gaps(there: Sequence[RankRecord], world: Sequence[RankRecord]) -> bool:
    """Whether a rank of another host stands between those of one host."""
    numbers = {r.rank for r in there}
    return any(min(numbers) < r.rank < max(numbers) and r.rank not in numbers for r in world)


def another_jobs_variables(scene: Scene) -> Iterable[Finding]:
    """STALE_ENV: Slurm's variables name nodes this process is not on, or every process repeats them."""
    for world in scene.worlds:
        bad, evidence = [], []
        for rank in world:
            listed = node_list(rank)
            strange = listed and not any(h == rank.host or _short(h, rank.host) for h in listed)
            if strange:
                bad.append(rank)
                evidence.append(
                    f"{who(rank)}: Slurm's node list {','.join(listed[:4])} lacks {rank.host}"
                )
        one_task = len(world) > 1 and all(r.env.get("SLURM_PROCID") == "0" for r in world)
        steps = {r.env.get("SLURM_STEP_NUM_TASKS", "1") for r in world}
        if (
            not bad
            and one_task
            and len(by_host(world)) > 1
            and steps == {"1"}
            and _no_spawner(world)
        ):
            bad = list(world)
            evidence.append(
                f"{those(world)} on {len(by_host(world))} hosts all have SLURM_PROCID=0"
            )
        if bad:
            fix = "unset ${!SLURM_*} before launching by other means than srun; or launch with srun"
            yield finding("STALE_ENV", bad, evidence, fix)


def _no_spawner(world: Sequence[RankRecord]) -> bool:
    names = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "TORCHELASTIC_RUN_ID")
    return not any(n in r.env for r in world for n in names)


def interactive_step(scene: Scene) -> Iterable[Finding]:
    """STALE_ENV: an interactive step's SLURM_NTASKS=1 makes a framework believe srun started everything."""
    for world in scene.worlds:
        rank = world[0]
        wanted, tasks = rank.declared_devices, number(rank.env, "SLURM_NTASKS")
        if len(world) != 1 or not wanted or tasks is None or tasks >= wanted:
            continue
        evidence = [
            f"{who(rank)}: asked for {wanted} devices, but SLURM_NTASKS={tasks} (job"
            f" {rank.env.get('SLURM_JOB_NAME', '?')!r}, step {rank.env.get('SLURM_STEP_ID', '?')}) makes the"
            " program believe that srun has started all ranks"
        ]
        fix = (
            "in the interactive shell: unset SLURM_NTASKS SLURM_PROCID (or salloc/srun --job-name=bash), or"
            f" srun --ntasks={wanted} COMMAND"
        )
        yield finding("STALE_ENV", world, evidence, fix)


def outer_step_binding(scene: Scene) -> Iterable[Finding]:
    """STALE_ENV: SLURM_CPU_BIND* of an outer step, handed on by sbatch: one mask for several tasks."""
    for _, ranks in scene.hosts:
        listed = {r.env.get("SLURM_CPU_BIND_LIST", "") for r in ranks}
        tasks = len(scene.tasks(ranks))
        one = next(iter(listed)) if len(listed) == 1 else ""
        few = bool(one) and "," not in one and tasks > 1
        needs = max((number(r.env, "SLURM_CPUS_PER_TASK") or 0 for r in ranks), default=0)
        if few and needs > max((len(r.cpus or ()) for r in ranks), default=0) > 0:
            evidence = [
                f"{those(ranks)}: SLURM_CPU_BIND_LIST={one} is one mask for {tasks} tasks of"
                f" {needs} CPUs: an outer step's"
            ]
            fix = "unset ${!SLURM_CPU_BIND*} before sbatch, or sbatch --export=NONE"
            yield finding("STALE_ENV", ranks, evidence, fix)


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
                "give every machine a name of its own: export NCCL_HOSTID=$(hostname -f) on all ranks, or"
                " hostnamectl set-hostname; images that were cloned need a new /etc/machine-id"
            )
            yield finding("HOSTNAME_COLLISION", world, evidence, fix)


RULES = (
    compressed_counts,
    master_from_broken_parser,
    job_for_step,
    batch_shell_as_rank,
    heterogeneous_job,
    rank_order,
    another_jobs_variables,
    interactive_step,
    outer_step_binding,
    same_name_for_two_machines,
)
