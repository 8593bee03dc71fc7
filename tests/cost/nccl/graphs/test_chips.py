"""What a chip is taken for whose model says nothing: by its NVLinks, one by one or all as one."""

from __future__ import annotations

import pytest

from clusterlab.cost.nccl.graphs.chips import chip
from clusterlab.formats.pci_names import compute_capability, gpu_chips
from clusterlab.topology.design.load import list_designs, load_fabric
from clusterlab.topology.fabric import Fabric

DESIGNS = [name for name in list_designs() if name not in ("host", "lab-2x4")]


def nvlinks(fabric: Fabric) -> tuple[str | None, list[tuple[float, int]]]:
    """The model of the first GPU, and of each bundle of its NVLinks the GB/s of one and how many."""
    gpu = fabric.on_host(fabric.hosts[0], "gpu")[0]
    links = [k for k in fabric.links_from(gpu.name) if k.link_class == "nvlink"]
    return gpu.model, [(k.GBps, k.multiplicity) for k in links if k.GBps is not None]


@pytest.mark.parametrize("design", DESIGNS)
def test_all_nvlinks_as_one_say_the_generation_of_a_known_chip(design: str) -> None:
    model, links = nvlinks(load_fabric(design))
    if model is not None and links:
        as_one = chip(None, sum(GBps * count for GBps, count in links)).capability or 0
        assert as_one // 10 == (chip(model).capability or 0) // 10


def test_a_gpu_whose_model_nobody_says_is_none_of_a_generation_with_half_its_links() -> None:
    model, links = nvlinks(load_fabric("alibaba-hpn"))
    assert (model, links) == (None, [(360.0, 1)])  # NCCL counts 240 on an A100, 370.8 on an H100
    assert chip(model, links[0][0]).capability == 90


@pytest.mark.parametrize("GBps", [None, 0.0, 5.0])
def test_without_a_rate_that_says_anything_it_is_ncclS_general_case(GBps: float | None) -> None:
    assert chip(None, GBps).capability == 80


@pytest.mark.parametrize("first", [17.0, 53.2])
def test_faster_links_are_never_an_older_chip(first: float) -> None:
    rates = [first * 1.02**i for i in range(200)]
    rates = [r for r in rates if r <= 53.125] if first < 50 else rates
    found = [chip(None, r).capability or 0 for r in rates]
    assert found == sorted(found)
    assert len(set(found)) >= 4


@pytest.mark.parametrize("sm", [60, 70, 75, 80, 86, 89, 90, 100, 103, 120])
def test_a_generation_that_an_import_names_is_taken_at_its_word(sm: int) -> None:
    """Whatever rate its links have: a V100's NVLink counts like an A100's."""
    for GBps in (None, 12.0, 20.0, 40.1):
        assert chip(f"sm_{sm}", GBps).capability == sm


@pytest.mark.parametrize("model", ["gfx906", "gfx908", "gfx90a", "gfx942", "AMD INSTINCT MI200"])
def test_every_architecture_of_amd_goes_by_rccl(model: str) -> None:
    assert (chip(model).library, chip(model).capability) == ("rccl", None)


@pytest.mark.parametrize("short", [name for name in gpu_chips() if not name.startswith("MI")])
def test_both_tables_of_chips_agree(short: str) -> None:
    assert chip(short).capability == compute_capability(short)
    assert chip(f"NVIDIA {short} 80GB").capability == compute_capability(f"NVIDIA {short} 80GB")
