"""Whether a prediction is one for where ranks are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterlab.core.placement import Placement, RankPlacement, local_placement
from clusterlab.topology.design.load import load_fabric
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.match import place_like
from clusterlab.verdict.mapping import mapping_doubt

PCI = [f"0000:{number}b:00.0" for number in range(1, 9)]


def observed(gpus: list[str | None], name: str | None = "NVIDIA H100 80GB HBM3") -> Placement:
    return Placement(
        tuple(
            RankPlacement(rank, "host", rank, gpu=gpu, gpu_name=name)
            for rank, gpu in enumerate(gpus)
        )
    )


@pytest.fixture
def design() -> Fabric:
    return load_fabric("hgx-h100")


@pytest.fixture
def discovered(design: Fabric) -> Fabric:
    """The same, with the bus ids that a discovery knows."""
    gpus = [device.name for device in design.of_kind("gpu")]
    devices = tuple(
        replace(device, pci=PCI[gpus.index(device.name)]) if device.name in gpus else device
        for device in design.devices
    )
    return replace(design, devices=devices)


def doubt(fabric: Fabric, placement: Placement) -> str | None:
    return mapping_doubt(fabric, placement, place_like(fabric, placement))


def test_a_design_knows_no_bus_ids_and_doubts_none(design: Fabric) -> None:
    assert doubt(design, observed([*PCI])) is None
    assert doubt(design, observed([*reversed(PCI)])) is None


def test_ranks_are_placed_on_the_gpus_that_they_have(discovered: Fabric) -> None:
    for order in ([*PCI], [*reversed(PCI)], PCI[4:6], [f"0000{PCI[3].upper()}"]):
        placement = observed([*order])
        placed = place_like(discovered, placement)
        found = [discovered.device(rank.device or "").pci for rank in placed.ranks]
        assert found == [
            one.lower().removeprefix("0000") if len(one) > 12 else one for one in order
        ]
        assert mapping_doubt(discovered, placement, placed) is None


def test_a_gpu_that_the_fabric_does_not_have_is_elsewhere(discovered: Fabric) -> None:
    said = doubt(discovered, observed([PCI[0], "0000:ff:00.0"]))
    assert said is not None
    assert "mapped unlike the prediction" in said and "rank 1 on 0000:ff:00.0" in said


def test_another_kind_of_gpu_is_another_prediction(design: Fabric) -> None:
    said = doubt(design, observed([*PCI[:2]], "NVIDIA H200"))
    assert said is not None and "NVIDIA H200" in said
    assert doubt(design, observed([*PCI[:2]], None)) is None
    assert doubt(design, observed([*PCI[:2]], "a card nobody knows")) is None


def test_ranks_without_gpus_are_not_what_a_fabric_of_gpus_predicts(design: Fabric) -> None:
    said = doubt(design, local_placement(2, "host", cores=(0, 1)))
    assert said is not None and "rank 0 has none" in said
