"""Rules about who a process is: nested launchers, launchers that disagree, unknown ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from clusterlab.binding import fixes
from clusterlab.binding.diagnose.saying import finding, quoted, those, who
from clusterlab.binding.diagnose.scene import Scene, uses_elastic
from clusterlab.binding.diagnose.variables import (
    DETECTS,
    RARE_LOCAL,
    SOURCES,
    TORCH,
    WELL_KNOWN_LOCAL,
    Source,
    number,
)
from clusterlab.binding.records import RankRecord
from clusterlab.core.findings import Finding


def nested_launchers(scene: Scene) -> Iterable[Finding]:
    """LAUNCHER_NESTED: every task of a node started a spawner of its own, for more GPUs than there are."""
    for host, ranks in scene.hosts:
        source, tasks = _spawning_tasks(ranks)
        if source is None or len(tasks) < 2:
            continue
        each = max(max(len(t), _declared_local(t)) for t in tasks.values())
        devices = [scene.device(r) for r in ranks]
        apart = None not in devices and len(set(devices)) == len(devices)
        if each < 2 or (apart and each * len(tasks) <= fixes.gpus_per_node(scene, ranks)):
            continue  # one spawner per socket with GPUs of its own is fine
        evidence = [
            f"{host}: {len(tasks)} tasks ({source.rank}), each started {each} processes:"
            f" {len(tasks) * each} on {fixes.gpus_per_node(scene, ranks)} GPUs"
        ]
        gpus = fixes.gpus_per_node(scene, ranks)
        spawner = fixes.step(
            scene, ranks, tasks=1, gpus=gpus, cpus=_all_their_cores(scene, ranks, tasks)
        )
        spawner = spawner.replace("COMMAND", _one_spawner(gpus))
        fix = (
            f"{spawner}\n# one spawner per node; or keep {len(tasks)} tasks per node and start python"
            " without torchrun"
        )
        yield finding("LAUNCHER_NESTED", ranks, evidence, fix)


def _one_spawner(gpus: int) -> str:
    """torchrun for a node; the task's own shell expands Slurm's variables, not the batch script's."""
    torchrun = f"torchrun --nnodes=$SLURM_NNODES --nproc_per_node={gpus} --node_rank=$SLURM_NODEID"
    return f"bash -c 'exec {torchrun} SCRIPT'"


def _all_their_cores(
    scene: Scene, ranks: Sequence[RankRecord], tasks: Mapping[int, Sequence[RankRecord]]
) -> int | None:
    """The cores of a node's tasks together, for the one task that stands for them."""
    own = fixes.own_cpus(scene, ranks)
    return own * len(tasks) if own else None


def _spawning_tasks(
    ranks: Sequence[RankRecord],
) -> tuple[Source | None, dict[int, list[RankRecord]]]:
    """The launcher whose tasks have children, and the processes by task."""
    for source in SOURCES:
        if source.rank is None or source is TORCH:
            continue
        tasks: dict[int, list[RankRecord]] = defaultdict(list)
        for rank in ranks:
            value = number(rank.env, source.rank)
            if value is not None:
                tasks[value].append(rank)
        spawns = [t for t in tasks.values() if len(t) > 1 or _declared_local(t) > 1]
        if len(tasks) > 1 and len(spawns) == len(tasks):
            return source, tasks
    return None, {}


def _declared_local(ranks: Sequence[RankRecord]) -> int:
    """LOCAL_WORLD_SIZE where torchrun wrote it: how many processes its agent started."""
    sizes = [number(r.env, "LOCAL_WORLD_SIZE") or 0 for r in ranks if uses_elastic(r)]
    return max(sizes, default=0)


def disagreement(scene: Scene) -> Iterable[Finding]:
    """IDENTITY_CONFLICT: an outer launcher numbers each process, and an inner variable says otherwise.

    Children of a spawner differ from its task rightly: there the outer number is not the process's own.
    """
    for world in scene.worlds:
        for outer in SOURCES:
            if outer is TORCH or not scene.process_level(world, outer):
                continue
            off = [(r, words) for r in world if (words := _contradicted(r, outer, world))]
            if not off:
                continue
            evidence = [f"{who(r)}: {words}" for r, words in off]
            pairs = [
                f"{inner}=${mine}"
                for mine, inner in (
                    (outer.rank, "RANK"),
                    (outer.local_rank, "LOCAL_RANK"),
                    (outer.size[0] if outer.size else None, "WORLD_SIZE"),
                )
                if mine
            ]
            fix = f"export {' '.join(pairs)}; exec COMMAND\n# in a wrapper of the task"
            yield finding("IDENTITY_CONFLICT", [r for r, _ in off], evidence, fix)
            break


def _contradicted(rank: RankRecord, outer: Source, world: Sequence[RankRecord]) -> str | None:
    """What an inner source says differently, in words."""
    for inner in SOURCES:
        if inner.depth <= outer.depth or (inner is TORCH and uses_elastic(rank)):
            continue
        for mine, theirs in ((outer.rank, inner.rank), (outer.local_rank, inner.local_rank)):
            a, b = number(rank.env, mine), number(rank.env, theirs)
            if a is None or b is None or a == b:
                continue
            if theirs == inner.local_rank and b == 0 and len(rank.visible or ()) == 1:
                continue  # told to take ordinal 0 of the one device it sees
            return f"{mine}={a}, {theirs}={b}"
    return None


