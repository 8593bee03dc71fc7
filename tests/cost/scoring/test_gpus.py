"""GPUs by their whole names: none is taken for its relative, and what is unknown is said."""

from __future__ import annotations

import string

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.cost.scoring.gpus import read_gpu
from clusterlab.cost.scoring.machine import SystemDescription, machine_of
from clusterlab.cost.scoring.vocabulary import letters, vocabulary
from clusterlab.topology.design.load import list_designs

UNKNOWN = [
    *("MI250X", "MI210", "MI100", "MI350P", "MI455X", "AMD Instinct MI250X (8 GCDs)", "MI300"),
    *("A100X", "H100L", "B200A", "A2", "A16", "K80", "P100-SXM2", "T4G", "L400", "H1000", "GB2000"),
    *("RTX4090 Laptop", "RTX 2070", "Quadro RTX 6000", "TITAN V", "GH200 NVL2", "H100 CNX"),
    *("Gaudi3", "TPU v5p", "Ascend 910B", "Intel Data Center GPU Max 1550", "Blackwell", "R100 Rubin"),
    *("VR200", "H100 MIG 1g.10gb", "MI300X CPX", "B60", "MTT S4000"),
]  # fmt: skip


def described(
    gpu: str, intra: str = "", *, each: int = 8, system: str = "here"
) -> SystemDescription:
    return SystemDescription(system, gpu, 1, each, each, intra, "none")


def spelled() -> dict[str, str]:
    """Each name of the vocabulary as letters and digits, with its chip."""
    found = {}
    for chip in vocabulary().chips:
        for text in (chip, chip.replace("_", " "), chip.replace("_", "-").upper()):
            found[text] = chip
    return found


@pytest.mark.parametrize("text", spelled())
def test_a_chip_is_found_by_its_name_however_it_is_spelled(text: str) -> None:
    for written in (text, f"NVIDIA {text}", f"8x{text}", f"{text} 80GB", f"{text} (assumed)"):
        found = read_gpu(written, "somewhere")
        assert (found.chip, found.stands_for, found.names) == (spelled()[text], None, None), written


@pytest.mark.parametrize("name", spelled())
def test_one_more_letter_or_digit_is_another_gpu(name: str) -> None:
    """MI300A is no MI300X, A100X no A100, H1000 no H100: a longer word is known itself or not at all."""
    bare = letters(name)
    known = {letters(n): c for n, c in spelled().items()}
    for more in (*string.ascii_lowercase, *string.digits, "xl", "max"):
        for word in (bare + more, more + bare):
            found = read_gpu(word, "")
            if found.stands_for is not None:
                assert letters(found.stands_for) == word
            elif found.chip is not None:
                assert known.get(word) == found.chip, word


@pytest.mark.parametrize("cell", UNKNOWN)
def test_an_unknown_gpu_is_never_taken_for_a_relative(cell: str) -> None:
    """Neither by its links, nor by the slug, nor as one GPU of a cloud."""
    links = ("", "xgmi-mesh", "nvswitch3-900", "nvlink4", "pcie5", "nvlink5-nvl72")
    for intra in links:
        for system in ("here", "mi300x", "dgx-h100", "aws-p5"):
            for each in (1, 8):
                with pytest.raises(UsageError) as caught:
                    machine_of(described(cell, intra, each=each, system=system))
                assert caught.value.where == "gpu" and cell in caught.value.message


@pytest.mark.parametrize(
    "slug", ["mi250x", "mi210_pcie", "frontier-mi250x", "p100_sxm", "gaudi3", "rtx_2070"]
)
@pytest.mark.parametrize("intra", ["", "xgmi", "nvswitch2"])
def test_nor_is_an_unknown_slug(slug: str, intra: str) -> None:
    with pytest.raises(UsageError, match="no known GPU"):
        machine_of(described("", intra, system=slug))


@pytest.mark.parametrize(
    "cell", ["", "unknown", "unknown (8 GPUs)", "NVIDIA GPU", "8 GPUs per node", "80GB", "?", "n/a"]
)
def test_a_cell_that_names_no_gpu_leaves_it_to_slug_and_links_and_says_so(cell: str) -> None:
    assert machine_of(described(cell, system="dgx-h100")).chip.name == "h100"
    by_links = machine_of(described(cell, "nvswitch2-600"))
    assert by_links.chip.name == "a100" and by_links.assumed == ("a100 by its nvswitch2",)


