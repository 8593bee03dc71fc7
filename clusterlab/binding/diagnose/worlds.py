"""Rules about the world ranks form: its size, ranks taken twice, processes alone, uneven hosts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from clusterlab.binding import fixes
from clusterlab.binding.diagnose.saying import finding, quoted, those, who
from clusterlab.binding.diagnose.scene import Scene, by_host, uses_elastic
from clusterlab.binding.diagnose.variables import SOURCES, TORCH, number, size_of
from clusterlab.binding.records import RankRecord
from clusterlab.core.findings import Finding, Severity


def world_size(scene: Scene) -> Iterable[Finding]:
    """WORLD_SIZE_MISMATCH: WORLD_SIZE against the launcher's size and the processes that exist."""
    for world in scene.worlds:
        declared = Counter(size_of(r.env, TORCH) for r in world if size_of(r.env, TORCH))
        sizes = sorted({said[1] for said in declared if said})
        evidence = []
        if len(sizes) > 1:
            evidence.append(f"WORLD_SIZE differs between ranks: {', '.join(map(str, sizes))}")
        launched = scene.launcher_size(world)
        size = sizes[0] if len(sizes) == 1 else None
        if size is not None and launched and launched[1] != size and not uses_elastic(world[0]):
            evidence.append(f"WORLD_SIZE={size}, the launcher says {launched[0]}={launched[1]}")
        exist = len({(r.host, r.rank, id(r)) for r in world}) + len(scene.record.missing_ranks)
        if size is not None and exist > size:
            evidence.append(f"WORLD_SIZE={size}, but {exist} processes are there")
        complete = {r.rank for r in world} == set(range(len(world)))
        if (
            size is not None
            and exist < size
            and complete
            and len(scene.record.nodes) == len(by_host(world))
        ):
            evidence.append(f"WORLD_SIZE={size}, but only ranks 0 to {len(world) - 1} are there")
        if evidence:
            yield finding("WORLD_SIZE_MISMATCH", world, evidence, _world_size_fix(world, launched))


def _world_size_fix(world: Sequence[RankRecord], launched: tuple[str, int] | None) -> str:
    if launched:
        source = next((s for s in SOURCES if launched[0] in s.size), None)
        rank = f" RANK=${source.rank}" if source and source.rank else ""
        return f"export WORLD_SIZE=${launched[0]}{rank}\n# in the task, so that each reads its own"
    return f"export WORLD_SIZE={len(world)}\n# for these; or start WORLD_SIZE processes"


def claimed_world_unlike_step(scene: Scene) -> Iterable[Finding]:
    """WORLD_SIZE_MISMATCH: one process where the variables promise several, and it waits for them."""
    for world in scene.worlds:
        if len(world) != 1 or scene.record.missing_ranks or len(scene.ranks) > 1:
            continue
        rank = world[0]
        tasks = number(rank.env, "SLURM_STEP_NUM_TASKS") or number(rank.env, "SLURM_NTASKS")
        wanted = rank.declared_devices
        if wanted and tasks and wanted > tasks and rank.env.get("SLURM_PROCID"):
            evidence = [f"{who(rank)}: told to use {wanted} devices, SLURM_NTASKS={tasks}"]
        elif tasks and tasks > 1 and "wait" in rank.error.lower():
            evidence = [f"{who(rank)}: SLURM_NTASKS={tasks}, one process; {quoted(rank.error)}"]
        else:
            continue
        fix = "srun COMMAND\n# starts SLURM_NTASKS tasks; without srun: unset SLURM_NTASKS SLURM_PROCID"
        yield finding("WORLD_SIZE_MISMATCH", world, evidence, fix)


