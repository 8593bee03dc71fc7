"""Labs of a fabric's design, with its switches and shaped links."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clusterlab.lab import lifecycle
from clusterlab.lab.fabric_of_lab import open_lab_fabric
from clusterlab.lab.labs import Lab
from clusterlab.lab.machine import observe, sized


@contextmanager
def fabric_lab(design: str, name: str, base: Path, share: Path) -> Iterator[Lab]:
    """A lab ``name`` of ``design``, routes pinned; its nodes see the folder ``share``."""
    found = open_lab_fabric(design, "pinned")
    identity = {"fabric": design, "fabric_digest": found.fabric.digest, "routing": found.routing}
    spec = sized(observe(), **found.shape, **identity)  # type: ignore[arg-type]
    yield lifecycle.up(spec, fabric=found, name=name, base=base, share=[share])
    lifecycle.down(name=name, base=base)
