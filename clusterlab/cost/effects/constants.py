"""The formula's constants: by class of GPU, by class of network, and shared; fitted, none by table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path as File

from clusterlab.core.errors import UsageError
from clusterlab.cost.nccl.communicator import Communicator
from clusterlab.formats.fields import at, mapping, text
from clusterlab.formats.strict_yaml import Document, Path, read_yaml

SHIPPED = File(__file__).with_name("constants.yaml")

_EFA_SECOND_GBps = 25.0
_STAGED = "staged"


@dataclass(frozen=True, slots=True)
class Effects:
    """The constants that apply to one communicator; what each is stands in ``constants.yaml``."""

    base_us: float
    hop_ll_us: float
    hop_ll128_us: float
    hop_simple_us: float
    start_simple_us: float
    rate_simple: float
    rate_ll: float
    rate_ll128: float
    ramp_simple_bytes: float
    hop_larger_us: float
    nvls_start_us: float
    nvls_rate: float
    nvls_ramp_bytes: float
    p2p_simple_us: float
    p2p_rate: float
    network_step_us: float
    network_rate: float
    network_ramp_bytes: float
    p2p_network_us: float
    p2p_network_rate: float
    hop_larger_bytes: float
    kappa_ll: float
    kappa_ll128: float
    kappa_simple: float
    ramp_ll_bytes: float
    copy_gathered: float
    copy_reduced: float
    overlap_simple: float
    overlap_ll: float
    network_overlap_ll: float
    network_overlap_simple: float
    fill: float
    fill_bytes: float
    tree_rate: float
    nvls_tree_start_us: float
    nvls_tree_ramp_bytes: float
    p2p_base: float
    p2p_peer_us: float
    p2p_half_bytes: float
    p2p_ramp_bytes: float
    host_memory_GBps: float
    crowding: float


CHIP_CONSTANTS = tuple(f.name for f in fields(Effects))[:15]
NETWORK_CONSTANTS = tuple(f.name for f in fields(Effects))[15:20]
SHARED_CONSTANTS = tuple(f.name for f in fields(Effects))[20:]

CHIPS = ("volta", "ampere", "hopper", "blackwell", "cdna", "pcie")
NETWORKS = (
    "ib", "roce", "gib", "slingshot", "efa2", "efa1", "tcpxo", "tcpx", "tcp", _STAGED,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class EffectTable:
    """All classes' constants. ``source`` says what they were fitted on and how well they did elsewhere."""

    chips: Mapping[str, Mapping[str, float]]
    networks: Mapping[str, Mapping[str, float]]
    shared: Mapping[str, float]
    source: str

    def of(self, comm: Communicator) -> Effects:
        """Those of the communicator's classes."""
        chip, network = self.chips[chip_class(comm)], self.networks[network_class(comm)]
        return Effects(**chip, **network, **self.shared)


def chip_class(comm: Communicator) -> str:
    """Generation of NVIDIA's data-centre chips; ``pcie`` for GPUs joined by PCIe alone, ``cdna`` for AMD."""
    if comm.library == "rccl":
        return "cdna"
    if comm.intra == "pcie" and comm.ranks_per_node > 1:
        return "pcie"
    capability = comm.compute_capability or 0
    if capability >= 100:
        return "blackwell"
    if capability >= 90:
        return "hopper"
    return "ampere" if capability >= 80 else "volta"


def network_class(comm: Communicator) -> str:
    """The network's transport; EFA by generation, ``staged`` where NICs do not reach GPU memory."""
    network = comm.network
    if network is None:
        return "ib"  # no constant of it is used on one node
    if network.transport == "efa" and network.gdr:
        return "efa2" if network.nic_GBps >= _EFA_SECOND_GBps else "efa1"
    if not network.gdr and network.transport != "tcp":
        return _STAGED
    return network.transport if network.transport in NETWORKS else "tcp"


@cache
def shipped_effects() -> EffectTable:
    """The table that comes with clusterlab. Raises UsageError if the file is damaged."""
    return read_effects(SHIPPED.read_text(encoding="utf-8"), file=SHIPPED.name)


def read_effects(content: str, *, file: str) -> EffectTable:
    """The table in ``content`` (YAML). Raises UsageError naming the field."""
    document = read_yaml(content, file=file)
    mapping(document, (), ("source", "scores", "chips", "networks", "shared"))

    def group(
        name: str, rows: tuple[str, ...], columns: tuple[str, ...]
    ) -> dict[str, dict[str, float]]:
        mapping(document, (name,), columns)
        for column in columns:
            mapping(document, (name, column), rows)
        return {r: {c: _positive(document, (name, c, r)) for c in columns} for r in rows}

    mapping(document, ("shared",), SHARED_CONSTANTS)
    return EffectTable(
        group("chips", CHIPS, CHIP_CONSTANTS),
        group("networks", NETWORKS, NETWORK_CONSTANTS),
        {c: _positive(document, ("shared", c)) for c in SHARED_CONSTANTS},
        text(document, ("source",)),
    )


def _positive(document: Document, path: Path) -> float:
    value = at(document, path)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise UsageError(f"{value!r}", where=document.where(*path), expected="a number, at least 0")
    return float(value)
