"""A fabric for ranks of which no fabric is known: each host by one link to the network. Pure."""

from __future__ import annotations

from clusterlab.core.placement import Placement
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Device, Link

NETWORK = "network"
_ANY_RATE = 1.0


def star(placement: Placement) -> Fabric:
    """Its rates mean nothing: they are alike."""
    devices = [Device(NETWORK, "leaf")]
    links: list[Link] = []
    for host in placement.hosts:
        ranks = [r for r in placement.ranks if r.host == host]
        cpu, nic = f"{host}/cpu0", f"{host}/nic0"
        devices += [Device(cpu, "cpu", host), Device(nic, "nic", host)]
        gpus = [f"{host}/gpu{r.local_rank}" for r in ranks]
        devices += [Device(gpu, "gpu", host) for gpu in gpus]
        for a, b in [(cpu, nic), *((gpu, cpu) for gpu in gpus)]:
            links += [Link(a, b, "pcie", None), Link(b, a, "pcie", None)]
        links += [
            Link(nic, NETWORK, "network", _ANY_RATE),
            Link(NETWORK, nic, "network", _ANY_RATE),
        ]
    return Fabric("unknown", tuple(devices), tuple(links), origin="no fabric was named")
