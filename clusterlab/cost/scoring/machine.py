"""From a table's words to a machine: which GPUs, how they are built in, which NICs. Pure.

What the words leave open is taken from the vocabulary, and ``Machine.assumed`` says what was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from clusterlab.core.errors import UsageError
from clusterlab.cost.scoring.gpus import Gpu, read_gpu
from clusterlab.cost.scoring.links import Intra, read_intra
from clusterlab.cost.scoring.measured import MeasuredPoint
from clusterlab.cost.scoring.networks import Inter
from clusterlab.cost.scoring.nics import inter_of, nics_of
from clusterlab.cost.scoring.vocabulary import Build, Chip, Form, Transport, vocabulary
from clusterlab.cost.scoring.words import names_of
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
    intra = _intra(description)
    inter = inter_of(description.inter_fabric, description.n_nodes)
    assumed: list[str] = []
    gpu = read_gpu(description.gpu, description.system)
    chip = vocabulary().chips[_chip(gpu, intra, description, assumed)]
    build = _build(chip, gpu, intra, description, assumed)
    hosts, gpus, racks = _size(description, build, intra, inter)
    units = racks or hosts
    if units > 1 and inter.nothing:
        raise UsageError(
            f"no network between {units} {'racks' if racks else 'nodes'}",
            where="inter_fabric",
            expected="count x rate and kind, as in 8x400G IB NDR",
        )
    pairs = _bridged(build, gpu, intra)
    alone = inter.nothing or (inter.unsaid and units == 1)
    nics = nics_of(inter, chip, build, gpus, alone=alone)
    return Machine(
        chip=chip,
        build=build,
        hosts=hosts,
        gpus=gpus,
        racks=racks,
        pairs=pairs,
        pcie=_pcie_generation(build, intra),
        nics=nics.count,
        nic_Gbps=nics.Gbps,
        transport=nics.transport,
        settings=_settings(chip, build, intra, gpus, pairs=pairs),
        assumed=(*assumed, *nics.assumed),
        unknown=(*intra.unknown, *inter.unknown),
    )


def _intra(description: SystemDescription) -> Intra:
    """What the cell says; of a single GPU any word will do, as it is joined to none."""
    try:
        return read_intra(description.intra_fabric)
    except UsageError:
        if description.gpus_per_node != 1:
            raise
        return Intra("unsaid", unknown=tuple(names_of(description.intra_fabric.lower())))


def _settings(chip: Chip, build: Build, intra: Intra, gpus: int, *, pairs: bool) -> dict[str, str]:
    """NCCL variables that the words, or the cards, imply."""
    settings = dict(intra.settings)
    if intra.peers is False:
        settings.setdefault("NCCL_P2P_DISABLE", "1")
    elif build.cards and not chip.peers and not intra.peers and gpus > 1:
        if pairs:  # GeForce cards are peers over their bridge alone
            settings.setdefault("NCCL_P2P_LEVEL", "NVL")
        else:
            settings.setdefault("NCCL_P2P_DISABLE", "1")
    elif intra.peers and build.cards:
        settings.setdefault("NCCL_P2P_LEVEL", "SYS")  # the words say that peers reach each other
    return settings


def _chip(gpu: Gpu, intra: Intra, description: SystemDescription, assumed: list[str]) -> str:
    """The chip a table names. Where it names none: the one its NVLink or xGMI belongs to, else what such
    nodes have. A GPU that is named and not known is no other.
    """
    words = vocabulary()
    if gpu.chip is not None:
        if intra.kind == "rack" and gpu.chip in words.chip_of_rack:
            assumed.append(f"{words.chip_of_rack[gpu.chip]} by its rack")
            return words.chip_of_rack[gpu.chip]
        if gpu.stands_for is not None:
            assumed.append(f"links of {gpu.chip} for {gpu.stands_for}")
        if gpu.others:
            assumed.append(f"{gpu.chip} of {', '.join((gpu.chip, *gpu.others))}")
        return gpu.chip
    if gpu.names is None:
        named = f"{intra.kind}{intra.generation}" if intra.generation else intra.kind
        family = "nvlink" if intra.kind in ("mesh", "pairs", "rack") else intra.kind
        for key in (named, f"{family}{intra.generation}", intra.kind):
            if key in words.chip_of_link:
                assumed.append(f"{words.chip_of_link[key]} by its {key}")
                return words.chip_of_link[key]
        if description.gpus_per_node == 1:
            assumed.append(f"{words.chip_unsaid}: no GPU named")
            return words.chip_unsaid
    said = gpu.names or description.gpu or description.system
    raise UsageError(
        f"no known GPU in {said!r}",
        where="gpu" if description.gpu else "system",
        expected="one of " + ", ".join(words.chips),
        fix="name a fabric with --fabric",
    )


def _build(
    chip: Chip, gpu: Gpu, intra: Intra, description: SystemDescription, assumed: list[str]
) -> Build:
    """How the chip is built: as the links between GPUs imply, as its cell says, else as usual."""
    said = gpu.form
    if said in ("pcie", "nvl") and said not in chip.forms:
        raise UsageError(
            f"no {chip.name} is known as {said}",
            where="gpu" if description.gpu else "system",
            expected=f"{chip.name} as {' or '.join(chip.forms)}",
            fix="name a fabric with --fabric",
        )
    build = chip.forms[_form(chip, gpu, intra, description)]
    _check_links(chip, build, intra)
    if said == "pcie" and not build.cards and intra.kind != "pcie":
        assumed.append(f"a board by its {intra.kind}, although the GPU is said to be pcie")
    several = (description.gpus_per_node or description.n_ranks) > 1
    if intra.kind == "none" and several and not build.cards:
        assumed.append(f"the links of {build.model}, although intra_fabric says none")
    if intra.kind == "pcie" and not build.cards:
        return Build(host="pcie", model=build.model, pcie=build.pcie)
    return build


def _form(chip: Chip, gpu: Gpu, intra: Intra, description: SystemDescription) -> Form:
    wanted: list[Form | None] = [gpu.form]
    if intra.kind == "mesh":
        gpus = description.gpus_per_node or description.n_ranks
        mesh = chip.forms.get("mesh")
        fits = mesh is not None and gpus <= (mesh.gpus or 0)
        wanted = ["mesh" if fits else "sxm", *wanted]
    elif intra.kind == "nvswitch":
        wanted = ["switch", "sxm", *wanted]
    elif intra.kind == "rack":
        wanted = ["sxm", *wanted]
    elif intra.kind == "pairs":
        wanted += ["nvl", "pcie"]
    elif intra.kind == "pcie":
        wanted += ["pcie"]
    return next((f for f in wanted if f in chip.forms), next(iter(chip.forms)))  # type: ignore[misc]


def _check_links(chip: Chip, build: Build, intra: Intra) -> None:
    """Raise UsageError for links that this GPU has not."""
    ours = "xgmi" if chip.vendor == "amd" else "nvlink"
    boards = ours == "nvlink" and not build.cards
    bridges = boards or (ours == "nvlink" and build.bridge is not None)
    has = {"nvswitch": boards, "rack": boards, "mesh": boards, "pairs": bridges, "nvlink": bridges}
    if not has.get(intra.kind, intra.kind != "xgmi" or ours == "xgmi"):
        raise UsageError(
            f"{build.model} has no {intra.kind}",
            where="intra_fabric",
            expected="links that this GPU has",
            fix="correct gpu or intra_fabric, or name a fabric with --fabric",
        )


def _bridged(build: Build, gpu: Gpu, intra: Intra) -> bool:
    """Whether cards are joined two and two."""
    said = intra.kind in ("pairs", "nvlink") or gpu.pairs
    return build.bridge is not None and (build.paired or said)


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
            expected=f"at most {board}",
            fix="name a fabric with --fabric",
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
    joined = intra.kind == "rack" or inter.rack or nodes == 1 or inter.nothing or inter.unsaid
    if not rack_hosts or not joined:
        return nodes, gpus, 0
    per_rack = min(rack_hosts, (intra.rack_gpus or rack_hosts * board) // board)
    return nodes, gpus, max(1, -(-nodes // max(1, per_rack)))


def _board(build: Build) -> tuple[int, int]:
    """GPUs of a host of the build's design (0: any number), and hosts of its rack (0: no rack)."""
    if build.cards:
        return 0, 0
    if build.host == "mesh":
        return build.gpus or 0, 0
    design = outline(build.host)
    gpus = sum(d.kind == "gpu" for d in design.host_devices)
    spans = any(d.kind == "nvswitch" for d in design.network_devices)
    return gpus, len(design.hosts) if spans else 0
