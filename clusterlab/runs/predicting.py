"""Which fabric a sweep runs on, and what each of its points should take there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from clusterlab.core.placement import Placement
from clusterlab.core.rows import Point, Predicted
from clusterlab.records.documents import FabricReference, write_fabric, write_placement
from clusterlab.runs.plan import SweepConfig
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.host import host_fabric, read_host
from clusterlab.topology.place import place_on


@dataclass(frozen=True, slots=True)
class Model:
    fabric: Fabric
    placement: Placement
    reference: FabricReference

    def write(self, folder: Path) -> None:
        write_placement(folder, self.placement)
        write_fabric(folder, self.reference)


def model_local(config: SweepConfig, world_size: int) -> Model:
    facts = read_host()
    fabric = host_fabric(facts)
    return Model(fabric, place_on(fabric, world_size), FabricReference("host", "x"))


def predict_points(points: Sequence[Point], model: Model) -> dict[Point, Predicted]:
    return {}
