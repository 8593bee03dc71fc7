"""Causes inside a node: peer access, NVLink SHARP, a slow link. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator

from clusterlab.verdict.why.candidate import Candidate
from clusterlab.verdict.why.changes import with_link_share
from clusterlab.verdict.why.scene import Scene

_MEMORY = (0.5, 0.8, 1.3, 2.2, 4.0)
"""How many times slower than the model's host memory a host may be: hosts differ, the model knows two."""

_SHARES = (0.85, 0.75, 0.65, 0.55, 0.45, 0.35, 0.25, 0.125)


def of_links(scene: Scene) -> Iterator[Candidate]:
    """Candidates of causes that need two ranks of a node."""
    if scene.per_node < 2:
        return
    yield from _without_peers(scene)
    yield from _without_nvls(scene)
    for share in _SHARES:
        slower = scene.log_curve(with_link_share(scene.world, share))
        yield Candidate("SLOW_LINK", f"one link at {share:.0%}", slower, rate=0.05)


def _without_peers(scene: Scene) -> Iterator[Candidate]:
    if scene.world.comm.host_memory:
        return
    curve = scene.under({"NCCL_P2P_DISABLE": "1", "NCCL_NVLS_ENABLE": "0"})
    if curve is None:
        return
    nbytes = scene.bytes_share(curve)
    for slower in _MEMORY:
        what = "NCCL_P2P_DISABLE=1" + ("" if slower == 1 else f", host memory {slower:g}x slower")
        yield Candidate(
            "P2P_DISABLED", what, curve + math.log(slower) * nbytes, rate=0.35, model=0.25
        )


def _without_nvls(scene: Scene) -> Iterator[Candidate]:
    if not any(name.startswith("nvls") for name, _ in scene.choices):
        return
    curve = scene.under({"NCCL_NVLS_ENABLE": "0"})
    if curve is not None:
        yield Candidate("NVLS_OFF", "NCCL_NVLS_ENABLE=0", curve, rate=0.06)
