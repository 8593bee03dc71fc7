"""Who am I: the one RankIdentity every other module asks instead of ``os.environ``."""

from __future__ import annotations

import os
from dataclasses import dataclass

from clusterlab.core.errors import UsageError
from clusterlab.launch.claims import (
    Claim,
    Environ,
    Said,
    exported_claim,
    foreign_pmix,
    in_slurm_task,
    openmpi_claim,
    pmix_claim,
    said,
    slurm_claim,
    torchrun_claim,
)
from clusterlab.launch.pmix_types import PmixFacts

_COMPARED = ("rank", "world_size", "local_rank", "local_world_size")


@dataclass(frozen=True, slots=True)
class RankIdentity:
    """This process among the ranks of its job, in torch.distributed's words.

    ``source`` names who said so: ``local`` (forked by clusterlab), ``torchrun``, ``pmix``, ``slurm``,
    ``openmpi``, ``environment`` (RANK and WORLD_SIZE exported by hand) or ``single``.
    """

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    node_rank: int
    host: str
    source: str


@dataclass(frozen=True, slots=True)
class Detection:
    """An identity, or None where no launcher started this process, and how it was arrived at."""

    identity: RankIdentity | None
    notes: tuple[str, ...] = ()


class IdentityError(UsageError):
    """Launchers that do not fit together. ``code`` is the finding it makes in a diagnosis."""

    def __init__(self, code: str, message: str, *, where: str, expected: str, fix: str) -> None:
        super().__init__(message, where=where, expected=expected, fix=fix)
        self.code = code


def detect_identity(
    environ: Environ, pmix: PmixFacts | None = None, *, hostname: str | None = None
) -> RankIdentity | None:
    """This process's identity, or None when no launcher made it a rank (a shell, a batch script).

    See ``explain_identity``.
    """
    return explain_identity(environ, pmix, hostname=hostname).identity


def single_identity(hostname: str | None = None) -> RankIdentity:
    """Rank 0 of 1."""
    return RankIdentity(0, 1, 0, 1, 0, hostname or os.uname().nodename, "single")


def explain_identity(
    environ: Environ, pmix: PmixFacts | None = None, *, hostname: str | None = None
) -> Detection:
    """Ask PMIx, torchrun, Slurm, Open MPI and the RANK variables, in that order of trust.

    ``pmix`` is what this process's own PMIx server said (``foreign_pmix`` tells when it has none).
    A launcher inside another (torchrun or mpirun in a step with one task per node) owns the identity.
    Raises IdentityError when two launchers of the same level disagree, naming both variables and
    values, or when each task started a torchrun of its own; UsageError when a variable holds no number.
    """
    notes = []
    foreign = foreign_pmix(environ)
    if foreign:
        notes.append(f"PMIx ignored: {foreign}")
    from_pmix = None if foreign else pmix_claim(environ, pmix)
    from_slurm, from_openmpi = slurm_claim(environ), openmpi_claim(environ)
    if from_slurm and from_openmpi and _one_task_here(from_slurm):
        notes.append("mpirun inside a Slurm step with one task on this node: mpirun owns identity")
        from_slurm = None
    launchers = [c for c in (from_pmix, from_slurm, from_openmpi) if c]
    torchrun = torchrun_claim(environ)
    if torchrun:
        notes += _check_agents(environ, torchrun, launchers)
        claims = [torchrun]
    else:
        exported = exported_claim(environ)
        claims = launchers + ([exported] if exported else [])
    owner = _owner(claims)
    if owner is None:
        return Detection(None, tuple(notes))
    for other in claims:
        _refuse_contradiction(owner, other)
    host = _host(environ, pmix if owner is from_pmix else None, hostname)
    return Detection(_identity(owner, claims, host), tuple(notes))


def _one_task_here(slurm: Claim) -> bool:
    return slurm.local_world_size is not None and slurm.local_world_size.value == 1