def duplicate_ranks(scene: Scene) -> Iterable[Finding]:
    """RANK_DUPLICATE: one global rank for several processes of a world."""
    for world in scene.worlds:
        taken: dict[int, list[RankRecord]] = defaultdict(list)
        for rank in world:
            own = number(rank.env, "RANK")
            taken[rank.rank if own is None else own].append(rank)
        if all(size_of(r.env, TORCH) == ("WORLD_SIZE", 1) for r in world) and len(world) > 1:
            continue  # each believes it is alone: another rule's matter
        twice = {n: r for n, r in taken.items() if len(r) > 1}
        if not twice:
            continue
        bad = [r for there in twice.values() for r in there]
        evidence = [
            f"global rank {n}: {', '.join(f'{r.host} (local rank {r.local_rank})' for r in there[:6])}"
            for n, there in twice.items()
        ]
        fix = _duplicate_fix(scene, bad)
        yield finding("RANK_DUPLICATE", bad, evidence, fix)


def _duplicate_fix(scene: Scene, ranks: Sequence[RankRecord]) -> str:
    if any("OMPI_COMM_WORLD_RANK" in r.env for r in ranks):
        return (
            "export RANK=$OMPI_COMM_WORLD_RANK LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK\n"
            "# in a wrapper that mpirun starts for each rank"
        )
    if scene.under_slurm:
        return (
            "srun bash -c 'exec torchrun --node_rank=$SLURM_NODEID SCRIPT'\n"
            "# the task expands the variable, not the batch shell: single quotes, or \\$SLURM_NODEID"
        )
    return "# give every process its own RANK: torchrun --node_rank differs on every node"


def believes_it_is_alone(scene: Scene) -> Iterable[Finding]:
    """RANK_SINGLETON: several processes were started, each is rank 0 of 1 for itself."""
    for world in scene.worlds:
        alone = [r for r in world if r.app_size == 1 or size_of(r.env, TORCH) == ("WORLD_SIZE", 1)]
        launched = scene.launcher_size(world)
        started = max(len(world), launched[1] if launched else 1)
        if started < 2 or len(alone) < len(world):
            continue
        by = f" ({launched[0]}={launched[1]})" if launched else ""
        evidence = [f"{those(world)}: each believes it is rank 0 of 1; {started} were started{by}"]
        fix = fixes.paste(
            fixes.step(scene, world, "--mpi=pmix"), note="srun --mpi=list shows what this Slurm has"
        )
        if not scene.under_slurm:
            fix = (
                "ldd COMMAND | grep mpi\n# start with the mpirun of the MPI library it is linked to"
            )
        elif all(r.app_size is None for r in world):
            numbers = "WORLD_SIZE=$SLURM_NTASKS RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID"
            fix = fixes.paste(f"export {numbers}", note="in the task")
        yield finding("RANK_SINGLETON", world, evidence, fix)


def uneven_counts(scene: Scene) -> Iterable[Finding]:
    """UNEVEN_TASKS: hosts with different numbers of tasks; an error where the program assumed equal ones."""
    for world in scene.worlds:
        counts = {host: len(there) for host, there in by_host(world).items()}
        complete = {r.rank for r in world} == set(
            range(len(world))
        ) and not scene.record.missing_ranks
        if len(set(counts.values())) < 2 or not complete:
            continue
        wrong = [
            r for r in world if number(r.env, "LOCAL_WORLD_SIZE") not in (None, counts[r.host])
        ]
        evidence = [", ".join(f"{host}: {n} tasks" for host, n in counts.items())]
        evidence += [f"{who(r)}: LOCAL_WORLD_SIZE={r.env['LOCAL_WORLD_SIZE']}" for r in wrong]
        each = -(-len(world) // len(counts))
        fix = (
            f"{fixes.step(scene, world, tasks=each)}\n# in code read SLURM_STEP_TASKS_PER_NODE, not"
            " SLURM_NTASKS // SLURM_NNODES"
        )
        severity = None if wrong else Severity.INFO
        yield finding("UNEVEN_TASKS", wrong or world, evidence, fix, severity=severity)


RULES = (
    world_size,
    claimed_world_unlike_step,
    duplicate_ranks,
    believes_it_is_alone,
    uneven_counts,
)
