"""Fabrics as people have them, read from other tools' files: checked, broken and drawn."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from clusterlab.topology.checks.all_checks import check
from clusterlab.topology.drawing.layout import picture
from clusterlab.topology.failures.breaking import break_fabric
from clusterlab.topology.importing.files import read_files
from tests.support import shared_dir
from tests.topology.drawing.test_svg import WIDEST, overlaps

SAMPLES = (
    "ibnetdiscover/topograph_ndr_dgx.out",
    "ibnetdiscover/loginoff_topo.txt",
    "nccl_xml/dgx_a100_nccl_topo.xml",
    "slurm_topology/azure_cyclecloud_topology.txt",
    "topo_m/h_series_efa_26nic_partial.txt",
    "topo_m/dgx2_16gpu_nv6_partial.txt",
)


def sample(name: str) -> Path:
    path = shared_dir() / "samples" / name
    if not path.is_file():
        pytest.skip(f"no sample {name} here")
    return path


@pytest.mark.parametrize("name", SAMPLES)
def test_an_imported_fabric_is_drawn_whole_and_broken(name: str) -> None:
    fabric = read_files([sample(name)]).fabric
    pairs = sorted({(k.src, k.dst) for k in fabric.links if k.src != k.dst})
    broken = break_fabric(fabric, [f"{a}/{b}" for a, b in random.Random(name).sample(pairs, 3)])
    assert any(
        f.code in ("link_down", "host_down", "cut_off") or "_down" in f.code for f in check(broken)
    )
    for each in (fabric, broken):
        panel, _ = picture(each)
        assert panel.width <= WIDEST
        assert overlaps(panel) == []
