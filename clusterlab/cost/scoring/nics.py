"""The NICs of a described host: what they speak, how many, how fast; what the words leave open is assumed."""

from __future__ import annotations

from dataclasses import dataclass

from clusterlab.core.errors import UsageError
from clusterlab.cost.scoring.networks import MAX_NICS, Inter, read_inter
from clusterlab.cost.scoring.vocabulary import Build, Chip, Transport, vocabulary
from clusterlab.cost.scoring.words import names_of
from clusterlab.topology.parts import Transport as TransportName


@dataclass(frozen=True, slots=True)
class Nics:
    """Of one host; ``count`` 0: none are needed. ``assumed``: what the cell does not say."""

    transport: Transport
    count: int
    Gbps: float
    assumed: tuple[str, ...] = ()


def inter_of(text: str, n_nodes: int | None) -> Inter:
    """What the cell says; of a single node any word will do, as none of them counts."""
    try:
        return read_inter(text)
    except UsageError:
        if n_nodes not in (None, 1):
            raise
        return Inter(nothing=True, unknown=tuple(names_of(text.lower())))


def nics_of(inter: Inter, chip: Chip, build: Build, gpus: int, *, alone: bool) -> Nics:
    """The NICs of a host with ``gpus`` GPUs. ``alone``: nothing is sent between hosts, or over NVLink."""
    assumed: list[str] = []
    name = _transport(inter, chip, assumed)
    usual = vocabulary().usual(name, chip.name, gpus)
    rate, count = inter.Gbps, inter.count
    if inter.per_gpu:
        count = (count or 1) * gpus
    if count is None:
        if usual is not None and _says_usual(inter, usual):
            count, rate = usual
        else:
            odd = not inter.by_word and rate not in (None, chip.nic_Gbps)
            count = 1 if odd or name == "tcp" or build.cards else gpus
        assumed.append(f"{count} NIC{'s' if count > 1 else ''} a node")
    if rate is None and inter.total_Gbps is not None:
        rate = inter.total_Gbps / count
    if rate is None:
        rate = usual[1] if usual is not None else chip.nic_Gbps
    if inter.Gbps is None and inter.total_Gbps is None:
        assumed.append(f"NICs of {rate:g} Gb/s")
    if count > MAX_NICS:
        raise UsageError(f"{count} NICs", where="inter_fabric", expected=f"1 to {MAX_NICS} a node")
    transport = vocabulary().transport(name)
    return Nics(transport, 0, rate) if alone else Nics(transport, count, rate, tuple(assumed))


def _says_usual(inter: Inter, usual: tuple[int, float]) -> bool:
    """Whether a cell's rate, if any, is of one of the usual NICs or of all (EFA 400G: 4 x 100)."""
    count, rate = usual
    return (inter.Gbps or inter.total_Gbps) in (None, rate, count * rate)


def _transport(inter: Inter, chip: Chip, assumed: list[str]) -> TransportName:
    """As the cell says; of plain Ethernet by its rate; else what such nodes usually have."""
    if inter.transport is not None:
        return inter.transport
    words = vocabulary()
    name = words.transport_unsaid[chip.vendor]
    if inter.ethernet:
        fast = (inter.Gbps or inter.total_Gbps or chip.nic_Gbps) >= words.ethernet_roce_Gbps
        name = "roce" if fast else "tcp"
    assumed.append(f"transport {name}")
    return name
