"""What the network's cables carry, and what NCCL counts them for."""

from __future__ import annotations

import numpy as np

from clusterlab.formats.nccl_tables import PORT_SHARE
from clusterlab.topology.routing.network import Floats, Network

_ORDINARY = 0.92
"""A port that carries this much of its signalling rate is as good as NCCL takes it for: 46 of 50 GB/s."""


def carried(network: Network) -> Floats:
    """[cables] GB/s left per direction: the fabric's figure, else the usable share of the signalling rate;
    nan where neither is known.
    """
    return _rates(network)[0]


def counted(network: Network) -> Floats:
    """[cables] GB/s that NCCL counts, who asks a port for its signalling rate: no less than ``carried``."""
    return _rates(network)[1]


def _rates(network: Network) -> tuple[Floats, Floats]:
    if "cable rates" not in network.memo:
        wire = np.array([np.nan if k.wire_GBps is None else k.wire_GBps for k in network.links])
        ways = [np.where(at >= 0, wire[at], np.nan) for at in (network.up_link, network.down_link)]
        port = np.fmin(*ways)
        said = np.where(np.isnan(network.GBps), port * PORT_SHARE, network.GBps)
        least = np.where(np.isnan(port), said, np.fmax(said, port * _ORDINARY))
        network.memo["cable rates"] = (said * network.health, least * network.health)
    found: tuple[Floats, Floats] = network.memo["cable rates"]
    return found
