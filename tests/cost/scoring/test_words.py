"""The words of published tables: what each cell means, and that no text is a traceback."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.cost.scoring.gpus import read_gpu
from clusterlab.cost.scoring.links import read_intra
from clusterlab.cost.scoring.networks import read_inter


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
        ("200G QSFP (CX7)", "roce", None, 200),
        ("1 CX-7 RoCE", "roce", 1, 400),
        ("8x CX8 (200-400G) RoCE", "roce", 8, 200),
        ("8x2x200G RoCE, two ToR per rack", "roce", 16, 200),
        ("HDR InfiniBand, 4 HCAs", "ib", 4, 200),
        ("400GbE x8", None, 8, 400),
        ("3200G EFA, 16 cards", "efa", 16, 200),
        ("8xHDR", "ib", 8, 200),
        ("16xEFA", "efa", 16, None),
        ("8×ConnectX-7", None, 8, 400),
        ("IB NDR 8x400G", "ib", 8, 400),
        ("8x400", None, 8, 400),
        ("dual-rail HDR100", "ib", 2, 100),
        ("dual-port 100GbE", None, 2, 100),
        ("Slingshot-11", "slingshot", None, 200),
        ("Slingshot-10 2x100G", "slingshot", 2, 100),
        ("EFA v3", "efa", None, 200),
        ("8x Thor2 400G", "roce", 8, 400),
        ("Broadcom Thor-2 x8", "roce", 8, 400),
        ("AMD Pollara 400 x8", "roce", 8, 400),
        ("8 rails x 400G IB, fat-tree", "ib", 8, 400),
        ("no RDMA, TCP 100G", "tcp", None, 100),
        ("8x100GbE", None, 8, 100),
        ("3.2Tb/s IB, 8 HCAs", "ib", 8, 400),
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


@pytest.mark.parametrize(
    ("text", "rack"),
    [
        *((t, False) for t in ("none", "None", "n/a", "N/A", "NA", "-", "0", "no", "no network")),
        *((t, False) for t in ("single node", "single-node", "intra-node only", "not applicable")),
        *((t, True) for t in ("none (MNNVL)", "NVLink", "nvlink5-nvl72", "NVL72")),
    ],
)
def test_no_network_is_said_by_none(text: str, rack: bool) -> None:
    found = read_inter(text)
    assert found.nothing and found.rack is rack


@pytest.mark.parametrize("text", ["", " ", "?", "unknown", "unstated", "TBD", "(unstated)"])
def test_what_is_not_said_is_not_nothing(text: str) -> None:
    found = read_inter(text)
    assert found.unsaid and not found.nothing


@pytest.mark.parametrize("text", ["Omni-Path", "OPA 100G", "2x OmniPath", "Tofu-D", "Aries", "BXI"])
def test_a_network_of_which_nothing_is_known_is_no_other(text: str) -> None:
    with pytest.raises(UsageError, match="nothing is known of") as caught:
        read_inter(text)
    assert caught.value.where == "inter_fabric"


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
        ("PCIe 4.0 x16", "pcie", 4, None),
        ("NVLink 3.0", "nvlink", 3, None),
        ("NVLink Gen4", "nvlink", 4, None),
        ("4th gen NVLink", "nvlink", 4, None),
        ("NVSwitch (3rd gen), 900 GB/s", "nvswitch", 3, None),
        ("NV18", "nvlink", None, None),
        ("SXM5", "nvlink", None, None),
        ("hybrid cube mesh", "nvlink", None, None),
        ("Infinity Fabric", "xgmi", None, None),
        ("SHM", "pcie", None, False),
        ("nvlink-c2c", "none", None, None),
        ("single GPU", "none", None, None),
        ("N/A", "none", None, None),
        ("?", "unsaid", None, None),
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
    for read in (read_inter, read_intra, lambda t: read_gpu(t, t)):
        try:
            read(text)
        except UsageError as error:
            assert error.where in ("inter_fabric", "intra_fabric", "gpu", "system")


def test_the_two_ports_of_a_card_are_one_nic() -> None:
    merged = read_inter("8x400G (16x200G) RoCE")
    assert (merged.count, merged.Gbps) == (8, 400.0)
    cards = read_inter("EFA 3200G (32x100G)")
    assert (cards.count, cards.Gbps) == (32, 100.0)
