"""From a table's words to a machine: which GPUs, how they are built in, which NICs. Pure.

What the words leave open is taken from the vocabulary, and ``Machine.assumed`` says what was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from clusterlab.core.errors import UsageError
from clusterlab.cost.scoring.measured import MeasuredPoint
from clusterlab.cost.scoring.vocabulary import Build, Chip, Form, Transport, vocabulary
from clusterlab.cost.scoring.words import Gpu, Inter, Intra, read_gpu, read_inter, read_intra
from clusterlab.topology.design.load import outline

MAX_HOSTS = 16_384
_CARD_GPUS = 8
"""GPUs of a box of PCIe cards of which no table says how many it has: the usual server."""


@dataclass(frozen=True, slots=True)
class SystemDescription:
    """What a table says of its machines, in its own words. None and empty: it does not say."""

    system: str
    gpu: str
    n_nodes: int | None
    gpus_per_node: int | None
    n_ranks: int
    intra_fabric: str
    inter_fabric: str


@dataclass(frozen=True, slots=True)
class Machine:
    """``hosts`` equal ones with ``gpus`` of a chip and ``nics`` each.

    ``racks``: in how many NVLink domains over hosts they stand; 0 where none spans hosts. ``pairs``: the
    cards are bridged two and two. ``settings``: NCCL variables that the words imply.
    """

    chip: Chip
    build: Build
    hosts: int
    gpus: int
    racks: int
    pairs: bool
    pcie: int
    nics: int
    nic_Gbps: float
    transport: Transport
    settings: Mapping[str, str] = field(hash=False)
    assumed: tuple[str, ...]
    unknown: tuple[str, ...]


def description_of(point: MeasuredPoint) -> SystemDescription:
    """A point's machines as its file describes them."""
    return SystemDescription(
        system=point.system,
        gpu=point.gpu,
        n_nodes=point.n_nodes,
        gpus_per_node=point.gpus_per_node,
        n_ranks=point.n_ranks,
        intra_fabric=point.intra_fabric,
        inter_fabric=point.inter_fabric,
    )


def machine_of(description: SystemDescription) -> Machine:
    """What ``description`` means. Raises UsageError naming the word that is not understood."""
    words = vocabulary()
    intra = read_intra(description.intra_fabric)
    inter = read_inter(description.inter_fabric)
    assumed: list[str] = []
    gpu = read_gpu(description.gpu, description.system)
    chip = words.chips[_chip(gpu, intra, description, assumed)]
    build = chip.forms[_form(chip, gpu, intra)]
    if intra.kind == "pcie" and build.host not in ("pcie", "ports"):
        build = Build(host="pcie", model=build.model, pcie=build.pcie)
    hosts, gpus, racks = _size(description, build, intra, inter)
    transport, nics, rate = _network(chip, inter, gpus, assumed)
    if (racks or hosts) > 1 and inter.nothing:
        raise UsageError(
            f"no network between {racks or hosts} {'racks' if racks else 'nodes'}",
            where="inter_fabric",
            expected="count x rate and kind, as in 8x400G IB NDR",
        )
    if inter.nothing:
        nics = 0
    settings = dict(intra.settings)
    pairs = build.bridge is not None and (build.paired or intra.kind == "pairs" or gpu.pairs)
    cards = build.host in ("pcie", "ports")
    if intra.peers is False or (cards and not chip.peers and not intra.peers and gpus > 1):
        settings.setdefault("NCCL_P2P_DISABLE", "1")
    elif intra.peers and cards:
        settings.setdefault("NCCL_P2P_LEVEL", "SYS")  # the words say that peers reach each other
    return Machine(
        chip=chip,
        build=build,
        hosts=hosts,
        gpus=gpus,
        racks=racks,
        pairs=pairs,
        pcie=_pcie_generation(build, intra),
        nics=nics,
        nic_Gbps=rate,
        transport=transport,
        settings=settings,
        assumed=tuple(assumed),
        unknown=(*intra.unknown, *inter.unknown),
    )


def _chip(gpu: Gpu, intra: Intra, description: SystemDescription, assumed: list[str]) -> str:
    """The chip a table names; else the one its NVLink or xGMI belongs to; else what such nodes have."""
    if gpu.chip is not None:
        return gpu.chip
    words = vocabulary()
    named = f"{intra.kind}{intra.generation}" if intra.generation else intra.kind
    family = "nvlink" if intra.kind in ("mesh", "pairs", "rack") else intra.kind
    for key in (named, f"{family}{intra.generation}", intra.kind):
        if key in words.chip_of_link:
            assumed.append(f"{words.chip_of_link[key]} by its {key}")
            return words.chip_of_link[key]
    said = description.gpu or description.system
    if description.gpus_per_node == 1 and (not description.gpu or "unknown" in said.lower()):
        assumed.append(f"{words.chip_unsaid}: no GPU named")
        return words.chip_unsaid
    raise UsageError(
        f"no known GPU in {said!r}",
        where="gpu" if description.gpu else "system",
        expected="one of " + ", ".join(words.chips),
        fix="name a fabric with --fabric",
    )


