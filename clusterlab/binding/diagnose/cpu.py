"""Rules about a rank's cores: too few, far from its GPU, left over from elsewhere, or too many threads."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from clusterlab.binding import core_fixes, fixes
from clusterlab.binding.diagnose.saying import finding, quoted, those, who
from clusterlab.binding.diagnose.scene import Scene
from clusterlab.binding.diagnose.variables import number
from clusterlab.binding.records import RankRecord
from clusterlab.core.findings import Finding, Severity
from clusterlab.core.order import number_list

# A rank needs a core for its program, one for NCCL's proxy and some for data loading: with this many
# cores of the node for each rank, one alone is no choice anyone made.
_AMPLE_CORES = 8
_TINY_MASK = 2
_SMALL_PART = 8  # one mask for all ranks, of at most an eighth of the cores, is nobody's choice
_NOT_POSITIVE = re.compile(r"\s*(?:-[0-9]+|[+-]?0+)\s*(?:,.*)?", re.ASCII)
_OMP_DEFAULT = re.compile(r"Setting OMP_NUM_THREADS environment variable")


def _capacity(scene: Scene, ranks: Sequence[RankRecord]) -> int:
    """Cores of the node that the job may use: as Slurm says, else all; 0 where not known."""
    node = scene.node(ranks[0])
    there = sum(len(c) for c in node.numa.values()) if node else 0
    given = number(ranks[0].env, "SLURM_CPUS_ON_NODE")
    return min(there, given) if given else there


def _share(scene: Scene, ranks: Sequence[RankRecord]) -> int:
    """Those cores for each of the node's ranks."""
    return _capacity(scene, ranks) // fixes.tasks_per_node(ranks)


def _all_cores(scene: Scene, ranks: Sequence[RankRecord]) -> frozenset[int]:
    """The node's cores; where they are not known one that no mask has."""
    node = scene.node(ranks[0])
    cores = frozenset[int]().union(*node.numa.values()) if node else frozenset[int]()
    return cores or frozenset({-1})


def one_core(scene: Scene) -> Iterable[Finding]:
    """CPU_SINGLE_CORE: a rank confined to one core.

    An error where it was to have more: by SLURM_CPUS_PER_TASK, by its threads, by sharing the core with
    another rank, or, outside Slurm, because the node has plenty. Slurm gives one core where one is asked.
    """
    for _, ranks in scene.hosts:
        whole = _all_cores(scene, ranks)
        known = [
            r for r in ranks if r.cpus and not whole <= r.cpus
        ]  # all there are: no mask at all
        single = [r for r in known if len(r.cpus or ()) == 1]
        idle = _capacity(scene, ranks) - len(frozenset[int]().union(*(r.cpus or () for r in known)))
        tiny: dict[frozenset[int], list[RankRecord]] = defaultdict(list)
        for rank in known:
            if len(rank.cpus or ()) <= _TINY_MASK:
                tiny[rank.cpus or frozenset()].append(rank)
        crowded = (
            [r for there in tiny.values() if len(there) > 1 for r in there] if idle > 0 else []
        )
        bad = list({id(r): r for r in (*single, *crowded)}.values())
        if not bad:
            continue
        share = _share(scene, ranks)
        reasons = [w for r in bad if (w := _meant_more(r))]
        if crowded and idle > 0:
            cores = number_list(crowded[0].cpus or frozenset())
            reasons.append(f"{those(crowded)} share cores {cores}")
        if not scene.under_slurm and share >= _AMPLE_CORES:
            reasons.append(f"the node has {share} cores for each rank")
        evidence = [
            f"{who(r)}: may run on core {number_list(r.cpus or frozenset())} only" for r in bad
        ]
        evidence += list(dict.fromkeys(reasons))
        fix = core_fixes.more_cores(
            scene, ranks, fixes.own_cpus(scene, bad) or _threads(bad) or share
        )
        severity = Severity.ERROR if reasons else Severity.INFO
        yield finding("CPU_SINGLE_CORE", bad, evidence, fix, severity=severity)


