"""How two ranks are connected, as NCCL logs it behind ``via``.

Grammar: NVIDIA/nccl src/transport/p2p.cc, shm.cc, net.cc and coll_net.cc of versions 2.8 to 2.30:
``P2P/CUMEM/read``, ``P2P/IPC``, ``P2P/direct pointer``, ``P2P/MNNVL``, ``P2P/indirect/3[3]``,
``SHM/direct/direct``, ``NET/IB/0(1)/GDRDMA(PCI)/Shared``, ``NET/AWS Libfabric/2``,
``COLLNET/SHARP/0/GDRDMA``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from clusterlab.formats.nccl_log_lines import LogLine

_NAMED = ("P2P", "NET", "COLLNET")
_COLLNET = re.compile(r"CollNet \d+/\d+ : \d+ \[(?:send|receive)\] via (COLLNET/\S.*)")


@dataclass(frozen=True, slots=True)
class Transport:
    """``name``: ``P2P/CUMEM``, ``SHM``, ``NET/IB``, ``COLLNET/SHARP``. ``gdr``: whether the NIC reaches GPU
    memory directly; None where there is no NIC.
    """

    name: str
    gdr: bool | None


def transport_of(via: str) -> Transport:
    """What stands behind ``via``, without device numbers and modes."""
    kind, _, rest = via.strip().partition("/")
    named = rest.partition("/")[0].strip()
    name = f"{kind}/{named}" if kind in _NAMED and named else kind
    over_nic = kind in ("NET", "COLLNET")
    return Transport(name, "/GDRDMA" in via if over_nic else None)


def collnet_transports(lines: Iterable[LogLine]) -> list[Transport]:
    """The connections to switches that reduce (SHARP): they lead to no rank."""
    found = (_COLLNET.match(line.message) for line in lines)
    return [transport_of(match.group(1)) for match in found if match is not None]
