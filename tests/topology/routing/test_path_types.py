import dataclasses
import re

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.topology.design.load import load_fabric
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Device, Link
from clusterlab.topology.routing.host_graph import PathType, host_graph
from clusterlab.topology.routing.path_types import (
    Levels,
    TypedPath,
    host_path,
    nic_of,
    path_between,
)
from tests.support import shared_dir


def both(a: str, b: str, link_class: str, rate: float | None, **figures: object) -> list[Link]:
    return [
        Link(x, y, link_class, rate, **figures)  # type: ignore[arg-type]
        for x, y in ((a, b), (b, a))
    ]


def host(kinds: dict[str, str], *links: list[Link]) -> Fabric:
    devices = tuple(Device(name, kind, host="n0") for name, kind in kinds.items())  # type: ignore[arg-type]
    return Fabric("host", devices, tuple(link for pair in links for link in pair))


def types(fabric: Fabric, src: str, to: list[str]) -> list[str]:
    return [host_path(fabric, src, dst).type.name for dst in to]


def h200x2() -> Fabric:
    """The measured machine's own topology file (two H200 in a virtual machine, a 10 Gb/s NIC)."""
    return host(
        {
            "60": "gpu",
            "70": "gpu",
            "nvs": "nvswitch",
            "cpu": "cpu",
            "eth0": "nic",
            "out": "external",
        },
        both("60", "nvs", "nvlink", 20.6, multiplicity=18),
        both("70", "nvs", "nvlink", 20.6, multiplicity=18),
        both("60", "cpu", "pcie", 48.0),
        both("70", "cpu", "pcie", 48.0),
        both("eth0", "cpu", "pcie", 5000.0),
        both("eth0", "out", "ethernet", 1.25),
    )


def test_paths_are_those_nccl_printed_on_two_h200() -> None:
    """NCCL 2.28.9's "GPU/0-60 :GPU/0-70 (2/370.8/NVL) …": links, bandwidth, type of every path."""
    log = shared_dir() / "measured" / "h200x2" / "all_reduce_with_tuning_log.txt"
    lines = [line for line in log.read_text().splitlines() if re.search(r"\[0\].* :GPU/", line)]
    names = {"GPU/0-60": "60", "GPU/0-70": "70", "NVS/0-0": "nvs", "NET/0-0": "eth0"}
    names["CPU/0-ffffffffffffff"] = "cpu"
    fabric = h200x2()
    checked = 0
    for line in lines:
        src = names[line.split(" :")[0].split()[-1]]
        for name, count, bw, kind in re.findall(r"(\S+) \((\d+)/([\d.]+)/(\w+)\)", line):
            found = host_path(fabric, src, names[name.lstrip(":")])
            assert found.type.name == kind
            if kind != "LOC":
                # NCCL counts NIC and NET apart, we do not
                links = len(found.devices) - 1 + ("eth0" in (src, names[name.lstrip(":")]))
                assert (links, f"{found.GBps:.1f}") == (int(count), bw)
                checked += 1
    assert checked == 11


def test_dgx1_reaches_gpus_it_has_no_link_to_through_one_that_has() -> None:
    """The hybrid cube mesh as `nvidia-smi topo -m` shows it: NV1, NV2, and three peers without NVLink."""
    fabric = load_fabric("dgx-1v")
    gpus = [f"n0/gpu{i}" for i in range(8)]
    assert types(fabric, gpus[0], gpus) == ["LOC", *4 * ["NVL"], *3 * ["NVB"]]
    far = host_path(fabric, gpus[0], gpus[7])
    assert (far.GBps, far.relay) == (
        40.0,
        "n0/gpu4",
    )  # both steps two links: the widest of its kind
    assert host_path(fabric, gpus[3], gpus[5]).GBps == 20.0


def test_a_gpu_reaches_its_own_nic_over_pcie_and_the_others_by_pxn() -> None:
    fabric = load_fabric("dgx-h100")
    nics = [f"n0/nic{i}" for i in range(8)]
    assert types(fabric, "n0/gpu2", nics) == ["PXN", "PXN", "PXB", *5 * ["PXN"]]
    assert host_path(fabric, "n0/gpu2", "n0/nic5").relay == "n0/gpu5"
    assert host_path(fabric, "n0/nic5", "n0/gpu2").type is PathType.SYS  # receiving has no PXN
    assert [nic_of(fabric, f"n0/gpu{i}") for i in range(8)] == nics
    without = host_path(fabric, "n0/gpu2", "n0/nic2", gpu_direct=False)
    assert without.type is PathType.PHB
    assert host_path(fabric, "n0/gpu2", "n0/nic5", gpu_direct=False).type is PathType.SYS


