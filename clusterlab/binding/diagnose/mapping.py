"""Rules about which rank drives which GPU."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from clusterlab.binding import fixes
from clusterlab.binding.diagnose.saying import finding, hardware, quoted, those, who
from clusterlab.binding.diagnose.scene import Device, Scene, by_host
from clusterlab.binding.diagnose.variables import RARE_LOCAL, WELL_KNOWN_LOCAL, number
from clusterlab.binding.records import RankRecord
from clusterlab.core.findings import Finding, Severity

_DUPLICATE = re.compile(r"duplicate gpu", re.IGNORECASE)
_MOST_GPUS = 16  # of a node, for guesses
_MPS = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")


def shared_devices(scene: Scene, ranks: Sequence[RankRecord]) -> dict[Device, list[RankRecord]]:
    """Devices that several ranks of one host drive, with those ranks."""
    drives: dict[Device, list[RankRecord]] = defaultdict(list)
    for rank in ranks:
        device = scene.device(rank) or _default_device(scene, rank)
        if device is not None:
            drives[device].append(rank)
    return {d: r for d, r in drives.items() if len(r) > 1}


def _default_device(scene: Scene, rank: RankRecord) -> Device | None:
    """What a rank works on that expects one GPU, as its options promise, and selects none: ordinal 0."""
    if rank.selected_device is not None or not rank.visible or not scene.options.binds_per_task:
        return None
    return Device(rank.host, rank.visible[0], scene.gpu_named(rank.host, rank.visible[0]))


def gpu_shared(scene: Scene) -> Iterable[Finding]:
    """GPU_SHARED_BY_RANKS: two ranks of one communicator drive one GPU."""
    for _, ranks in scene.hosts:
        shared = shared_devices(scene, ranks)
        if not shared:
            continue
        bad = [r for sharing in shared.values() for r in sharing]
        evidence = [f"{those(r)} drive {hardware(d)}" for d, r in shared.items()]
        evidence += [f"{who(r)}: {quoted(r.error)}" for r in bad if _DUPLICATE.search(r.error)][:1]
        served = any(name in r.env for r in bad for name in _MPS)
        refused = any(_DUPLICATE.search(r.error) for r in bad)
        severity = Severity.INFO if served and not refused else None  # MPS shares on purpose
        yield finding(
            "GPU_SHARED_BY_RANKS",
            bad,
            evidence,
            fixes.one_gpu_each(scene, ranks),
            severity=severity,
        )


def more_ranks_than_gpus(scene: Scene) -> Iterable[Finding]:
    """GPU_SHARED_BY_RANKS: more ranks on a host than GPUs they see together, whatever each selects."""
    for host, ranks in scene.hosts:
        if shared_devices(scene, ranks) or not all(r.visible for r in ranks):
            continue
        devices = {d for r in ranks for d in r.visible or ()}
        if len(ranks) > len(devices) and not any(name in r.env for r in ranks for name in _MPS):
            evidence = [f"{len(ranks)} ranks on {host} see {len(devices)} GPUs together"]
            yield finding("GPU_SHARED_BY_RANKS", ranks, evidence, fixes.one_gpu_each(scene, ranks))


def stray_context(scene: Scene) -> Iterable[Finding]:
    """DEVICE_NOT_SET: ranks hold a CUDA context on a GPU that is not theirs, usually ordinal 0."""
    bad, evidence = [], []
    own_gpus = _own_to_compute_on(scene)
    for rank in scene.ranks:
        own = rank.selected_device
        stray = [
            c
            for c in rank.contexts or ()
            if own is not None and c != own and _names(rank, c) not in own_gpus[id(rank)]
        ]
        if stray:
            bad.append(rank)
            evidence.append(
                f"{who(rank)}: selects ordinal {own}, holds a context on {stray[0]} too"
            )
    if bad:
        fix = (
            f"{fixes.set_device(bad)}\n"
            "# before anything touches CUDA; then"
            ' torch.load(FILE, map_location=f"cuda:{local_rank}"), dist.barrier(device_ids=[local_rank])'
        )
        yield finding("DEVICE_NOT_SET", bad, evidence, fix)


def _own_to_compute_on(scene: Scene) -> dict[int, set[str]]:
    """id of a rank → GPUs it computes on and no other rank drives or computes on.

    Several: a model is spread over them on purpose.
    """
    found: dict[int, set[str]] = {}
    for _, ranks in scene.hosts:
        counts: dict[str, int] = defaultdict(int)
        for rank in ranks:
            device = scene.device(rank)
            for key in {*(rank.used or ()), *([device.key] if device else [])}:
                counts[key] += 1
        for rank in ranks:
            found[id(rank)] = {key for key in rank.used or () if counts[key] == 1}
    return found


def _names(rank: RankRecord, ordinal: int) -> str | None:
    visible = rank.visible or ()
    return visible[ordinal] if 0 <= ordinal < len(visible) else None


def nothing_selected(scene: Scene) -> Iterable[Finding]:
    """DEVICE_NOT_SET: ranks that see the same GPUs and select none all land on the first.

    Information where the record only does not say what they select; an error where one GPU each was
    asked for, so that the program has no reason to select.
    """
    own_gpus = _own_to_compute_on(scene)
    for _, ranks in scene.hosts:
        first: dict[str, list[RankRecord]] = defaultdict(list)
        for rank in ranks:
            several = len(own_gpus[id(rank)]) > 1  # it selects by tensor, not once for all
            if rank.selected_device is None and len(rank.visible or ()) > 1 and not several:
                first[(rank.visible or ("",))[0]].append(rank)
        bad = [r for there in first.values() if len(there) > 1 for r in there]
        if bad:
            evidence = [
                f"{those(there)} see {len(there[0].visible or ())} GPUs and select none: all work on {gpu}"
                for gpu, there in first.items()
                if len(there) > 1
            ]
            fix = fixes.one_gpu_each(scene, ranks)
            severity = Severity.ERROR if scene.options.binds_per_task else Severity.INFO
            yield finding("DEVICE_NOT_SET", bad, evidence, fix, severity=severity)


def default_ordinal_everywhere(scene: Scene) -> Iterable[Finding]:
    """DEVICE_NOT_SET: all ranks of a host on ordinal 0 although each knows a local rank of its own."""
    for _, ranks in scene.hosts:
        same_view = len({r.visible for r in ranks}) == 1 and len(ranks[0].visible or ()) > 1
        if len(ranks) < 2 or not same_view or {r.selected_device for r in ranks} != {0}:
            continue
        told = [_told_local(r) for r in ranks]
        if None in told or len(set(told)) < len(ranks) or any(r.app_size == 1 for r in ranks):
            continue
        if any(set(r.used or ()) - set((r.visible or ())[:1]) for r in ranks):
            continue  # seen to work on others too
        evidence = [f"{those(ranks)} are told their local ranks and all stay on ordinal 0"]
        fix = fixes.paste(fixes.set_device(ranks), note="before the first CUDA call")
        yield finding("DEVICE_NOT_SET", ranks, evidence, fix)


def _told_local(rank: RankRecord) -> int | None:
    """The local rank by the first variable that frameworks look at."""
    return next(
        (number(rank.env, n) for n in (*WELL_KNOWN_LOCAL, *RARE_LOCAL) if n in rank.env), None
    )


def modulo_of_global_rank(scene: Scene) -> Iterable[Finding]:
    """RANK_MODULO_MISMAP: the device is the global rank modulo a fixed count, not the local rank."""
    for world in scene.worlds:
        known = [r for r in world if r.selected_device is not None and r.local_rank is not None]
        if len(known) < 2 or len(by_host(known)) < 2:
            continue
        off = [r for r in known if r.selected_device not in (r.local_rank, 0)]
        if not off:
            continue
        count = next((n for n in range(2, _MOST_GPUS + 1) if _fits(known, n)), None)
        if count is None:
            continue
        evidence = [
            f"{who(r)}: local rank {r.local_rank}, selects {r.selected_device} = {r.rank} % {count}"
            for r in off
        ]
        fix = fixes.paste(
            fixes.set_device(world), note=f"the launcher's local rank, not RANK % {count}"
        )
        yield finding("RANK_MODULO_MISMAP", off, evidence, fix)


def _fits(ranks: Sequence[RankRecord], count: int) -> bool:
    return all(r.selected_device == r.rank % count for r in ranks)


def idle_gpus(scene: Scene) -> Iterable[Finding]:
    """GPU_IDLE: GPUs of the job that no rank drives, where that is certain."""
    for host, ranks in scene.hosts:
        driven = {d.key for r in ranks if (d := scene.device(r) or _default_device(scene, r))}
        driven |= {p for r in ranks for p in r.used or ()}
        idle, severity = _left_over(scene, ranks, driven)
        if not idle:
            continue
        evidence = [f"{host}: {those(ranks)} drive {len(driven)}; idle: {idle}"]
        fix = fixes.one_gpu_each(scene, ranks)
        if len(ranks) == 1:
            fix = (
                "# start one task per GPU (srun --ntasks-per-node=N, torchrun --nproc_per_node=gpu), or hand"
                " all devices to the one process (jax: local_device_ids=range(N))"
            )
        yield finding("GPU_IDLE", ranks, evidence, fix, severity=severity)


def _left_over(
    scene: Scene, ranks: Sequence[RankRecord], driven: set[str]
) -> tuple[str, Severity | None]:
    """Which of the job's GPUs idle, in words; and how sure that is a fault."""
    seen = {p for r in ranks for p in r.visible or ()}
    owned = {p for r in ranks for p in r.allocated or ()}
    if any(r.used is not None for r in ranks) or any(
        (r.declared_devices or 0) > len(driven) for r in ranks
    ):
        return ", ".join(sorted((owned or seen) - driven)), None
    if shared_devices(scene, ranks):
        named = ", ".join(sorted((owned or seen) - driven))
        asked = scene.options.gpus_asked(len(scene.record.nodes) or 1)
        if not named and asked is not None and asked > len(driven):
            named = f"{asked - len(driven)} of the {asked} that were asked for"
        return named, None
    if not all(scene.device(r) for r in ranks):
        return "", None
    if owned:
        return ", ".join(sorted(owned - driven)), Severity.INFO  # a rank may use several
    asked = scene.options.gpus_asked(len(scene.record.nodes) or 1) or 0
    left = asked - len(seen if len(seen) < asked else driven)
    return f"{left} of the {asked} that were asked for" if left > 0 else "", Severity.INFO


RULES = (
    gpu_shared,
    more_ranks_than_gpus,
    stray_context,
    nothing_selected,
    default_ordinal_everywhere,
    modulo_of_global_rank,
    idle_gpus,
)
