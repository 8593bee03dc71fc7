"""The graphs of shipped designs are those NCCL logs or is known to find."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.core.placement import RankPlacement
from clusterlab.cost.nccl.communicator import Communicator
from clusterlab.cost.nccl.graphs import communicator, communicator_from_graphs
from clusterlab.cost.nccl.overrides import GraphOverrides
from clusterlab.formats.nccl_graph import parse_nccl_graph
from clusterlab.formats.nccl_log import parse_nccl_log
from clusterlab.topology.design.load import fabric_from_yaml, load_fabric
from clusterlab.topology.fabric import Fabric, equal_hosts
from clusterlab.topology.parts import Device, Link
from tests.support import shared_dir


def on_gpus(
    fabric: Fabric,
    *,
    hosts: int | None = None,
    each: int | None = None,
    overrides: GraphOverrides | None = None,
) -> Communicator:
    """The communicator of the first ``each`` GPUs of the first ``hosts`` hosts."""
    devices = [d.name for h in fabric.hosts[:hosts] for d in fabric.on_host(h, "gpu")[:each]]
    ranks = [RankPlacement(i, fabric.host_of(d) or "", 0) for i, d in enumerate(devices)]
    return communicator(fabric, ranks, devices, overrides=overrides)


def several(design: str, hosts: int, GBps: float, *, link_class: str = "ethernet") -> Fabric:
    """``hosts`` hosts like a shipped one, every NIC on one switch."""
    one = load_fabric(design)
    host = one.hosts[0]
    devices = [replace(d, name=d.name.partition("/")[2], host=None) for d in one.on_host(host)]
    links = [
        replace(k, src=k.src.partition("/")[2], dst=k.dst.partition("/")[2])
        for k in one.links
        if one.host_of(k.src) == host == one.host_of(k.dst)
    ]
    names = [f"h{i}" for i in range(hosts)]
    cables = []
    for name in names:
        for nic in (d.name for d in devices if d.kind == "nic" and d.role in (None, "compute")):
            for a, b in ((f"{name}/{nic}", "sw"), ("sw", f"{name}/{nic}")):
                cables.append(Link(a, b, link_class, GBps, wire_GBps=GBps))  # type: ignore[arg-type]
    switch = Device("sw", "leaf")
    return Fabric(design, *equal_hosts(names, devices, links, others=[switch], other_links=cables))


def shape(comm: Communicator, name: str) -> tuple[int, float, float]:
    graph = comm.graphs[name]
    return graph.channels, graph.intra_GBps, graph.inter_GBps


@pytest.mark.parametrize(
    ("design", "gpus", "ring", "tree", "nvls"),
    [
        ("dgx-h100", 8, (12, 30), (12, 30), (8, 40)),
        ("dgx-h100", 4, (12, 30), (12, 30), (4, 60)),
        ("h200-2", 2, (12, 30), (12, 60), (2, 60)),
        ("dgx-a100", 8, (12, 20), (12, 20), None),
        ("dgx-b200", 8, (16, 45), (16, 45), (8, 80)),
        ("gb200-nvl72", 4, (16, 45), (16, 45), (32, 20)),
        ("alps-gh200", 4, (12, 30), (12, 30), None),
        ("mi300x", 8, (28, 12), (28, 12), None),
        ("dgx-1v", 8, (6, 20), (6, 20), None),
        ("dgx-1v", 1, (32, 40), (32, 40), None),
        ("a100-pcie-8", 4, (2, 12), (2, 12), None),
        ("dgx-2", 16, (6, 20), (6, 20), None),
    ],
)
def test_one_node(
    design: str,
    gpus: int,
    ring: tuple[int, float],
    tree: tuple[int, float],
    nvls: tuple[int, float] | None,
) -> None:
    comm = on_gpus(load_fabric(design), each=gpus)
    assert comm.nodes == 1
    assert shape(comm, "ring")[:2] == ring
    assert shape(comm, "tree")[:2] == tree
    assert (shape(comm, "nvls")[:2] if "nvls" in comm.graphs else None) == nvls


@pytest.mark.parametrize(
    ("each", "ring", "tree"),
    [
        (1, (2, 24, 24), (2, 48, 24)),
        (2, (4, 24, 24), (4, 48, 24)),
        (4, (8, 24, 24), (8, 48, 24)),
        (8, (8, 48, 48), (8, 48, 48)),
    ],
)
def test_h100_nodes_are_as_nccl_logs_them(
    each: int, ring: tuple[int, float, float], tree: tuple[int, float, float]
) -> None:
    comm = on_gpus(load_fabric("superpod-h100-1su"), each=each)
    assert (shape(comm, "ring"), shape(comm, "tree")) == (ring, tree)
    assert comm.network is not None
    assert (comm.network.transport, comm.network.gdr) == ("ib", True)


@pytest.mark.parametrize(
    ("design", "GBps", "transport", "ring", "tree", "nics"),
    [
        ("aws-p4d", 12.5, "efa", (4, 12, 12), (4, 24, 12), 4),
        ("aws-p5", 12.5, "efa", (8, 48, 48), (8, 48, 48), 8),
        ("aws-p5en", 25.0, "efa", (8, 48, 48), (8, 48, 48), 8),
        ("alps-gh200", 25.0, "slingshot", (4, 24, 24), (4, 48, 24), 4),
        ("gcp-a3-high", 25.0, "tcpx", (4, 24, 24), (4, 48, 24), 4),
        ("gcp-a3-mega", 25.0, "tcpxo", (8, 24, 24), (8, 48, 24), 8),
        ("dgx-a100", 25.0, "roce", (8, 24, 24), (8, 30, 24), 8),
        ("mi300x", 50.0, "roce", (16, 24, 24), (16, 24, 24), 8),
    ],
)
def test_clouds(
    design: str,
    GBps: float,
    transport: str,
    ring: tuple[int, float, float],
    tree: tuple[int, float, float],
    nics: int,
) -> None:
    comm = on_gpus(several(design, 2, GBps))
    assert (shape(comm, "ring"), shape(comm, "tree")) == (ring, tree)
    assert comm.network is not None
    assert (comm.network.transport, comm.network.nics) == (transport, nics)


def test_hosts_on_the_same_nvswitches_are_one_node() -> None:
    fabric = load_fabric("superpod-gb200")
    comm = on_gpus(fabric, hosts=36)
    assert (comm.nodes, comm.hosts, comm.ranks_per_node) == (2, 36, 72)
    apart = on_gpus(fabric, hosts=2, overrides=GraphOverrides(mnnvl=False))
    assert (apart.nodes, apart.hosts) == (2, 2)


def test_the_order_of_ranks_changes_nothing() -> None:
    fabric = load_fabric("superpod-h100-1su")
    devices = [d.name for h in fabric.hosts[:4] for d in fabric.on_host(h, "gpu")]
    ranks = [RankPlacement(i, "", 0) for i in range(len(devices))]
    assert communicator(fabric, ranks, devices) == communicator(fabric, ranks, devices[::-1])


@pytest.mark.parametrize("nic", range(0, 8, 3))
def test_a_dead_or_slow_nic_never_helps(nic: int) -> None:
    fabric = load_fabric("superpod-h100-1su")
    name = f"{fabric.hosts[1]}/nic{nic}"
    whole = on_gpus(fabric, hosts=2).graphs["ring"]
    for health in (0.5, 0.0):
        changes = {
            (k.src, k.dst): [replace(k, health=health)]
            for k in (*fabric.links_from(name), *fabric.links_to(name))
            if fabric.host_of(k.src) != fabric.host_of(k.dst)
        }
        hurt = on_gpus(fabric.with_links(changes), hosts=2).graphs["ring"]
        assert hurt.channels * hurt.inter_GBps <= whole.channels * whole.inter_GBps


def test_two_ranks_on_a_gpu_are_refused() -> None:
    fabric = load_fabric("dgx-h100")
    gpu = fabric.of_kind("gpu")[0].name
    ranks = [RankPlacement(0, "", 0), RankPlacement(1, "", 1)]
    with pytest.raises(UsageError, match="both on"):
        communicator(fabric, ranks, [gpu, gpu])


def test_without_peer_access_ranks_meet_in_host_memory() -> None:
    assert on_gpus(load_fabric("a100-pcie-8")).host_memory
    assert not on_gpus(load_fabric("a100-pcie-8"), each=4).host_memory
    cut = on_gpus(load_fabric("dgx-a100"), overrides=GraphOverrides(p2p_disable=True))
    assert cut.host_memory


def test_the_search_equals_the_graphs_two_h200_logged() -> None:
    folder = shared_dir() / "measured" / "h200x2"
    found = on_gpus(load_fabric("h200-2"))
    log = parse_nccl_log((folder / "all_reduce_with_tuning_log.txt").read_text(), file="log")
    xml = parse_nccl_graph((folder / "graph.xml").read_text(), file="xml")
    for graphs in (log.graphs, xml):
        written = communicator_from_graphs(graphs, ranks=2, nodes=1, gpu="H200")
        for name in ("ring", "tree"):
            assert shape(written, name)[:2] == shape(found, name)[:2]
            assert written.graphs[name].type_intra == found.graphs[name].type_intra


def test_a_transport_is_refused_where_it_means_nothing_or_is_unknown() -> None:
    text = "name: x\nhosts:\n  devices:\n    - {name: a, kind: KIND, transport: WORD}\n"
    ok = fabric_from_yaml(
        text.replace("KIND", "nic").replace("WORD", "efa"), file="f", default_name="x"
    )
    assert ok.of_kind("nic")[0].transport == "efa"
    with pytest.raises(UsageError, match="transport 'efx'"):
        fabric_from_yaml(
            text.replace("KIND", "nic").replace("WORD", "efx"), file="f", default_name="x"
        )
    with pytest.raises(UsageError, match="transport on a gpu"):
        fabric_from_yaml(
            text.replace("KIND", "gpu").replace("WORD", "efa"), file="f", default_name="x"
        )
