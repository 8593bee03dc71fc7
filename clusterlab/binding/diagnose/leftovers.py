"""Rules about variables that belong to another shell, step or job (STALE_ENV)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from clusterlab.binding.diagnose.saying import finding, those, who
from clusterlab.binding.diagnose.scene import Scene, by_host, uses_elastic
from clusterlab.binding.diagnose.slurm_identity import node_list, node_names
from clusterlab.binding.diagnose.variables import IDENTITY_NAMES, number
from clusterlab.binding.records import RankRecord
from clusterlab.core.findings import Finding, Severity
from clusterlab.launch.claims import foreign_pmix


def another_jobs_variables(scene: Scene) -> Iterable[Finding]:
    """STALE_ENV: Slurm's variables name nodes this process is not on, or every process repeats them."""
    for world in scene.worlds:
        bad, evidence = [], []
        for rank in world:
            listed = node_list(rank)
            named = (
                rank.env.get("SLURMD_NODENAME") in listed
            )  # a node's name need not be its host's
            strange = listed and not named and rank.host.partition(".")[0] not in node_names(rank)
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
            fix = "unset ${!SLURM_*}\n# before launching by other means than srun; or launch with srun"
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
            "unset SLURM_NTASKS SLURM_PROCID\n# in the interactive shell (or salloc/srun --job-name=bash); or"
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
            fix = "unset ${!SLURM_CPU_BIND*}\n# before sbatch, or sbatch --export=NONE"
            yield finding("STALE_ENV", ranks, evidence, fix)


def inherited_pmix(scene: Scene) -> Iterable[Finding]:
    """STALE_ENV: PMIX_NAMESPACE of another step; information where nothing suffers from it."""
    bad = [(r, why) for r in scene.ranks if not uses_elastic(r) and (why := foreign_pmix(r.env))]
    if bad:
        ranks = [r for r, _ in bad]
        harmed = any(r.app_size == 1 or r.error for r in ranks)
        severity = None if harmed else Severity.INFO
        evidence = [f"{who(r)}: {why}" for r, why in bad]
        fix = "unset ${!PMIX_*}\n# before launching, or launch outside the step (sbatch --export=NONE)"
        yield finding("STALE_ENV", ranks, evidence, fix, severity=severity)


def shell_variables(scene: Scene) -> Iterable[Finding]:
    """STALE_ENV: rank variables the launching shell already had, promising more processes than there are."""
    for world in scene.worlds:
        bad, evidence = [], []
        same = len(world) > 1 and len({r.env.get("RANK") for r in world}) == 1
        for rank in world:
            kept = _kept(rank)
            size = number(rank.env, "WORLD_SIZE")
            promised = size is not None and size > len(world) + len(scene.record.missing_ranks)
            if kept and not uses_elastic(rank) and (promised or same):
                bad.append(rank)
                words = ", ".join(f"{n}={rank.env[n]}" for n in kept)
                evidence.append(f"{who(rank)}: {words} from the launching shell")
        if bad:
            fix = f"unset {' '.join(IDENTITY_NAMES)}\n# in the shell, before launching"
            yield finding("STALE_ENV", bad, evidence, fix)


def _kept(rank: RankRecord) -> list[str]:
    """Identity variables with the value they had in the launching shell."""
    shell = rank.parent_env or {}
    return [n for n in IDENTITY_NAMES if n in shell and rank.env.get(n) == shell[n]]


RULES = (
    another_jobs_variables,
    interactive_step,
    outer_step_binding,
    inherited_pmix,
    shell_variables,
)
