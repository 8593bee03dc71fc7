"""By what NCCL connected each pair of ranks, from its log's connections.

Grammar: NVIDIA/nccl src/transport/p2p.cc, shm.cc, net.cc of versions 2.8 to 2.30; init.cc.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from clusterlab.formats.nccl_log_graph import LogConnection
from clusterlab.formats.nccl_log_lines import LogLine
from clusterlab.formats.nccl_transport import transport_of

_NVLS = re.compile(r"\b(\d{1,4}) nvls channels\b")
_USES = {0: "collectives", 1: "send_recv", None: "channels"}


@dataclass(frozen=True, slots=True)
class PairTransport:
    """``transport`` as ``P2P/CUMEM``, ``SHM``, ``NET/IB``, ``NET/IB/GDRDMA``. ``use``: ``collectives``,
    ``send_recv``, or ``channels`` where the lines do not say (SHM, old versions).
    """

    src_rank: int
    dst_rank: int
    transport: str
    use: str
    channels: int


def pair_transports(connections: Iterable[LogConnection]) -> list[PairTransport]:
    """One for each pair, use and transport; a channel that both ends logged counts once."""
    channels: defaultdict[tuple[int, int, str, str], set[int]] = defaultdict(set)
    for c in connections:
        use = _USES.get(c.index, f"connection {c.index}")
        transport = transport_of(c.via)
        name = f"{transport.name}/GDRDMA" if transport.gdr else transport.name
        channels[c.src_rank, c.dst_rank, use, name].add(c.channel)
    return [
        PairTransport(src, dst, name, use, len(used))
        for (src, dst, use, name), used in sorted(channels.items())
    ]


def nvls_channels(lines: Iterable[LogLine]) -> int | None:
    """The channels a communicator has for NVLink SHARP; None where no line says."""
    found = [int(m[1]) for line in lines if (m := _NVLS.search(line.message))]
    return max(found, default=None)
