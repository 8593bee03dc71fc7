"""Rules about containers: variables that were dropped, kept stale or injected (CONTAINER_ENV)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from clusterlab.binding.diagnose.masks import CVD, ordinals
from clusterlab.binding.diagnose.saying import finding, quoted, who
from clusterlab.binding.diagnose.scene import Scene, uses_elastic
from clusterlab.binding.diagnose.variables import IDENTITY_NAMES, decides_identity
from clusterlab.binding.records import RankRecord
from clusterlab.core.findings import Finding, Severity

_PMIX = re.compile(r"pmix|psec|OPAL ERROR: Unreachable", re.IGNORECASE)


def dropped_or_stale(scene: Scene) -> Iterable[Finding]:
    """The container lacks a deciding variable of its host, or has another value for it."""
    bad, evidence, names = [], [], set()
    for rank in scene.ranks:
        outside = rank.host_env
        if outside is None or rank.container is None:
            continue
        decisive = {n: v for n, v in outside.items() if decides_identity(n)}
        dropped = sorted(n for n in decisive if n not in rank.env)
        stale = sorted(n for n, v in decisive.items() if n in rank.env and rank.env[n] != v)
        if dropped or stale:
            bad.append(rank)
            names |= {*dropped, *stale}
            evidence += [f"{who(rank)}: {n} is not passed into the container" for n in dropped[:3]]
            evidence += [
                f"{who(rank)}: {n}={rank.env[n]} in the container, {decisive[n]} on the host"
                for n in stale
            ]
    if bad:
        yield finding("CONTAINER_ENV", bad, evidence, _pass_fix(bad[0], sorted(names)))


def _pass_fix(rank: RankRecord, names: list[str]) -> str:
    runtime = (rank.container.runtime if rank.container else None) or ""
    if runtime in ("enroot", "pyxis"):
        return f"srun --container-env={','.join(names)} COMMAND"
    if runtime in ("apptainer", "singularity"):
        return f"apptainer exec {' '.join(f'--env {n}=${n}' for n in names[:6])} IMAGE COMMAND"
    tool = "podman run" if runtime.startswith("podman") else "docker run"
    mount = " -v $PMIX_SERVER_TMPDIR:$PMIX_SERVER_TMPDIR" if any("PMIX" in n for n in names) else ""
    shown = " ".join(f"-e {n}" for n in names[:8])
    return f"{tool} {shown}{mount} --network=host --ipc=host IMAGE COMMAND"


def injected(scene: Scene) -> Iterable[Finding]:
    """Rank variables that a container's hook set for the task, which torchrun then set anew."""
    bad = [
        r
        for r in scene.ranks
        if r.container
        and uses_elastic(r)
        and any(n in (r.parent_env or {}) for n in IDENTITY_NAMES)
    ]
    if bad:
        rank = bad[0]
        set_here = [n for n in IDENTITY_NAMES if n in (rank.parent_env or {})]
        evidence = [
            f"{rank.container.runtime or 'the container' if rank.container else ''}'s hook sets"
            f" {', '.join(set_here)} for the task; torchrun's children have their own"
        ]
        fix = f"unset {' '.join(set_here)}\n# before anything but torchrun (enroot's 50-slurm-pytorch.sh)"
        yield finding("CONTAINER_ENV", bad, evidence, fix, severity=Severity.INFO)


def host_mask_inside(scene: Scene) -> Iterable[Finding]:
    """The host's GPU index handed into a container, where GPUs are numbered from 0."""
    bad = [
        r
        for r in scene.ranks
        if r.container
        and ordinals(r.env.get(CVD, ""))
        and r.env.get(CVD) == r.env.get("NVIDIA_VISIBLE_DEVICES")
        and not r.visible
        and (r.visible is not None or r.error)
    ]
    if bad:
        evidence = [
            f"{who(r)}: {CVD}={r.env[CVD]} and NVIDIA_VISIBLE_DEVICES={r.env['NVIDIA_VISIBLE_DEVICES']} in"
            f" {r.container.runtime or 'a container' if r.container else ''}"
            for r in bad
        ]
        yield finding(
            "CONTAINER_ENV", bad, evidence, f"unset {CVD}\n# in the container's entry point"
        )


def server_out_of_reach(scene: Scene) -> Iterable[Finding]:
    """MPI in a container alone or refused: what it needs of the PMIx server is not inside."""
    bad = []
    for rank in scene.ranks:
        said = _PMIX.search(f"{rank.error} {rank.stderr}")
        alone = rank.app_size == 1 and len(scene.ranks) > 1
        if rank.container and rank.host_env is None and (said or alone):
            bad.append(rank)
    if bad:
        evidence = [
            f"{who(r)}: {quoted(r.error or r.stderr) if r.error or r.stderr else 'rank 0 of 1 for MPI'}"
            for r in bad
        ]
        runtime = (bad[0].container.runtime if bad[0].container else None) or "container"
        fix = (
            f"# give {runtime} the server: pass PMIX_* and SLURM_*, mount $PMIX_SERVER_TMPDIR, and use"
            " the same PMIx (with munge, where PMIX_SECURITY_MODE asks for it) in the image"
        )
        yield finding("CONTAINER_ENV", bad, evidence, fix)


RULES = (dropped_or_stale, injected, host_mask_inside, server_out_of_reach)