@pytest.mark.parametrize(
    ("cell", "chip", "said"),
    [
        ("L40", "l40s", "l40"),
        ("L40S", "l40s", None),
        ("A10", "a10g", "a10"),
        ("MI308X", "mi300x", "mi308x"),
        ("RTX 4080 SUPER", "rtx_4090", "rtx 4080 super"),
        ("GeForce RTX 3090 Ti", "rtx_3090", "rtx 3090 ti"),
        ("Hopper-SXM", "h100", "hopper"),
        ("RTX A5000", "rtx_a6000", "rtx a5000"),
        ("A6000 Ada", "rtx_6000_ada", None),
        ("H20-3e", "h20", None),
    ],
)  # fmt: skip
def test_a_relative_stands_in_where_the_vocabulary_says_so_and_is_named(
    cell: str, chip: str, said: str | None
) -> None:
    found = machine_of(described(cell, each=2))
    assert found.chip.name == chip
    assert (f"links of {chip} for {said}" in found.assumed) == (said is not None)


def test_a_b200_in_a_rack_is_a_gb200_and_that_is_said() -> None:
    found = machine_of(SystemDescription("x", "B200", 18, 4, 72, "nvlink5-nvl72", "none"))
    assert (found.chip.name, found.racks, found.assumed) == ("gb200", 1, ("gb200 by its rack",))


@pytest.mark.parametrize(
    ("device", "chip", "cards"),
    [
        ("NVIDIA H100 80GB HBM3", "h100", False),
        ("NVIDIA H100 PCIe", "h100", True),
        ("NVIDIA H100 NVL", "h100", True),
        ("NVIDIA H200", "h200", False),
        ("NVIDIA H200 NVL", "h200", True),
        ("NVIDIA H20", "h20", False),
        ("NVIDIA H800", "h800", False),
        ("NVIDIA A800-SXM4-80GB", "a800", False),
        ("NVIDIA A100-SXM4-80GB", "a100", False),
        ("NVIDIA A100-SXM-64GB", "a100", False),
        ("NVIDIA A100-PCIE-40GB", "a100", True),
        ("NVIDIA A100 80GB PCIe", "a100", True),
        ("A100-SXM4-40GB", "a100", False),
        ("NVIDIA B200", "b200", False),
        ("NVIDIA B300 SXM6 AC", "b300", False),
        ("NVIDIA GB200", "gb200", False),
        ("NVIDIA GB300", "gb300", False),
        ("NVIDIA GB10", "gb10", True),
        ("NVIDIA GH200 120GB", "gh200", False),
        ("NVIDIA GH200 480GB", "gh200", False),
        ("Tesla V100-SXM2-16GB", "v100", False),
        ("Tesla V100-PCIE-32GB", "v100", True),
        ("Tesla V100S-PCIE-32GB", "v100s", True),
        ("Tesla T4", "t4", True),
        ("NVIDIA A10G", "a10g", True),
        ("NVIDIA A10", "a10g", True),
        ("NVIDIA A30", "a30", True),
        ("NVIDIA A40", "a40", True),
        ("NVIDIA L4", "l4", True),
        ("NVIDIA L40", "l40s", True),
        ("NVIDIA L40S", "l40s", True),
        ("NVIDIA RTX A6000", "rtx_a6000", True),
        ("NVIDIA RTX 6000 Ada Generation", "rtx_6000_ada", True),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx_pro_6000", True),
        ("NVIDIA GeForce RTX 4090", "rtx_4090", True),
        ("NVIDIA GeForce RTX 2080 Ti", "rtx_2080_ti", True),
        ("AMD Instinct MI300X", "mi300x", False),
        ("AMD_Instinct_MI300X_OAM", "mi300x", False),
        ("AMD Instinct MI300A", "mi300a", False),
        ("AMD Instinct MI355X", "mi355x", False),
    ],
)
def test_devices_are_known_by_the_names_their_drivers_print(
    device: str, chip: str, cards: bool
) -> None:
    """What ``clusterlab import`` writes of a log's device list."""
    found = machine_of(described(device, each=1))
    assert (found.chip.name, found.build.cards) == (chip, cards)


def test_of_several_chips_the_first_named_is_taken_and_the_rest_said() -> None:
    found = machine_of(described("H100 or H200"))
    assert found.chip.name == "h100" and found.assumed == ("h100 of h100, h200",)


