"""The fabric that a run was predicted on, read again."""

from __future__ import annotations

from contextlib import suppress

from clusterlab.core.errors import ClusterlabError
from clusterlab.records.documents import FabricReference, read_fabric
from clusterlab.records.run_dir import RunDir
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.opening import open_fabric


def fabric_of_run(run: RunDir, *, unchanged: bool = True) -> Fabric | None:
    """None where there was none, or none that can be read any more, or, ``unchanged``, another one by now.

    Raises UsageError for a damaged fabric.yaml.
    """
    reference = read_fabric(run.path)
    return None if reference is None else _referred_to(run, reference, unchanged=unchanged)


def _referred_to(run: RunDir, reference: FabricReference, *, unchanged: bool) -> Fabric | None:
    if "host" in reference.overrides:
        return None
    typed = run.info.configuration.get("fabric")
    # A shipped design is referred to by its file's name.
    for name in filter(None, (typed, reference.design, reference.design.removesuffix(".yaml"))):
        with suppress(ClusterlabError):
            fabric = open_fabric(str(name))
            if not unchanged or fabric.digest == reference.sha256:
                return fabric
    return None