def _meant_more(rank: RankRecord) -> str | None:
    asked = number(rank.env, "SLURM_CPUS_PER_TASK")
    threads = rank.omp_threads or number(rank.env, "OMP_NUM_THREADS")
    have = len(rank.cpus or ())
    if asked and asked > have:
        return f"SLURM_CPUS_PER_TASK={asked}"
    return f"{threads} OpenMP threads" if threads and threads > have else None


def _threads(ranks: Sequence[RankRecord]) -> int:
    return max((number(r.env, "OMP_NUM_THREADS") or 0 for r in ranks), default=0)


def _wanted(ranks: Sequence[RankRecord]) -> int:
    return max((number(r.env, "SLURM_CPUS_PER_TASK") or 0 for r in ranks), default=0)


def far_from_gpu(scene: Scene) -> Iterable[Finding]:
    """CPU_NUMA_REMOTE: none of a rank's cores is in its GPU's NUMA domain."""
    for _, ranks in scene.hosts:
        bad, evidence = [], []
        for rank in ranks:
            device, node = scene.device(rank), scene.node(rank)
            if not rank.cpus or device is None or device.gpu is None or node is None:
                continue
            numa = device.gpu.numa
            near = node.numa.get(numa) if numa is not None and numa >= 0 else None
            if not near or rank.cpus & near:
                continue  # a domain without cores has none to be near
            where = [d for d, cpus in node.numa.items() if rank.cpus & cpus]
            bad.append(rank)
            evidence.append(
                f"{who(rank)}: GPU {device.key} is in NUMA domain {numa}, cores {number_list(rank.cpus)}"
                f" in {','.join(map(str, where)) or 'none known'}"
            )
        if bad:
            yield finding("CPU_NUMA_REMOTE", bad, evidence, core_fixes.near_cores(scene, ranks))


def inherited_mask(scene: Scene) -> Iterable[Finding]:
    """CPU_MASK_INHERITED: one small mask for several tasks: that of the shell or step they came from."""
    for _, ranks in scene.hosts:
        masks = {r.cpus for r in ranks}
        if len(ranks) < 2 or len(masks) != 1 or not ranks[0].cpus:
            continue
        have = len(ranks[0].cpus)
        asked = _wanted(ranks)
        tasks = len(scene.tasks(ranks))
        per_task = tasks > 1 and asked > have
        small = have * _SMALL_PART <= _capacity(scene, ranks) and have <= len(ranks)
        under_other = tasks <= 1 and small
        listed = {
            r.env.get("SLURM_CPU_BIND_LIST") or r.env.get("SLURM_CPU_BIND", "") for r in ranks
        }
        one = next(iter(listed)) if len(listed) == 1 else ""
        one_for_all = tasks > 1 and "0x" in one and one.count("0x") == 1 and have < len(ranks)
        if not per_task and not under_other and not one_for_all:
            continue
        if tasks > 1 and core_fixes.listed_cores(scene, ranks):
            continue  # this step's own option names the cores
        evidence = [f"{those(ranks)}: all have cores {number_list(ranks[0].cpus)}"]
        if asked > have:
            evidence.append(f"SLURM_CPUS_PER_TASK={asked}")
        if one:
            evidence.append(f"SLURM_CPU_BIND: {one}")
        cores = fixes.own_cpus(scene, ranks) or max(_share(scene, ranks), 2)
        fix = fixes.paste(
            "unset ${!SLURM_CPU_BIND*}",
            fixes.step(scene, ranks, "--cpu-bind=cores", cpus=cores),
            note="unset before submitting, or sbatch --export=NONE",
        )
        if tasks <= 1:
            fix = fixes.paste(
                "srun --cpu-bind=none --overlap -n1 LAUNCHER COMMAND",
                note="the launcher with all cores of the job",
            )
        if tasks <= 1 and "SLURM_JOB_ID" not in ranks[0].env and not scene.under_slurm:
            fix = "taskset -cp 0-$(($(nproc --all)-1)) $$\n# in the shell, before the launcher"
        severity = None if have < len(ranks) or per_task or one_for_all else Severity.INFO
        yield finding("CPU_MASK_INHERITED", ranks, evidence, fix, severity=severity)