@pytest.mark.parametrize(
    ("gpu", "intra", "host", "model"),
    [
        ("H100 PCIe", "", "pcie", "H100-PCIe-80GB"),
        ("H100", "pcie5", "pcie", "H100-PCIe-80GB"),
        ("H100-SXM", "", "hgx-h100", "H100-SXM5-80GB"),
        ("H100NVL", "", "pcie", "H100-NVL-94GB"),
        ("H800 PCIe", "pcie5", "pcie", "H800-PCIe-80GB"),
        ("H200 PCIe", "", "pcie", "H200-NVL-141GB"),
        ("H100-SXM", "nvlink4-mesh", "mesh", "H100-SXM5-80GB"),
        ("A100-SXM4-40G", "NVLink3 mesh", "mesh", "A100-SXM4-80GB"),
        ("V100-SXM3", "nvswitch", "dgx-2", "V100-SXM3-32GB"),
        ("V100-SXM2", "nvlink2-mesh", "mesh", "V100-SXM2-32GB"),
        ("V100-SXM2", "hybrid cube mesh", "dgx-1v", "V100-SXM2-32GB"),
        ("GB200 NVL4", "", "mesh", "GB200"),
        ("MI300A", "xgmi", "mesh", "MI300A"),
    ],
)
def test_a_form_is_what_cell_and_links_say(gpu: str, intra: str, host: str, model: str) -> None:
    build = machine_of(described(gpu, intra, each=4)).build
    assert (build.host, build.model) == (host, model)


@pytest.mark.parametrize(
    ("gpu", "intra", "host"),
    [("V100-SXM2", "nvlink2 mesh", "dgx-1v"), ("H100", "nvlink4-mesh", "hgx-h100")],
)
def test_no_mesh_has_eight_gpus(gpu: str, intra: str, host: str) -> None:
    assert machine_of(described(gpu, intra)).build.host == host


@pytest.mark.parametrize(
    ("gpu", "intra", "place"),
    [
        ("B200 PCIe", "pcie5", "gpu"),
        ("H20 PCIe", "", "gpu"),
        ("MI300X PCIe", "", "gpu"),
        ("RTX 4090", "nvlink4", "intra_fabric"),
        ("L40S", "nvlink pairs", "intra_fabric"),
        ("L40S", "nvswitch3", "intra_fabric"),
        ("MI300X", "nvswitch3-900", "intra_fabric"),
        ("H100-SXM", "xgmi-mesh", "intra_fabric"),
        ("MI300A", "xgmi", "gpus_per_node"),  # eight of them in a node
    ],
)
def test_what_no_such_gpu_has_is_refused(gpu: str, intra: str, place: str) -> None:
    with pytest.raises(UsageError) as caught:
        machine_of(described(gpu, intra))
    assert caught.value.where == place


@pytest.mark.parametrize(
    ("gpu", "intra", "said"),
    [
        ("H100-PCIE-80G", "nvswitch3-900", "although the GPU is said to be pcie"),
        ("H100-SXM-80G", "none", "although intra_fabric says none"),
    ],
)
def test_cells_that_disagree_are_said(gpu: str, intra: str, said: str) -> None:
    assert any(said in line for line in machine_of(described(gpu, intra)).assumed)


def test_the_vocabulary_is_whole() -> None:
    words = vocabulary()
    for chip in words.chips.values():
        for build in chip.forms.values():
            assert build.cards or build.host == "mesh" or build.host in list_designs(), chip.name
            assert (build.host == "mesh") == (build.joint is not None), chip.name
            assert build.host != "mesh" or build.gpus, chip.name
            assert build.pcie in words.pcie_GBps
    named = {*words.chip_of_family.values(), *words.chip_of_link.values(), words.chip_unsaid}
    named |= {chip for _, chip in words.chip_of_system} | words.efa_first_chips
    usual = {chip for chips in words.usual_nics.values() for chip in chips} - {"other"}
    assert named | usual <= set(words.chips)
    assert set(words.usual_nics) <= {t.name for t in words.transports}
    assert len({p.pattern for p, _ in words.chip_patterns}) == len(words.chip_patterns)


@pytest.mark.parametrize(
    ("gpu", "system", "chip", "form"),
    [
        ("H100-SXM-80G", "dgx-h100", "h100", "sxm"),
        ("H100-SXM(assumed)", "x", "h100", "sxm"),
        ("A100-PCIE-40G", "x", "a100", "pcie"),
        ("NVIDIA RTX PRO 6000 Blackwell", "x", "rtx_pro_6000", None),
        ("", "rtx_pro_6000", "rtx_pro_6000", None),
        ("", "h200_sxm", "h200", "sxm"),
        ("", "b300_sxm", "b300", "sxm"),
        ("", "gb300", "gb300", None),
        ("", "h100_nvl", "h100", "nvl"),
        ("", "l40s", "l40s", None),
        ("GB200", "x", "gb200", None),
        ("H20", "x", "h20", None),
        ("", "aws-p5en", "h200", None),
        ("unknown (1 GPU per node)", "somewhere", None, None),
    ],
)
def test_chips_are_found_in_the_cell_or_the_slug(
    gpu: str, system: str, chip: str | None, form: str | None
) -> None:
    found = read_gpu(gpu, system)
    assert (found.chip, found.form) == (chip, form)
