"""By what NCCL connected pairs of ranks: both ends' lines count once, in every log there is."""

from __future__ import annotations

import pytest

from clusterlab.formats.nccl_log import parse_nccl_log
from clusterlab.formats.nccl_log_graph import LogConnection
from clusterlab.formats.nccl_log_lines import log_lines
from clusterlab.formats.nccl_log_pairs import PairTransport, nvls_channels, pair_transports
from tests.support import shared_dir


def test_a_channel_that_both_ends_logged_counts_once() -> None:
    connections = [
        LogConnection(channel, 0, 3, 4, side, f"NET/IB/{device}(1)/GDRDMA/Shared")
        for channel in (0, 1, 0)
        for side, device in (("send", 2), ("receive", 5))
    ]
    assert pair_transports(connections) == [PairTransport(3, 4, "NET/IB/GDRDMA", "collectives", 2)]


@pytest.mark.parametrize(
    ("index", "use"),
    [(0, "collectives"), (1, "send_recv"), (None, "channels"), (2, "connection 2")],
)
def test_what_a_connection_is_for_is_its_number(index: int | None, use: str) -> None:
    (found,) = pair_transports([LogConnection(5, index, 0, 1, None, "P2P/IPC/read")])
    assert found == PairTransport(0, 1, "P2P/IPC", use, 1)


def test_a_pair_with_two_transports_has_two_lines() -> None:
    found = pair_transports(
        [LogConnection(0, 0, 0, 1, None, "P2P/CUMEM"), LogConnection(1, 0, 0, 1, None, "NET/IB/0")]
    )
    assert [(p.transport, p.channels) for p in found] == [("NET/IB", 1), ("P2P/CUMEM", 1)]


@pytest.mark.parametrize(
    ("message", "channels"),
    [
        ("24 coll channels, 24 collnet channels, 16 nvls channels, 32 p2p channels", 16),
        ("16 coll channels, 0 nvls channels, 16 p2p channels, 2 p2p channels per peer", 0),
        ("24 coll channels, 32 p2p channels, 2 p2p channels per peer", None),
    ],
)
def test_the_channels_for_nvls_are_read(message: str, channels: int | None) -> None:
    assert nvls_channels(log_lines(f"n7:1:2 [0] NCCL INFO {message}\n")) == channels


def test_every_connection_of_the_sample_logs_belongs_to_a_transport_that_nccl_has() -> None:
    known = {"P2P/IPC", "P2P/direct pointer", "P2P/CUMEM", "SHM", "NET/IB", "NET/IB/GDRDMA",
             "NET/Socket", "NET/AWS Libfabric", "NET/AWS Libfabric/GDRDMA"}  # fmt: skip
    met = set()
    for file in sorted((shared_dir() / "samples/nccl_logs").iterdir()):
        text = file.read_text(errors="replace")
        if " via " not in text or file.suffix == ".src":
            continue
        log = parse_nccl_log(text, file=file.name)
        pairs = pair_transports(log.connections)
        mentions = [
            line
            for line in log.lines
            if line.message.startswith("Channel ") and " via " in line.message
        ]
        assert len(mentions) == len(log.connections), file.name
        met |= {p.transport for p in pairs}
    assert met <= known, met - known
    assert len(met) >= 3, met