@pytest.mark.parametrize("name", ["dgx-h100", "dgx-a100", "dgx-1v"])
@pytest.mark.parametrize("limit", [PathType.LOC, PathType.NVL, PathType.SYS])
def test_no_gpu_forwards_to_a_nic_for_one_it_has_no_peer_access_to(
    name: str, limit: PathType
) -> None:
    graph = host_graph(load_fabric(name), "n0")
    gpus, nics = graph.of_kind("gpu", "n0"), graph.of_kind("nic", "n0")
    levels = Levels(p2p=limit)
    relayed = [
        (path.nodes[0], [n for n in path.nodes if graph.kind[n] == "gpu"][-1])
        for path in (path_between(graph, g, n, levels) for g in gpus for n in nics)
        if path.type is PathType.PXN
    ]
    assert all(path_between(graph, a, b, levels).type <= limit for a, b in relayed)
    assert bool(relayed) == (limit >= PathType.NVL)


def test_pcie_distances_by_switches_bridges_and_sockets() -> None:
    fabric = host(
        {
            **{f"gpu{i}": "gpu" for i in range(5)},
            **{f"switch{i}": "pcie_switch" for i in range(3)},
            **{f"bridge{i}": "host_bridge" for i in range(3)},
            "cpu0": "cpu",
            "cpu1": "cpu",
        },
        both("gpu0", "switch0", "pcie", 24.0),
        both("gpu1", "switch0", "pcie", 24.0),
        both("gpu2", "switch1", "pcie", 24.0),
        both("switch0", "switch1", "pcie", 12.0),
        both("switch1", "bridge0", "pcie", 24.0),
        both("gpu3", "bridge1", "pcie", 24.0),
        both("gpu4", "bridge2", "pcie", 24.0),
        both("bridge0", "cpu0", "pcie", None),
        both("bridge1", "cpu0", "pcie", None),
        both("bridge2", "cpu1", "pcie", None),
        both("cpu0", "cpu1", "upi", 10.0),
    )
    gpus = [f"gpu{i}" for i in range(5)]
    assert types(fabric, "gpu0", gpus) == ["LOC", "PIX", "PXB", "PHB", "SYS"]
    assert [host_path(fabric, "gpu0", g).GBps for g in gpus] == [None, 24, 12, 12, 10]


def test_two_nics_of_one_switch_are_shared_out_among_two_gpus() -> None:
    parts = {"sw": "pcie_switch", "cpu": "cpu", "a": "gpu", "b": "gpu", "x": "nic", "y": "nic"}
    links = [both(name, "sw", "pcie", 24.0) for name in ("a", "b", "x", "y")]
    fabric = host(parts, both("sw", "cpu", "pcie", 24.0), *links)
    assert [nic_of(fabric, "a"), nic_of(fabric, "b")] == ["x", "y"]
    alone = host({k: v for k, v in parts.items() if k != "b"}, *links[::2], links[3])
    assert [nic_of(alone, "a", channel=c) for c in range(3)] == ["x", "y", "x"]


def test_c2c_and_pcie_meet_in_the_cpu_as_p2c() -> None:
    fabric = load_fabric("gb200-nvl72")
    assert types(fabric, "n0/gpu0", ["n0/cpu0", "n0/cpu1"]) == ["C2C", "SYS"]
    assert types(fabric, "n0/gpu0", ["n0/nic0", "n0/nic1"]) == ["P2C", "P2C"]
    assert host_path(fabric, "n0/gpu0", "n17/gpu3").type is PathType.NVL  # one NVLink domain
    assert host_path(fabric, "n0/gpu0", "n0/nic3").type is PathType.PXN
    assert host_path(fabric, "n0/gpu0", "n1/nic0").type is PathType.DIS


def test_a_broken_nvswitch_takes_its_links_and_no_nvlink_leaves_pcie() -> None:
    fabric = load_fabric("hgx-h100")
    down = tuple(
        dataclasses.replace(link, health=0.0) if "nvswitch0" in link.name else link
        for link in fabric.links
    )
    assert host_path(
        dataclasses.replace(fabric, links=down), "n0/gpu0", "n0/gpu1"
    ).GBps == pytest.approx(13 * 20.6)
    none = tuple(link for link in fabric.links if link.link_class != "nvlink")
    bare = dataclasses.replace(fabric, links=none)
    assert types(bare, "n0/gpu0", ["n0/gpu1", "n0/gpu4"]) == ["PHB", "SYS"]
    assert host_path(bare, "n0/gpu0", "n0/nvswitch0").type is PathType.DIS


def test_an_unknown_rate_leaves_the_path_unknown_and_no_way_is_said_so() -> None:
    fabric = host({"a": "gpu", "b": "gpu", "c": "gpu"}, both("a", "b", "nvlink", None))
    assert host_path(fabric, "a", "b") == TypedPath(PathType.NVL, None, ("a", "b"))
    assert host_path(fabric, "a", "c") == TypedPath(PathType.DIS, None, ())
    assert host_path(fabric, "a", "a") == TypedPath(PathType.LOC, None, ("a",))
    assert nic_of(fabric, "a") is None


def test_switches_of_the_network_have_no_path_type() -> None:
    with pytest.raises(UsageError, match="leaf0 is a leaf; expected a device inside a host"):
        host_path(load_fabric("dgx-h100-2node"), "n0/gpu0", "leaf0")


def test_a_graph_is_made_once_for_all_hosts_of_a_domain() -> None:
    fabric = load_fabric("gb200-nvl72")
    assert host_graph(fabric, "n0") is host_graph(fabric, "n17")