def spawner_conflict(scene: Scene) -> Iterable[Finding]:
    """IDENTITY_CONFLICT beside LAUNCHER_NESTED: node ranks that are task numbers."""
    for host, ranks in scene.hosts:
        source, tasks = _spawning_tasks(ranks)
        groups = {number(r.env, "GROUP_RANK") for r in ranks if uses_elastic(r)} - {None}
        if source is None or len(tasks) < 2 or len(groups) < 2 or len(groups) != len(tasks):
            continue
        evidence = [f"{host} alone has node ranks {sorted(g for g in groups if g is not None)[:8]}"]
        gpus = fixes.gpus_per_node(scene, ranks)
        start = fixes.step(
            scene, ranks, tasks=1, gpus=gpus, cpus=_all_their_cores(scene, ranks, tasks)
        )
        fix = (
            f"{start.replace('COMMAND', _one_spawner(gpus))}\n# one torchrun per node; not $SLURM_PROCID;"
            " each task expands $SLURM_NODEID: in a batch script it is 0 for all"
        )
        yield finding("IDENTITY_CONFLICT", ranks, evidence, fix)


def inherited_identity(scene: Scene) -> Iterable[Finding]:
    """STALE_ENV: rank variables of an outer shell or step that every process repeats."""
    for world in scene.worlds:
        bad, evidence = [], []
        own = [s for s in SOURCES if scene.process_level(world, s)]
        for rank in world:
            for source in SOURCES:
                value = number(rank.env, source.rank)
                parent = rank.parent_env or {}
                same = value is not None and parent.get(source.rank or "") == str(value)
                if uses_elastic(rank) and source.depth < TORCH.depth:
                    continue  # the agent's task: its workers rightly carry its number
                outer = [s for s in own if s.depth != source.depth or s is not source]
                if not outer or source in own or value is None or value == rank.rank:
                    continue
                inherited_mpi = source.name in ("openmpi", "mvapich") and _constant(world, source)
                if same or inherited_mpi:
                    bad.append(rank)
                    evidence.append(
                        f"{who(rank)}: {source.rank}={value} comes from the launching shell"
                    )
        if bad:
            names = sorted(
                {n for s in SOURCES for n in (s.rank, s.local_rank) if n and s not in own}
            )
            here = [n for n in names if any(n in r.env for r in bad)]
            fix = f"unset {' '.join(here)}\n# before launching, or launch from a fresh shell (env -i bash -l)"
            yield finding("STALE_ENV", bad, evidence, fix)


def _constant(world: Sequence[RankRecord], source: Source) -> bool:
    return len({number(r.env, source.rank) for r in world}) == 1 and len(world) > 1


def local_rank_unknown(scene: Scene) -> Iterable[Finding]:
    """LOCAL_RANK_UNDETECTED: the launcher sets no variable that the program knows, so it falls back to 0."""
    for _, ranks in scene.hosts:
        if len(ranks) < 2:
            continue
        rare = [n for n in RARE_LOCAL if all(n in r.env for r in ranks)]
        known = [n for n in WELL_KNOWN_LOCAL if any(n in r.env for r in ranks)]
        first = {r.selected_device for r in ranks} == {0} and any(
            len(r.visible or ()) > 1 for r in ranks
        )
        name = (ranks[0].framework or "").partition("-")[0].lower()
        looks_for = DETECTS.get(name)
        launched = any(number(r.env, s.rank) is not None for r in ranks for s in SOURCES)
        blind = (
            looks_for is not None
            and launched
            and not any(v in r.env for r in ranks for v in looks_for)
            and (first or all(r.app_size == 1 for r in ranks))
        )
        if not blind and not (first and not known and launched):
            continue
        sets = (
            rare
            or known
            or [s.rank for s in SOURCES if s.rank and number(ranks[0].env, s.rank) is not None]
        )
        reads = f"; {name} looks for {', '.join(looks_for)}" if blind and looks_for else ""
        evidence = [
            f"{those(ranks)}: the launcher sets {', '.join(map(str, sets))}{reads}; all take device 0"
        ]
        evidence += [f"{who(r)}: {quoted(r.error)}" for r in ranks if "local" in r.error.lower()][
            :1
        ]
        variable = next((n for n in (*rare, *known) if n != "LOCAL_RANK"), None)
        fix = f"export LOCAL_RANK=${variable or sets[0]}; exec COMMAND\n# in a wrapper of the task"
        if name == "jax":
            fix = (
                "import jax; jax.distributed.initialize(cluster_detection_method='mpi4py')\n"
                "# or jax 0.4.35 or later"
            )
        yield finding("LOCAL_RANK_UNDETECTED", ranks, evidence, fix)


RULES = (
    nested_launchers,
    disagreement,
    spawner_conflict,
    inherited_identity,
    local_rank_unknown,
)
