"""Pretend machines: a /sys with two sockets, GPUs and NICs behind PCIe switches, the NVIDIA driver's /proc,
and what NVML says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from clusterlab.binding.probe import Machine
from clusterlab.binding.records import GpuRecord, JoinedRecord, NodeRecord, RankRecord
from clusterlab.topology.discover.facts import GpuFact
from clusterlab.topology.discover.nvml import NvmlAbsentError

CORES = {0: "0-7", 1: "8-15"}


def uuid(index: int) -> str:
    return f"GPU-{index:08x}-0000-0000-0000-000000000000"


def bus_id(index: int) -> str:
    return f"0000:{0x10 + 0x10 * index:02x}:00.0"


def add_device(sys: Path, path: str, numa: int) -> Path:
    """A PCI device at ``pci0000:10/0000:10:01.0/…`` and its link below bus/pci."""
    folder = sys / "devices" / path
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "numa_node").write_text(f"{numa}\n")
    link = sys / "bus/pci/devices" / folder.name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(folder)
    return folder


def add_nic(sys: Path, name: str, path: str, numa: int, state: str = "4: ACTIVE") -> None:
    device = add_device(sys, path, numa)
    folder = sys / "class/infiniband" / name
    (folder / "ports/1").mkdir(parents=True)
    (folder / "ports/1/state").write_text(f"{state}\n")
    (folder / "device").symlink_to(device)


def switch(socket: int) -> str:
    """The path of a switch's upstream port on ``socket``."""
    bus = 0x0A + 0x80 * socket
    return f"pci0000:{bus:02x}/0000:{bus:02x}:01.0/0000:{bus + 1:02x}:00.0"


def two_socket_sys(root: Path) -> Path:
    """GPU 0 and mlx5_0 behind one switch of socket 0, GPU 1 and mlx5_1 behind one of socket 1."""
    sys = root / "sys"
    for domain, cores in CORES.items():
        node = sys / f"devices/system/node/node{domain}"
        node.mkdir(parents=True)
        (node / "cpulist").write_text(f"{cores}\n")
    for i in (0, 1):
        gpu = add_device(sys, f"{switch(i)}/0000:{i}c:00.0/{bus_id(i)}", i)
        (gpu / "vendor").write_text("0x10de\n")
        (gpu / "class").write_text("0x030200\n")
        add_nic(sys, f"mlx5_{i}", f"{switch(i)}/0000:{i}d:00.0/0000:{i}e:00.0", i)
    return sys


def add_driver(root: Path) -> None:
    """The NVIDIA driver's /proc: GPU i has device minor 1 - i, as numbers need not follow the bus."""
    for i in (0, 1):
        folder = root / "proc/driver/nvidia/gpus" / bus_id(i)
        folder.mkdir(parents=True)
        (folder / "information").write_text(
            f"Model: \t\t NVIDIA H100\nIRQ:   \t\t 44\nGPU UUID: \t {uuid(i)}\n"
            f"Bus Location: \t {bus_id(i)}\nDevice Minor: \t {1 - i}\nGPU Excluded:\t No\n"
        )


def nvml_shows(*indices: int, model: str = "NVIDIA H100") -> Sequence[GpuFact]:
    return [GpuFact(bus_id(i), "nvidia", uuid=uuid(i), name=model, shown=True) for i in indices]


def no_nvml() -> tuple[Sequence[GpuFact], Sequence[tuple[str, str]]]:
    raise NvmlAbsentError("NVML Shared Library Not Found")


def two_gpus() -> tuple[Sequence[GpuFact], Sequence[tuple[str, str]]]:
    return nvml_shows(0, 1), ()


def machine(root: Path, **changed: object) -> Machine:
    """Two GPUs that NVML shows and every process may open; CPUs 0 and 1."""
    here = Machine(
        sys=two_socket_sys(root),
        root=root,
        nvml=two_gpus,
        attempt=lambda path: None,
        cores=(0, 1),
    )
    return replace(here, **changed)  # type: ignore[arg-type]


def rank_record(rank: int, **changed: object) -> RankRecord:
    """A healthy rank of two nodes with four ranks each: a GPU and four cores of its own."""
    local = rank % 4
    healthy = RankRecord(
        host=f"n{rank // 4}",
        rank=rank,
        local_rank=local,
        env={"CUDA_VISIBLE_DEVICES": "0,1,2,3", "SLURM_JOB_ID": "7", "SLURM_PROCID": str(rank)},
        visible=tuple(bus_id(i) for i in range(4)),
        selected_device=local,
        cpus=frozenset(range(4 * local, 4 * local + 4)),
        identity_from="pmix",
    )
    return replace(healthy, **changed)  # type: ignore[arg-type]


def node_record(host: str) -> NodeRecord:
    gpus = tuple(
        GpuRecord(i, bus_id(i), uuid(int(host[1:]) * 16 + i), i // 2, "NVIDIA H100")
        for i in range(4)
    )
    return NodeRecord(host, gpus, {0: frozenset(range(8)), 1: frozenset(range(8, 16))})


def record(*ranks: RankRecord, missing: Sequence[int] = ()) -> JoinedRecord:
    hosts = dict.fromkeys(rank.host for rank in ranks)
    nodes = {host: node_record(host) for host in hosts}
    return JoinedRecord(nodes=nodes, ranks=ranks, missing_ranks=tuple(missing))