def _check_agents(environ: Environ, torchrun: Claim, launchers: list[Claim]) -> list[str]:
    """torchrun inside a launcher: one agent per task of that launcher, all of them in one job.

    After an elastic restart fewer agents are normal (torchrun --nnodes=MIN:MAX).
    """
    outer = next((c for c in launchers if c.world_size), None)
    if outer is None or outer.world_size is None:
        return []
    agents = said(environ, "GROUP_WORLD_SIZE", minimum=1)
    restarts = said(environ, "TORCHELASTIC_RESTART_COUNT")
    if agents and agents.value != outer.world_size.value and not (restarts and restarts.value):
        raise IdentityError(
            "LAUNCHER_NESTED",
            f"torchrun says {agents}, but {outer.source} says {outer.world_size}: "
            "tasks started torchruns that do not form one job",
            where="rank identity",
            expected="one torchrun agent per task, all in one job",
            fix="use --ntasks-per-node=1, with torchrun --nnodes=NODES --rdzv-backend=c10d"
            " --rdzv-endpoint=FIRST_HOST:PORT",
        )
    return [f"torchrun inside {outer.source} ({outer.world_size}): torchrun owns identity"]


def _owner(claims: list[Claim]) -> Claim | None:
    """The first complete claim. Raises UsageError when a process has a rank but nobody knows the rest."""
    owner = next((c for c in claims if c.complete), None)
    if owner is not None:
        return owner
    for claim in claims:
        if claim.rank is None:
            continue  # WORLD_SIZE exported in a batch script makes nobody a rank
        missing = [name for name in _COMPARED if getattr(claim, name) is None]
        raise IdentityError(
            "LOCAL_RANK_UNDETECTED",
            f"{claim.rank} is set, but {', '.join(missing)} cannot be learned",
            where="rank identity",
            expected="a launcher's complete set of variables",
            fix="install libpmix2 so that PMIx can be asked, or start with srun or torchrun"
            if claim.source == "pmix"
            else "start with srun, torchrun or mpirun, or unset the variable",
        )
    return None


def _refuse_contradiction(owner: Claim, other: Claim) -> None:
    for name in _COMPARED:
        mine: Said | None = getattr(owner, name)
        theirs: Said | None = getattr(other, name)
        if mine and theirs and mine.value != theirs.value:
            separate = name == "world_size" and 1 in (mine.value, theirs.value)
            raise IdentityError(
                "RANK_SINGLETON" if separate else "IDENTITY_CONFLICT",
                f"{mine} ({owner.source}) contradicts {theirs} ({other.source})",
                where=f"rank identity: {name}",
                expected="launchers that agree",
                fix=_advice(name, owner, other),
            )


def _advice(name: str, owner: Claim, other: Claim) -> str:
    if name == "world_size" and 1 in (getattr(owner, name).value, getattr(other, name).value):
        return "ranks seem to run as separate jobs: start all of them by one srun --mpi=pmix"
    if other.source == "environment":
        return f"unset {getattr(other, name).variable}: {owner.source} already says it"
    return "start the ranks by one launcher only"


def _identity(owner: Claim, claims: list[Claim], host: str) -> RankIdentity:
    rank, world = owner.rank, owner.world_size
    local_rank, local_size = owner.local_rank, owner.local_world_size
    assert rank and world and local_rank and local_size  # complete
    for part, whole in ((rank, world), (local_rank, local_size), (local_size, world)):
        low = part.value < whole.value or (part is local_size and part.value == whole.value)
        if not low:
            raise UsageError(f"{part} does not fit {whole}", where="rank identity")
    node = next((c.node_rank for c in (owner, *claims) if c.node_rank), None)
    # Open MPI without libpmix names no node; its default mapping fills one node after the other
    node_rank = node.value if node else rank.value // local_size.value
    return RankIdentity(
        rank.value, world.value, local_rank.value, local_size.value, node_rank, host, owner.source
    )


def _host(environ: Environ, pmix: PmixFacts | None, hostname: str | None) -> str:
    """The node's name as the launcher knows it: several simulated nodes may share one hostname."""
    if pmix and pmix.hostname:
        return pmix.hostname
    if environ.get("SLURM_JOB_ID") and environ.get("SLURMD_NODENAME"):
        return environ["SLURMD_NODENAME"]
    return hostname or os.uname().nodename


__all__ = [
    "Detection",
    "IdentityError",
    "RankIdentity",
    "detect_identity",
    "explain_identity",
    "in_slurm_task",
    "single_identity",
]
