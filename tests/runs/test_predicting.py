"""Which fabric a sweep is predicted on, and what is said when it is another machine's."""

from __future__ import annotations

from clusterlab.core.placement import Placement, RankPlacement, local_placement
from clusterlab.runs.predicting import choose_model


def test_a_fabric_of_gpus_for_ranks_without_is_said() -> None:
    note = choose_model(local_placement(2, "here"), "gloo", "hgx-h100", None).note
    assert note is not None
    assert "hgx-h100 describes GPUs" in note


def test_simulated_gpus_and_real_ones_are_as_described() -> None:
    assert choose_model(local_placement(2, "here"), "gloo", "lab-2x4", None).note is None
    gpus = Placement(
        tuple(RankPlacement(r, "h", r, gpu_name="NVIDIA H100 80GB HBM3") for r in range(2))
    )
    assert choose_model(gpus, "nccl", "hgx-h100", None).note is None