def _form(chip: Chip, gpu: Gpu, intra: Intra) -> Form:
    """How the chip is built: as its cell says, as the links between GPUs imply, else as usual."""
    wanted: list[Form | None] = [gpu.form]
    if intra.kind in ("nvswitch", "mesh", "rack"):
        wanted.insert(0, "sxm")
    elif intra.kind == "pairs":
        wanted += ["nvl", "pcie"]
    elif intra.kind == "pcie":
        wanted += ["pcie"]
    return next((f for f in wanted if f in chip.forms), next(iter(chip.forms)))  # type: ignore[misc]


def _pcie_generation(build: Build, intra: Intra) -> int:
    """As the cell says, else the chip's."""
    said = intra.generation if intra.kind == "pcie" else None
    return said if said in vocabulary().pcie_GBps and said is not None else build.pcie


def _size(
    description: SystemDescription, build: Build, intra: Intra, inter: Inter
) -> tuple[int, int, int]:
    """Hosts, GPUs of each, and NVLink domains over hosts (0: none)."""
    board, rack_hosts = _board(build)
    nodes, gpus = description.n_nodes or 1, description.gpus_per_node
    if gpus is None and description.n_nodes is not None:
        gpus = -(-description.n_ranks // nodes)
    if gpus is None:
        gpus = board or max(_CARD_GPUS, description.n_ranks)
        nodes = max(1, -(-description.n_ranks // gpus)) if rack_hosts else 1
    if rack_hosts and gpus > board:  # a "node" that is a whole rack
        if gpus % board:
            raise UsageError(
                f"{gpus} GPUs per node", where="gpus_per_node", expected=f"trays of {board}"
            )
        nodes, gpus = nodes * (gpus // board), board
    if board and gpus > board:
        raise UsageError(
            f"{gpus} GPUs of {build.model} per node",
            where="gpus_per_node",
            expected=f"at most the {board} of {build.host}",
        )
    if nodes > MAX_HOSTS or gpus > MAX_HOSTS:
        raise UsageError(
            f"{max(nodes, gpus)} of one thing", where="n_nodes", expected=f"at most {MAX_HOSTS}"
        )
    if description.n_ranks > nodes * gpus:
        raise UsageError(
            f"{description.n_ranks} ranks on {nodes} x {gpus} GPUs",
            where="n_ranks",
            expected="at most one a GPU",
        )
    joined = intra.kind == "rack" or inter.rack or nodes == 1 or inter.nothing
    if not rack_hosts or not joined:
        return nodes, gpus, 0
    per_rack = min(rack_hosts, (intra.rack_gpus or rack_hosts * board) // board)
    return nodes, gpus, max(1, -(-nodes // max(1, per_rack)))


def _board(build: Build) -> tuple[int, int]:
    """GPUs of a host of the build's design (0: any number), and hosts of its rack (0: no rack)."""
    if build.host in ("pcie", "ports"):
        return 0, 0
    design = outline(build.host)
    gpus = sum(d.kind == "gpu" for d in design.host_devices)
    spans = any(d.kind == "nvswitch" for d in design.network_devices)
    return gpus, len(design.hosts) if spans else 0


def _network(
    chip: Chip, inter: Inter, gpus: int, assumed: list[str]
) -> tuple[Transport, int, float]:
    """What the NICs of a host speak, how many they are, Gb/s of one."""
    words = vocabulary()
    vendor = "amd" if chip.name.startswith("mi") else "other"
    name = inter.transport
    if name is None:
        name = words.transport_unsaid[vendor]
        if not inter.nothing:
            assumed.append(f"transport {name}")
    count = inter.count
    if count is not None and inter.per_gpu:
        count *= gpus
    if count is None:
        count = 1 if name == "tcp" else gpus
        if not inter.nothing:
            assumed.append(f"{count} NIC{'s' if count > 1 else ''} a node")
    rate = inter.Gbps
    if rate is None and inter.total_Gbps is not None:
        rate = inter.total_Gbps / count
    if rate is None:
        rate = chip.nic_Gbps
        if not inter.nothing:
            assumed.append(f"NICs of {rate:g} Gb/s")
    return words.transport(name), count, rate
