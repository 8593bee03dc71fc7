"""Rules about Slurm's own variables: formats, node lists, scopes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from clusterlab.binding.diagnose.saying import finding, quoted, who
from clusterlab.binding.diagnose.scene import Scene
from clusterlab.binding.diagnose.variables import SOURCES, number
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
_MASTERS = ("MASTER_ADDR", "JAX_COORDINATOR_ADDRESS", "COORDINATOR_ADDRESS", "MAIN_PROCESS_IP")
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
            "torchrun --nproc_per_node=$SLURM_GPUS_ON_NODE SCRIPT\n"
            "# 4(x2) means 4 on each of 2 nodes: this node's count is ${SLURM_STEP_TASKS_PER_NODE%%[(,]*}"
            " where all are equal"
        )
        yield finding("SLURM_VAR_FORMAT", bad, evidence, fix)


def no_numbers(scene: Scene) -> Iterable[Finding]:
    """SLURM_VAR_FORMAT: an identity variable that is no whole number; or a rank beyond its world."""
    bad, evidence = [], []
    for rank in scene.ranks:
        names = [n for s in SOURCES for n in (s.rank, s.local_rank, *s.size) if n]
        wrong = [n for n in dict.fromkeys(names) if n in rank.env and number(rank.env, n) is None]
        own, size = number(rank.env, "RANK"), number(rank.env, "WORLD_SIZE")
        if wrong:
            bad.append(rank)
            evidence.append(
                f"{who(rank)}: {wrong[0]}={rank.env[wrong[0]][:40]!r} is no whole number"
            )
        elif own is not None and size is not None and own >= size:
            bad.append(rank)
            evidence.append(f"{who(rank)}: RANK={own} with WORLD_SIZE={size}")
    if bad:
        fix = (
            "export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS\n# in each task, from the launcher"
        )
        yield finding("SLURM_VAR_FORMAT", bad, evidence, fix, severity=Severity.ERROR)


def node_list(rank: RankRecord) -> tuple[str, ...]:
    """The hosts of the rank's step, or else its job; () where not told or not readable."""
    return _hosts(_listed(rank))


def node_names(rank: RankRecord) -> frozenset[str]:
    """The hosts of ``node_list``, each also by its name up to the first dot."""
    return _names(_listed(rank))


def _listed(rank: RankRecord) -> str:
    return next((rank.env[name] for name in _LISTS if rank.env.get(name)), "")


@lru_cache(maxsize=64)  # all ranks of a job have the same one
def _hosts(text: str) -> tuple[str, ...]:
    try:
        return tuple(expand_hostlist(text)) if text else ()
    except UsageError:
        return ()


@lru_cache(maxsize=64)
def _names(text: str) -> frozenset[str]:
    hosts = _hosts(text)
    return frozenset(hosts) | {host.partition(".")[0] for host in hosts}


def master_from_broken_parser(scene: Scene) -> Iterable[Finding]:
    """NODELIST_PARSE: MASTER_ADDR is what a hand-made parser leaves of SLURM_NODELIST, and no host."""
    for world in scene.worlds:
        bad, evidence = [], []
        for rank in world:
            hosts = node_list(rank)
            variable = next(
                (v for v in _MASTERS if _is_debris(_host(rank.env.get(v, "")), hosts, rank)), None
            )
            if variable:
                first = f", whose first host is {hosts[0]}" if hosts else ""
                name = next((n for n in _LISTS if rank.env.get(n)), None)
                listed = f"; {name}={rank.env[name]}" if name else ""
                bad.append(rank)
                evidence.append(
                    f"{who(rank)}: {variable}={rank.env[variable]!r} is no host{listed}{first}"
                )
        if bad:
            name = next(v for v in _MASTERS if v in bad[0].env)
            fix = f'export {name}=$(scontrol show hostnames "$SLURM_STEP_NODELIST" | head -n 1)'
            yield finding("NODELIST_PARSE", bad, evidence, fix)


def _host(address: str) -> str:
    """``node0`` of ``node0:1234``."""
    host, colon, port = address.rpartition(":")
    return host if colon and port.isdigit() and ":" not in host else address


def _is_debris(address: str, hosts: Sequence[str], rank: RankRecord) -> bool:
    """Whether ``address`` has a node list's punctuation, or is a mangled host of the list."""
    if not address or re.fullmatch(r"\[?[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*\]?", address):
        return False  # nothing, or an IPv6 address
    if re.search(r"[\[\],\s]", address):
        return True
    plain = not re.search(r"[.:]", address)
    return (
        plain
        and bool(hosts)
        and address not in (*hosts, *rank.reachable)
        and _mangled(address, hosts, rank)
    )


def _mangled(address: str, hosts: Sequence[str], rank: RankRecord) -> bool:
    """Whether ``address`` is the list without its brackets, or a host with its number cut or padded away."""
    text = next((rank.env[n] for n in _LISTS if rank.env.get(n)), "")
    unbracketed = re.sub(r"[\[\]]", "", text)
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
                "export WORLD_SIZE=$SLURM_STEP_NUM_TASKS MASTER_ADDR=$(scontrol"
                ' show hostnames "$SLURM_STEP_NODELIST" | head -n 1)\n# the step\'s variables, in each task'
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
    step = _hosts(rank.env["SLURM_STEP_NODELIST"])
    return bool(step) and address in _hosts(rank.env["SLURM_JOB_NODELIST"]) and address not in step


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
        fix = "srun COMMAND\n# in the batch script; code should ask SLURM_STEP_NUM_TASKS, not SLURM_NTASKS"
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
        twice = len({r.rank for r in groups}) < len(groups)
        apart = (len(sizes) > 1 and len(claims) > 1) or (beyond and len(masters) > 1)
        sure = bool(wrong or twice or apart)
        if groups and (
            sure or (not claims and max((s for s in sizes if s), default=0) < len(world))
        ):
            evidence = [
                f"{who(r)}: SLURM_NTASKS={r.env.get('SLURM_NTASKS')} of a heterogeneous job of"
                f" {r.env['SLURM_HET_SIZE']} components, WORLD_SIZE={r.env.get('WORLD_SIZE', 'unset')}"
                for r in groups
            ]
            fix = (
                "export WORLD_SIZE=$((SLURM_NTASKS_HET_GROUP_0+SLURM_NTASKS_HET_GROUP_1))"
                ' MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST_HET_GROUP_0" | head -n 1)'
                "\nsrun --het-group=0,1 COMMAND\n# the components added up"
            )
            severity = None if sure else Severity.INFO
            yield finding("SCOPE_MIX", groups, evidence, fix, severity=severity)


RULES = (
    compressed_counts,
    no_numbers,
    master_from_broken_parser,
    job_for_step,
    batch_shell_as_rank,
    heterogeneous_job,
)
