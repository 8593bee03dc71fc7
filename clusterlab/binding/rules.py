"""Joined looks → findings. Pure; a rule speaks only where what it says is certain.

Codes are stable. Each rule is a function from the looks of the ranks that came to findings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from clusterlab.binding.look import Look
from clusterlab.core.errors import ExitCode
from clusterlab.core.findings import Finding, Severity
from clusterlab.launch.identity import IdentityError
from clusterlab.launch.refusals import DeviceRecord, refusal_findings
from clusterlab.launch.roll_call import rank_words

_FATAL_IDENTITY = ("LAUNCHER_NESTED", "RANK_SINGLETON")


def diagnose(looks: Sequence[Look], missing: Sequence[int]) -> list[Finding]:
    """Everything found, causes before consequences. ``missing``: ranks of the job that did not come."""
    return [
        *missing_ranks(looks, missing),
        *(found for rule in _RULES for found in rule(looks)),
    ]


def exit_code(findings: Sequence[Finding], missing: Sequence[int]) -> ExitCode:
    """4 with ranks missing, 1 with a finding of severity error or above, else 0."""
    if missing:
        return ExitCode.DEADLINE
    bad = any(f.severity in (Severity.ERROR, Severity.FATAL) for f in findings)
    return ExitCode.FINDING if bad else ExitCode.OK


def identity_finding(error: IdentityError, host: str) -> Finding:
    """What ``error``, raised on ``host`` before anyone could be joined, is as a finding."""
    severity = Severity.FATAL if error.code in _FATAL_IDENTITY else Severity.ERROR
    evidence = f"on {host}: {error.message} (expected {error.expected})"
    return Finding(error.code, severity, (evidence,), error.fix or "", ranks=())


def missing_ranks(looks: Sequence[Look], missing: Sequence[int]) -> list[Finding]:
    """Ranks that did not arrive, and the hosts that lack one."""
    if not missing:
        return []
    evidence = [f"{rank_words(missing)} of {looks[0].world_size} did not arrive"]
    for host, there in _by_host(looks).items():
        expected = there[0].local_world_size
        if len(there) < expected:
            evidence.append(
                f"{host}: {len(there)} of its {expected} ranks arrived"
                f" ({rank_words([look.rank for look in there])})"
            )
    fix = (
        "see what the missing ranks printed and whether their processes are there (srun --label;"
        " ps on the node); a higher --deadline if they are only slow to start"
    )
    return [
        Finding("RANK_MISSING", Severity.FATAL, tuple(evidence), fix, ranks=tuple(sorted(missing)))
    ]


def refusals(looks: Sequence[Look]) -> list[Finding]:
    """What would be refused before NCCL's init: see ``launch.refusals``."""
    return refusal_findings([_device_record(look) for look in looks])


def one_core_for_all(looks: Sequence[Look]) -> list[Finding]:
    """Ranks of one host pinned to the same single core while other CPUs of the job have no rank."""
    found = []
    for host, there in _by_host(looks).items():
        used = {core for look in there for core in look.cores}
        capacity = min(look.cpus_here for look in there)
        idle = capacity - len(used)
        pinned: dict[int, list[Look]] = {}
        for look in there:
            if len(look.cores) == 1:
                pinned.setdefault(look.cores[0], []).append(look)
        for core, ranks in pinned.items():
            if len(ranks) < 2 or idle <= 0:
                continue
            names = [look.rank for look in ranks]
            evidence = (
                f"{rank_words(names)} on {host} may run on core {core} only, all of them, while"
                f" {idle} of the {capacity} CPUs the job has there are no rank's"
            )
            fix = _cores_fix(ranks[0], max(1, capacity // len(there)))
            found.append(
                Finding("CPU_SINGLE_CORE", Severity.ERROR, (evidence,), fix, ranks=tuple(names))
            )
    return found


def remote_gpus(looks: Sequence[Look]) -> list[Finding]:
    """Ranks whose cores are all in another NUMA domain than their GPU."""
    remote = [
        look
        for look in looks
        if look.gpu is not None
        and look.gpu.numa is not None
        and look.numa is not None
        and look.numa_cores  # a domain of memory only has no cores to be near
        and not set(look.cores) & set(look.numa_cores)
    ]
    if not remote:
        return []
    evidence = tuple(
        f"rank {look.rank} on {look.host}: GPU {look.gpu.bus_id} is in NUMA domain {look.gpu.numa},"
        f" its cores in {','.join(map(str, look.numa or ()))}"
        for look in remote
        if look.gpu
    )
    gpu = remote[0].gpu
    domain = gpu.numa if gpu else 0
    fix = (
        "leave the cores to slurm/launch.sh, which takes those next to the GPU: srun --cpu-bind=none …"
        ' "$(clusterlab path slurm)/launch.sh" COMMAND; or start'
        f" rank {remote[0].rank} with numactl --cpunodebind={domain} --membind={domain} COMMAND"
    )
    ranks = tuple(look.rank for look in remote)
    return [Finding("CPU_NUMA_REMOTE", Severity.WARNING, evidence, fix, ranks=ranks)]


_RULES: tuple[Callable[[Sequence[Look]], list[Finding]], ...] = (
    refusals,
    one_core_for_all,
    remote_gpus,
)


def _device_record(look: Look) -> DeviceRecord:
    return DeviceRecord(
        rank=look.rank,
        host=look.host,
        pid=look.pid,
        world_size=look.world_size,
        visible_count=look.visible_count or 0,
        ordinal=look.ordinal,
        gpu=f"{look.gpu.bus_id} ({look.gpu.uuid})" if look.gpu else None,
        problem=look.problem,
        launcher_world_size=look.launcher_world_size,
        launcher_variable=look.launcher_variable,
    )


def _by_host(looks: Sequence[Look]) -> dict[str, list[Look]]:
    hosts: dict[str, list[Look]] = {}
    for look in looks:
        hosts.setdefault(look.host, []).append(look)
    return hosts


def _cores_fix(look: Look, cores_each: int) -> str:
    if "SLURM_JOB_ID" in look.environment:
        return f"srun --cpu-bind=cores --cpus-per-task={cores_each} … (no map_cpu for one core)"
    if any(name.startswith("OMPI_COMM_WORLD_") for name in look.environment):
        return f"mpirun --map-by slot:PE={cores_each} --bind-to core …"
    return "start the launcher from a shell with all cores: see taskset -cp $$ there"
