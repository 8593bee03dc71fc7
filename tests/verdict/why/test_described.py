"""Words that say what is off are taken out of what is expected, and kept as evidence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterlab.cost.scoring.networks import read_inter
from clusterlab.verdict.why.described import as_hardware, hindering, standing_in
from tests.verdict.why.systems import points_of

POINT = points_of("gh200-2x4", sizes=[1024])[0]


@pytest.mark.parametrize(
    ("words", "left", "code"),
    [
        ("4x200G Slingshot-11, plugin absent (TCP)", "slingshot", "TCP_FALLBACK"),
        ("8x400G IB NDR (sockets)", "ib", "TCP_FALLBACK"),
        ("8x400G IB, TCP fallback", "ib", "TCP_FALLBACK"),
        ("RoCE 8x200G, no RDMA: sockets", "roce", "TCP_FALLBACK"),
        ("8x400G IB NDR, no GDR", "ib", "GDR_OFF"),
        ("ENA TCP sockets", "tcp", None),
        ("GPUDirect-TCPX 800G (4x200G)", "tcpx", None),
        ("GPUDirect-TCPXO 1600G (8x200G)", "tcpxo", None),
        ("8x400G RoCE (gIB)", "gib", None),
        ("EFA 3200G (32x100G)", "efa", None),
    ],
)
def test_words_of_networks(words: str, left: str, code: str | None) -> None:
    found = as_hardware([replace(POINT, inter_fabric=words)])
    assert [one.code for one in found.said] == ([code] if code else [])
    assert read_inter(found.points[0].inter_fabric).transport == left


@pytest.mark.parametrize(
    ("words", "left", "said"),
    [
        ("pcie3 (P2P unavailable, SHM)", "pcie3 (P2P)", "P2P unavailable"),
        ("pcie4, no P2P", "pcie4 (P2P)", "no P2P"),
        ("SYS, NCCL_P2P_DISABLE=1", "SYS (P2P)", "NCCL_P2P_DISABLE=1"),
        ("nvswitch3-900 (NCCL_P2P_DISABLE=1)", "nvswitch3-900", "NCCL_P2P_DISABLE=1"),
        ("nvswitch3-900, NCCL_NVLS_ENABLE=0", "nvswitch3-900", "NCCL_NVLS_ENABLE=0"),
        ("nvswitch3-900", "nvswitch3-900", None),
        ("pcie4 (P2P driver mod)", "pcie4 (P2P driver mod)", None),
        ("nvlink4-mesh", "nvlink4-mesh", None),
    ],
)
def test_words_inside_a_node(words: str, left: str, said: str | None) -> None:
    found = as_hardware([replace(POINT, intra_fabric=words)])
    assert found.points[0].intra_fabric == left
    assert [one.words for one in found.said] == ([said] if said else [])


def test_what_is_forced_is_said_and_not_expected() -> None:
    found = as_hardware([replace(POINT, algo="Tree (forced)", proto="LL")])
    assert {one.code for one in found.said} == {"ALGO_FORCED", "PROTO_FORCED"}
    assert found.points[0].algo == found.points[0].proto == ""
    assert as_hardware([replace(POINT, algo="Ring (observed)")]).said == ()


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("NCCL_P2P_DISABLE", "1", "P2P_DISABLED"),
        ("NCCL_P2P_DISABLE", "0", None),
        ("NCCL_P2P_LEVEL", "NVL", None),
        ("NCCL_P2P_LEVEL", "LOC", "P2P_DISABLED"),
        ("NCCL_NET_GDR_LEVEL", "SYS", None),
        ("NCCL_NET_GDR_LEVEL", "LOC", "GDR_OFF"),
        ("NCCL_MAX_NCHANNELS", "2", "TOO_FEW_CHANNELS"),
        ("NCCL_NVLS_ENABLE", "1", None),
        ("NCCL_DEBUG", "INFO", None),
    ],
)
def test_variables_that_hinder(name: str, value: str, code: str | None) -> None:
    found = hindering(name, value)
    assert (found.code if found else None) == code


def test_a_card_stands_in_for_one_that_nobody_names_and_for_no_other() -> None:
    unnamed = replace(POINT, gpu="unknown (8 GPUs)", system="some-box", intra_fabric="SYS")
    assert standing_in([unnamed]) is not None
    assert standing_in([replace(unnamed, gpu="Gaudi3")]) is None
    assert standing_in([replace(unnamed, intra_fabric="nvswitch3")]) is None
