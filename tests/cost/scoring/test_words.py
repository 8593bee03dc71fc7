"""The words of published tables: what each cell means, and that no text is a traceback."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.cost.scoring.words import (
    forced,
    read_gpu,
    read_inter,
    read_intra,
)


@pytest.mark.parametrize(
    ("text", "transport", "count", "rate"),
    [
        ("8x400G IB NDR", "ib", 8, 400),
        ("8 x 400 Gb/s InfiniBand", "ib", 8, 400),
        ("8x50GB/s RoCEv2", "roce", 8, 400),
        ("EFA 3200G (32x100G)", "efa", 32, 100),
        ("EFA (1 NIC)", "efa", 1, None),
        ("GPUDirect-TCPX 800G (4x200G)", "tcpx", 4, 200),
        ("GPUDirect-TCPXO 1600G (8x200G)", "tcpxo", 8, 200),
        ("8x400G RoCE (gIB)", "gib", 8, 400),
        ("4x200G Slingshot-11 (cxi)", "slingshot", 4, 200),
        ("4x200G Slingshot-11, plugin absent (TCP)", "tcp", 4, 200),
        ("ENA TCP sockets", "tcp", None, None),
        ("8 NICs 400G-class (assumed), RoCE (GID index 3)", "roce", 8, 400),
        ("200G QSFP (CX7)", "roce", 1, 200),
        ("1 CX-7 RoCE", "roce", 1, 400),
        ("8x CX8 (200-400G) RoCE", "roce", 8, 200),
        ("8x2x200G RoCE, two ToR per rack", "roce", 16, 200),
        ("HDR InfiniBand, 4 HCAs", "ib", 4, 200),
        ("400GbE x8", None, 8, 400),
        ("3200G EFA, 16 cards", "efa", 16, 200),
    ],
)
def test_network_cells_are_count_rate_and_kind(
    text: str, transport: str | None, count: int | None, rate: float | None
) -> None:
    found = read_inter(text)
    assert (found.transport, found.count, found.Gbps) == (transport, count, rate)
    assert found.unknown == ()


def test_a_total_without_devices_stays_a_total() -> None:
    found = read_inter("EFA 3200G")
    assert (found.count, found.Gbps, found.total_Gbps) == (None, None, 3200)


@pytest.mark.parametrize(("text", "rack"), [("none", False), ("", False), ("none (MNNVL)", True)])
def test_no_network_is_said_by_none(text: str, rack: bool) -> None:
    found = read_inter(text)
    assert found.nothing and found.rack is rack


def test_words_nobody_knows_are_listed_and_alone_refused() -> None:
    assert read_inter("8x400G Wombat IB").unknown == ("wombat",)
    with pytest.raises(UsageError, match="wombat") as caught:
        read_inter("Wombat 7")
    assert caught.value.where == "inter_fabric"


@pytest.mark.parametrize(
    ("text", "kind", "generation", "peers"),
    [
        ("nvswitch3-900", "nvswitch", 3, None),
        ("nvlink4-mesh", "mesh", 4, None),
        ("nvlink4", "nvlink", 4, None),
        ("NVLink3 pairs", "pairs", 3, None),
        ("nvlink5-nvl72", "rack", 5, None),
        ("xgmi-mesh", "xgmi", None, None),
        ("pcie4 (P2P driver mod)", "pcie", 4, True),
        ("pcie3 (P2P unavailable, SHM)", "pcie", 3, False),
        ("PCIe Gen5", "pcie", 5, None),
        ("none", "none", None, None),
        ("", "unsaid", None, None),
    ],
)
def test_links_between_the_gpus_of_a_node(
    text: str, kind: str, generation: int | None, peers: bool | None
) -> None:
    found = read_intra(text)
    assert (found.kind, found.generation, found.peers) == (kind, generation, peers)
    assert found.unknown == ()


def test_variables_written_into_a_cell_are_settings() -> None:
    found = read_intra("SYS, NCCL_P2P_DISABLE=1")
    assert found.kind == "pcie" and found.settings == {"NCCL_P2P_DISABLE": "1"}


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


def test_only_what_is_forced_is_an_override() -> None:
    assert forced("Ring (forced)") == "Ring"
    assert [forced(t) for t in ("", "default", "NVLS(per source)", "default (NVLSTree)")] == [
        None
    ] * 4


_PIECES = st.sampled_from(
    [
        *(
            "8x",
            "x",
            "400",
            "9",
            "9999",
            "G",
            "T",
            "0x0G",
            "GB/s",
            "-",
            ",",
            "=",
            "(",
            ")",
            " ",
            "π",
        ),
        *("IB", "RoCE", "TCP", "NICs", "per GPU", "none", "nvlink", "nvl72", "mesh", "pcie"),
        "NCCL_P2P_DISABLE=",
    ]
)


@given(st.one_of(st.text(max_size=60), st.lists(_PIECES, max_size=12).map("".join)))
def test_no_cell_raises_anything_but_a_usage_error(text: str) -> None:
    for read in (read_inter, read_intra, lambda t: read_gpu(t, t), forced):
        try:
            read(text)
        except UsageError as error:
            assert error.where in ("inter_fabric", "intra_fabric", "gpu", "system")


def test_the_two_ports_of_a_card_are_one_nic() -> None:
    merged = read_inter("8x400G (16x200G) RoCE")
    assert (merged.count, merged.Gbps) == (8, 400.0)
    cards = read_inter("EFA 3200G (32x100G)")
    assert (cards.count, cards.Gbps) == (32, 100.0)
