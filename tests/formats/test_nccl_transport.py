"""Connections and variables, in every form in which a version of NCCL or RCCL prints them."""

from __future__ import annotations

import re

import pytest

from clusterlab.formats.nccl_log_graph import LogConnection, log_connections
from clusterlab.formats.nccl_log_lines import log_lines
from clusterlab.formats.nccl_transport import Transport, collnet_transports, transport_of
from clusterlab.formats.nccl_variables import log_variables
from tests.support import shared_dir


def lines(*messages: str) -> str:
    return "".join(f"n7:10:11 [0] NCCL INFO {message}\n" for message in messages)


@pytest.mark.parametrize(
    ("via", "name", "gdr"),
    [
        ("P2P/CUMEM", "P2P/CUMEM", None),
        ("P2P/CUMEM/read", "P2P/CUMEM", None),
        ("P2P/CUMEM/CE", "P2P/CUMEM", None),
        ("P2P/MNNVL", "P2P/MNNVL", None),
        ("P2P/IPC/read", "P2P/IPC", None),
        ("P2P/direct pointer/read", "P2P/direct pointer", None),
        ("P2P/indirect/3[3]", "P2P/indirect", None),
        ("SHM/direct/direct", "SHM", None),
        ("SHM/direct", "SHM", None),
        ("SHM/CE/direct", "SHM", None),
        ("NET/IB/0", "NET/IB", False),
        ("NET/IB/0(1)/GDRDMA(PCI)/Shared", "NET/IB", True),
        ("NET/IBext_v10/2/GDRDMA", "NET/IBext_v10", True),
        ("NET/Socket/1/Shared", "NET/Socket", False),
        ("NET/AWS Libfabric/2/GDRDMA", "NET/AWS Libfabric", True),
        ("COLLNET/SHARP/0/GDRDMA", "COLLNET/SHARP", True),
    ],
)
def test_a_transport_is_named_without_its_devices(via: str, name: str, gdr: bool | None) -> None:
    assert transport_of(via) == Transport(name, gdr)


@pytest.mark.parametrize(
    ("message", "connection"),
    [
        (
            "Channel 03/1 : 1[2] -> 0[3] [receive] via NET/IB/2/GDRDMA",
            LogConnection(3, 1, 1, 0, "receive", "NET/IB/2/GDRDMA"),
        ),
        (
            "Channel 00 : 0[0] -> 1[1] via SHM/direct/direct",
            LogConnection(0, None, 0, 1, None, "SHM/direct/direct"),
        ),
        (
            "Channel 00 : 1[b2000] -> 0[1b000] via P2P/IPC",
            LogConnection(0, None, 1, 0, None, "P2P/IPC"),
        ),
        (
            "Channel 02/0 : 0[0] -> 1[1] via P2P/direct pointer/read",
            LogConnection(2, 0, 0, 1, None, "P2P/direct pointer/read"),
        ),
        (
            "Channel 02/0 : 0[0] -> 9[1] [send] via NET/AWS Libfabric/2(8)/GDRDMA/Shared",
            LogConnection(2, 0, 0, 9, "send", "NET/AWS Libfabric/2(8)/GDRDMA/Shared"),
        ),
        (
            "Channel 02/0 : 0[c1000] -> 1[d1000] via P2P/IPC comm 0x55d0 nRanks 32",
            LogConnection(2, 0, 0, 1, None, "P2P/IPC"),
        ),
    ],
)
def test_a_connection_is_read_in_every_form(message: str, connection: LogConnection) -> None:
    assert log_connections(log_lines(lines(message))) == [connection]


def test_switches_that_reduce_are_connections_of_their_own() -> None:
    said = lines("CollNet 00/1 : 0 [send] via COLLNET/SHARP/0/GDRDMA", "Channel 00/02 :    0   1")
    assert collnet_transports(log_lines(said)) == [Transport("COLLNET/SHARP", True)]
    assert log_connections(log_lines(said)) == []


def test_no_connection_of_a_real_log_is_passed_over() -> None:
    """However a sample spells them: as many are read as there are lines with a channel and ``via``."""
    seen = 0
    for file in sorted((shared_dir() / "samples" / "nccl_logs").glob("*.[tl][xo][tg]")):
        text = file.read_text(errors="replace")
        marked = [
            line
            for line in text.splitlines()
            if re.search(r"NCCL INFO Channel \d+(/\d+)? : .* via ", line)
        ]
        assert len(log_connections(log_lines(text))) == len(marked), file.name
        seen += len(marked)
    assert seen > 500


@pytest.mark.parametrize(
    ("message", "taken", "refused"),
    [
        ("NCCL_NTHREADS set by environment to 256.", {"NCCL_NTHREADS": "256"}, {}),
        ("NCCL_P2P_DISABLE set by environment to 1", {"NCCL_P2P_DISABLE": "1"}, {}),
        ("NCCL_PROTO set by environment to Simple", {"NCCL_PROTO": "Simple"}, {}),
        ("NCCL_TOPO_FILE set by environment to /a b.d/t.", {"NCCL_TOPO_FILE": "/a b.d/t."}, {}),
        ("NCCL_IB_HCA set to ^mlx5_0:1,mlx5_1", {"NCCL_IB_HCA": "^mlx5_0:1,mlx5_1"}, {}),
        ("RCCL_MSCCL_ENABLE set by environment to 1.", {"RCCL_MSCCL_ENABLE": "1"}, {}),
        ("Comm config minCTAs reset to NCCL_MIN_CTAS=4", {"NCCL_MIN_CTAS": "4"}, {}),
        (
            "Parsed environment variable NCCL_CTA_POLICY=ZERO to 2",
            {"NCCL_CTA_POLICY": "ZERO"},
            {},
        ),
        (
            "Invalid value 99999999999999999999 for NCCL_NTHREADS, using default -2.",
            {},
            {"NCCL_NTHREADS": "99999999999999999999"},
        ),
        ("NCCL_MIN_CTAS 0 is too low, leaving it set at 1", {}, {"NCCL_MIN_CTAS": "0"}),
        (
            "Unable to recognize NCCL_NETDEVS_POLICY=SOME, using NCCL_NETDEVS_POLICY_AUTO instead.",
            {},
            {"NCCL_NETDEVS_POLICY": "SOME"},
        ),
        (
            "Unknown CTA policy FAST passed as environment variable. Ignoring.",
            {},
            {"NCCL_CTA_POLICY": "FAST"},
        ),
        ("P2P Chunksize set to 524288", {}, {}),
        ("Comm config nvlinkCentricSched set to 1", {}, {}),
        ("Dmabuf feature disabled without NCCL_ENABLE_DMABUF_SUPPORT=1", {}, {}),
    ],
)
def test_variables_taken_and_refused(
    message: str, taken: dict[str, str], refused: dict[str, str]
) -> None:
    found = log_variables(log_lines(lines(message)))
    assert (found.taken, found.refused) == (taken, refused)
