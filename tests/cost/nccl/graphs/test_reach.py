"""What GPUs reach without a switch of their own: NICs over C2C, and EFA by generation."""

from __future__ import annotations

import pytest

from clusterlab.cost.nccl.communicator import Communicator
from clusterlab.cost.nccl.graphs import communicator
from clusterlab.cost.scoring.fabrics import fabric_for
from clusterlab.cost.scoring.machine import SystemDescription
from clusterlab.topology.place import place_on


def _comm(gpu: str, intra: str, inter: str, ranks: int) -> Communicator:
    fabric = fabric_for(SystemDescription("x", gpu, 2, ranks // 2, ranks, intra, inter))
    placement = place_on(fabric, ranks, ranks_per_host=ranks // 2)
    return communicator(fabric, placement.ranks, [r.device or "" for r in placement.ranks])


def test_one_gpu_on_c2c_runs_at_its_nics_speed() -> None:
    comm = _comm("GH200-120G", "none", "1x200G Slingshot-11", 2)
    ring, tree = comm.graphs["ring"], comm.graphs["tree"]
    assert (ring.channels, ring.inter_GBps) == (1, 24.0)
    assert (tree.channels, tree.inter_GBps) == (1, 24.0)


@pytest.mark.parametrize(
    ("gpu", "inter", "direct"),
    [
        ("T4", "EFA (1 NIC)", False),
        ("V100-SXM2-16G", "EFA 100G (1x100G)", False),
        ("A100-SXM4-40G", "EFA 400G (4x100G)", True),
        ("H100-SXM-80G", "EFA 3200G (32x100G)", True),
    ],
)
def test_efa_reaches_gpu_memory_from_a100_on(gpu: str, inter: str, direct: bool) -> None:
    ranks = 16 if direct else 2
    network = _comm(gpu, "nvswitch" if direct else "none", inter, ranks).network
    assert network is not None and network.gdr is direct
