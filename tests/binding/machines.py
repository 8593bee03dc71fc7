"""Pretend machines: a /sys with two sockets, GPUs and NICs behind PCIe switches, and what NVML says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from clusterlab.binding.look import Gpu, Look

CORES = {0: "0-7", 1: "8-15"}


def uuid(index: int) -> str:
    return f"GPU-{index:08x}-0000-0000-0000-000000000000"


def gpu(index: int, *, name: str = "NVIDIA H100", numa: int | None = None) -> Gpu:
    return Gpu(f"0000:{0x10 + 0x10 * index:02x}:00.0", uuid(index), name, numa)


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
        add_device(sys, f"{switch(i)}/0000:{i}c:00.0/{gpu(i).bus_id}", i)
        add_nic(sys, f"mlx5_{i}", f"{switch(i)}/0000:{i}d:00.0/0000:{i}e:00.0", i)
    return sys


def look(rank: int = 0, **changed: object) -> Look:
    """A healthy rank of two nodes with four ranks each: a GPU and four cores of its own."""
    local = rank % 4
    mine = gpu(local, numa=local // 2)
    domain_cores = tuple(range(8 * mine.numa, 8 * mine.numa + 8)) if mine.numa is not None else ()
    healthy = Look(
        rank=rank,
        world_size=8,
        local_rank=local,
        local_world_size=4,
        node_rank=rank // 4,
        host=f"n{rank // 4}",
        source="pmix",
        pid=100 + rank,
        cores=tuple(range(4 * local, 4 * local + 4)),
        numa=(local // 2,),
        cpus_here=16,
        mask="0,1,2,3",
        gpus=tuple(gpu(i, numa=i // 2) for i in range(4)),
        visible_count=4,
        ordinal=local,
        # the same bus id on every node, another piece of hardware
        gpu=replace(mine, uuid=uuid(0x100 * (rank // 4) + local)),
        numa_cores=domain_cores,
        launcher_world_size=8,
        launcher_variable="SLURM_STEP_NUM_TASKS",
        environment={"SLURM_JOB_ID": "7"},
    )
    return replace(healthy, **changed)  # type: ignore[arg-type]
