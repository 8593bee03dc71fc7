"""What must not start: rules over the ranks' joined records, applied before NCCL's init can hang on them.

Each rule is a pure function from records to findings. Codes are those of the binding doctor.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from clusterlab.core.findings import Finding, Severity
from clusterlab.launch.claims import (
    Environ,
    Said,
    openmpi_claim,
    said,
    slurm_claim,
    torchrun_claim,
)
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.roll_call import Record, RefusedError, rank_words

_MOST_SHOWN = 4


def arrival_record(identity: RankIdentity) -> Record:
    """What a rank says of itself when it arrives."""
    return {
        "rank": identity.rank,
        "world_size": identity.world_size,
        "host": identity.host,
        "pid": os.getpid(),
        "source": identity.source,
    }


def check_arrivals(records: Sequence[Record]) -> RefusedError | None:
    """Refuse ranks that believe in jobs of different sizes."""
    sizes: dict[int, list[int]] = {}
    for record in records:
        sizes.setdefault(record["world_size"], []).append(record["rank"])
    if len(sizes) == 1:
        return None
    said_by = "; ".join(f"{size}: {rank_words(ranks)}" for size, ranks in sorted(sizes.items()))
    return RefusedError(
        f"ranks disagree on world_size ({said_by})",
        where="launch",
        expected=f"{len(records)} for all",
        fix="start the job by one launcher",
    )


@dataclass(frozen=True, slots=True)
class DeviceRecord:
    """One rank's device. ``gpu`` names the hardware by its UUID; None: unknown.

    ``ordinal`` counts within the ``visible_count`` devices this rank sees. ``problem`` is what kept the
    rank from choosing one. ``launcher_world_size`` is what its launcher says (with the variable's name).
    """

    rank: int
    host: str
    pid: int
    world_size: int
    visible_count: int
    ordinal: int | None = None
    gpu: str | None = None
    problem: str | None = None
    launcher_world_size: int | None = None
    launcher_variable: str | None = None


def launcher_world_size(environ: Environ) -> Said | None:
    """How many ranks the innermost launcher started, and the variable that says so."""
    torchrun = torchrun_claim(environ)
    if torchrun:
        return torchrun.world_size
    openmpi = openmpi_claim(environ)
    if openmpi:
        return openmpi.world_size
    slurm = slurm_claim(environ)
    return slurm.world_size if slurm else said(environ, "PMI_SIZE", minimum=1)


def refuse(records: Sequence[DeviceRecord]) -> RefusedError | None:
    """The first thing that forbids this job to start, as the error every rank is told."""
    findings = refusal_findings(records)
    if not findings:
        return None
    first = findings[0]
    shown = first.evidence[:_MOST_SHOWN]
    left_out = len(first.evidence) - len(shown) + len(findings) - 1
    more = f" (and {left_out} more)" if left_out else ""
    return RefusedError("; ".join(shown) + more, where=first.code, fix=first.fix)


def refusal_findings(records: Sequence[DeviceRecord]) -> list[Finding]:
    """Everything that forbids this job to start, causes before consequences."""
    return [
        *singletons(records),
        *wrong_world_size(records),
        *device_beyond_visible(records),
        *shared_gpus(records),
    ]


def singletons(records: Sequence[DeviceRecord]) -> list[Finding]:
    """Processes that believe they are rank 0 of 1 while their launcher started several."""
    alone = [
        r
        for r in records
        if r.world_size == 1 and r.launcher_world_size is not None and r.launcher_world_size > 1
    ]
    evidence = tuple(
        f"process {r.pid} on {r.host} believes it is rank 0 of 1,"
        f" but {r.launcher_variable}={r.launcher_world_size}"
        for r in alone
    )
    fix = "the ranks run as separate jobs: start all of them by one srun --mpi=pmix"
    return [_fatal("RANK_SINGLETON", evidence, fix, alone)] if alone else []


def wrong_world_size(records: Sequence[DeviceRecord]) -> list[Finding]:
    """A world size that is not what the launcher allocated."""
    wrong = [
        r
        for r in records
        if r.launcher_world_size is not None and r.world_size not in (1, r.launcher_world_size)
    ]
    evidence = tuple(
        f"rank {r.rank} on {r.host} counts {r.world_size} ranks,"
        f" but {r.launcher_variable}={r.launcher_world_size}"
        for r in wrong
    )
    fix = "start as many ranks as the job uses, or unset the WORLD_SIZE exported by hand"
    return [_fatal("WORLD_SIZE_MISMATCH", evidence, fix, wrong)] if wrong else []


def device_beyond_visible(records: Sequence[DeviceRecord]) -> list[Finding]:
    """Ranks that found no device for themselves, or chose one beyond those they see."""
    beyond = [
        r
        for r in records
        if r.problem or (r.ordinal is not None and not 0 <= r.ordinal < r.visible_count)
    ]
    evidence = tuple(
        f"rank {r.rank} on {r.host}: "
        + (r.problem or f"device {r.ordinal} of {r.visible_count} visible")
        for r in beyond
    )
    fix = (
        "give each rank its own GPU (srun --gpus-per-task=1), or all ranks of a node all its GPUs"
        " (--gpus-per-node equal to --ntasks-per-node)"
    )
    return [_fatal("CVD_LOCAL_RANK_MISMATCH", evidence, fix, beyond)] if beyond else []


def shared_gpus(records: Sequence[DeviceRecord]) -> list[Finding]:
    """Two ranks on one GPU: NCCL refuses them, or hangs."""
    users: dict[str, list[DeviceRecord]] = {}
    for record in records:
        if record.gpu is not None:
            users.setdefault(record.gpu, []).append(record)
    fix = "one GPU per rank: srun --gpus-per-task=1, or no more tasks on a node than it has GPUs"
    return [
        _fatal(
            "GPU_SHARED_BY_RANKS",
            (f"{rank_words([r.rank for r in ranks])} on {ranks[0].host} share GPU {gpu}",),
            fix,
            ranks,
        )
        for gpu, ranks in users.items()
        if len(ranks) > 1
    ]


def _fatal(
    code: str, evidence: tuple[str, ...], fix: str, records: Sequence[DeviceRecord]
) -> Finding:
    ranks = tuple(r.rank for r in records)
    return Finding(code, Severity.FATAL, evidence, fix, ranks=ranks)