def openmp_threads(scene: Scene) -> Iterable[Finding]:
    """OMP_THREADS: OpenMP threads that do not fit the cores of a rank."""
    for _, ranks in scene.hosts:
        many, few, evidence = [], [], []
        sharing: dict[frozenset[int], int] = defaultdict(int)
        for rank in ranks:
            sharing[rank.cpus or frozenset()] += 1
        defaulted = any(_OMP_DEFAULT.search(r.stderr) for r in ranks)
        for rank in ranks:
            if not rank.cpus:
                continue
            cores = max(len(rank.cpus) // sharing[rank.cpus], 1)
            threads = rank.omp_threads or number(rank.env, "OMP_NUM_THREADS")
            if threads and threads > len(rank.cpus):
                many.append(rank)
                evidence.append(f"{who(rank)}: {threads} OpenMP threads on {len(rank.cpus)} cores")
            elif rank.omp_threads and rank.omp_threads > cores and sharing[rank.cpus] > 1:
                many.append(rank)
                evidence.append(
                    f"{who(rank)}: {threads} OpenMP threads, {cores} cores are its share"
                )
            elif threads == 1 and cores >= _AMPLE_CORES:
                few.append(rank)
                evidence.append(f"{who(rank)}: OMP_NUM_THREADS=1 with {cores} cores")
        if not many and not few:
            continue
        bad = [*many, *few]
        if defaulted:
            evidence.append(quoted(next(r.stderr for r in ranks if _OMP_DEFAULT.search(r.stderr))))
        first = bad[0].cpus or frozenset()
        cores = max(len(first) // sharing[first], 1)
        severity = None if many or defaulted else Severity.INFO  # 1 may be meant
        fix = f"export OMP_NUM_THREADS={cores}\n# cores per rank"
        yield finding("OMP_THREADS", bad, evidence, fix, severity=severity)


def openmp_not_positive(scene: Scene) -> Iterable[Finding]:
    """OMP_THREADS: a number of threads below 1, which OpenMP does not allow (5.2, section 21.1.2)."""
    bad = [r for r in scene.ranks if _NOT_POSITIVE.fullmatch(r.env.get("OMP_NUM_THREADS", ""))]
    if bad:
        evidence = [
            f"{who(r)}: OMP_NUM_THREADS={r.env['OMP_NUM_THREADS']} is not a number of threads"
            for r in bad
        ]
        there = [r for r in scene.ranks if r.host == bad[0].host and r.cpus == bad[0].cpus]
        cores = max(len(bad[0].cpus or ()) // len(there), 1)
        fix = f"export OMP_NUM_THREADS={cores}\n# cores per rank"
        yield finding("OMP_THREADS", bad, evidence, fix if bad[0].cpus else "unset OMP_NUM_THREADS")


def numa_unknown(scene: Scene) -> Iterable[Finding]:
    """NUMA_UNKNOWN: the kernel gives no NUMA node for GPUs, as in many virtual machines."""
    for host, ranks in scene.hosts:
        node = scene.record.nodes.get(host)
        lost = [g for g in node.gpus if g.numa is not None and g.numa < 0] if node else []
        if lost:
            evidence = [f"{host}: numa_node is -1 for {len(lost)} of its GPUs ({lost[0].pci}, …)"]
            fix = (
                "export NCCL_TOPO_FILE=FILE\n# FILE from the cloud vendor for this machine type; for the"
                " cluster: expose vNUMA and PCI topology to the guest"
            )
            yield finding("NUMA_UNKNOWN", ranks, evidence, fix)


RULES = (one_core, far_from_gpu, inherited_mask, openmp_threads, openmp_not_positive, numa_unknown)
