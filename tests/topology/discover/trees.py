"""Made-up /sys trees and a made-up NVML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

GEN5 = "32.0 GT/s PCIe"
GEN4 = "16.0 GT/s PCIe"
NVIDIA_3D, BRIDGE, NETWORK = "0x030200", "0x060400", "0x020000"


class Sys:
    """A /sys in a folder: PCI functions, NUMA domains, NICs."""

    def __init__(self, root: Path) -> None:
        self.root = root / "sys"
        self.root.mkdir()

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")

    def numa(self, index: int, cores: str, kB: int = 1 << 20) -> None:
        self.write(f"devices/system/node/node{index}/cpulist", cores)
        self.write(f"devices/system/node/node{index}/meminfo", f"Node {index} MemTotal:  {kB} kB")

    def pci(
        self,
        path: str,
        *,
        numa: int = 0,
        pci_class: str = BRIDGE,
        vendor: str = "0x1000",
        speed: str = GEN5,
        width: int = 16,
        now: tuple[str, int] | None = None,
    ) -> str:
        """A function at ``pci0000:10/0000:10:01.0/…``, with every bridge above it that is not there yet."""
        parts = path.split("/")
        for i in range(2, len(parts)):
            if not (self.root / "devices" / "/".join(parts[:i])).exists():
                self.pci("/".join(parts[:i]), numa=numa, speed=speed, width=width)
        current = now or (speed, width)
        for name, text in (
            ("class", pci_class),
            ("vendor", vendor),
            ("numa_node", str(numa)),
            ("max_link_speed", speed),
            ("max_link_width", str(width)),
            ("current_link_speed", current[0]),
            ("current_link_width", str(current[1])),
        ):
            self.write(f"devices/{path}/{name}", text)
        link = self.root / "bus/pci/devices" / parts[-1]
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(self.root / "devices" / path)
        return parts[-1]

    def gpu(self, path: str, **changed: Any) -> str:
        return self.pci(path, pci_class=NVIDIA_3D, vendor="0x10de", **changed)

    def rdma(
        self,
        name: str,
        path: str,
        *,
        guid: str = "",
        state: str = "4: ACTIVE",
        rate: str = "400 Gb/sec (4X NDR)",
        layer: str = "InfiniBand",
        interface: str | None = None,
        **changed: Any,
    ) -> str:
        bus_id = self.pci(path, pci_class=NETWORK, vendor="0x15b3", **changed)
        folder = f"class/infiniband/{name}"
        self.write(f"{folder}/node_guid", guid or "0000:0000:0000:0000")
        self.write(f"{folder}/hca_type", "MT4129")
        self.write(f"{folder}/ports/1/state", state)
        self.write(f"{folder}/ports/1/rate", rate)
        self.write(f"{folder}/ports/1/link_layer", layer)
        self.write(f"{folder}/ports/1/gids/0", "fe80:0000:0000:0000:" + (guid or "0:0:0:1"))
        (self.root / folder / "device").symlink_to(self.root / "devices" / path)
        if interface:
            self.net(interface, path)
        return bus_id

    def net(self, name: str, path: str, *, speed: str = "25000", state: str = "up") -> None:
        """An Ethernet interface of the function at ``path``, which exists."""
        self.write(f"class/net/{name}/type", "1")
        self.write(f"class/net/{name}/speed", speed)
        self.write(f"class/net/{name}/operstate", state)
        (self.root / f"class/net/{name}/device").symlink_to(self.root / "devices" / path)


def below(bus: int, index: int) -> str:
    """The device at one of the ports of a switch whose root port is at ``bus``."""
    up, inner = bus + 1, bus + 2
    return (
        f"pci0000:{bus:02x}/0000:{bus:02x}:01.0/0000:{up:02x}:00.0"
        f"/0000:{inner:02x}:{index:02x}.0/0000:{inner + 1 + index:02x}:00.0"
    )


DGX_BUSES = (0x10, 0x20, 0x30, 0x40, 0x90, 0xA0, 0xB0, 0xC0)
DGX_NICS = ("mlx5_0", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_9", "mlx5_10", "mlx5_11")
"""GPU i's own NIC on a DGX H100 (its user guide, table 6): a NIC's number is no rail."""

DGX_SWITCHES = ("0000:05:00.0", "0000:06:00.0", "0000:07:00.0", "0000:08:00.0")


def dgx_h100(root: Path, host: int = 0) -> Sys:
    """8 GPUs, each with its NIC behind one switch; two dual-port cards for storage; two sockets."""
    sys = Sys(root)
    sys.numa(0, "0-55,112-167")
    sys.numa(1, "56-111,168-223")
    for i, bus in enumerate(DGX_BUSES):
        sys.gpu(below(bus, 0), numa=i // 4)
        guid = f"f0a0:00{host:02x}:0000:00{i:02x}"
        sys.rdma(DGX_NICS[i], below(bus, 1), numa=i // 4, guid=guid)
    for socket, (bus, names) in enumerate(
        ((0x50, ("mlx5_1", "mlx5_2")), (0xD0, ("mlx5_7", "mlx5_8")))
    ):
        for function, name in enumerate(names):
            path = f"pci0000:{bus:02x}/0000:{bus:02x}:01.0/0000:{bus + 1:02x}:00.{function}"
            sys.rdma(
                name, path, numa=socket, layer="Ethernet", rate="100 Gb/sec (4X EDR)",
                guid=f"f0a0:00{host:02x}:0000:01{socket}{function}", interface=f"ens{bus}f{function}",
            )  # fmt: skip
    return sys


class FakeNvmlError(Exception):
    """As pynvml's: the base of all that NVML raises."""


@dataclass
class FakeGpu:
    """What NVML says of one GPU. ``links``: number → remote (type, bus id), or None for one that is down."""

    bus_id: str
    name: str = "NVIDIA H100 80GB HBM3"
    links: Mapping[int, tuple[int, str] | None] = field(default_factory=dict)
    capability: tuple[int, int] | None = (9, 0)
    memory_affinity: Sequence[int] | None = None
    cluster: bytes = bytes(16)
    clique: int = 0
    c2c: tuple[int, int] | None = None
    link_MBps: int = 26562
    mig: int = 0


class FakeNvml:
    """The functions of pynvml that discovery uses, over made-up GPUs."""

    NVMLError = FakeNvmlError

    class c_nvmlGpuFabricInfo_t:  # noqa: N801  # the binding's name
        def __init__(self) -> None:
            self.clusterUuid: bytes = bytes(16)
            self.state = 0
            self.cliqueId = 0

    def __init__(
        self,
        gpus: Sequence[FakeGpu],
        *,
        levels: Mapping[tuple[str, str], int] | None = None,
        absent: str | None = None,
    ) -> None:
        self.gpus = gpus
        self.levels = levels or {}
        self.absent = absent
        self.open = 0

    def nvmlInit(self) -> None:
        if self.absent:
            raise FakeNvmlError(self.absent)
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlSystemGetDriverVersion(self) -> bytes:
        return b"580.1"

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:
        return self.gpus[index]

    def nvmlDeviceGetPciInfo(self, gpu: FakeGpu) -> Any:
        return SimpleNamespace(busId=f"0000{gpu.bus_id}".upper().encode())

    def nvmlDeviceGetUUID(self, gpu: FakeGpu) -> str:
        return f"GPU-{gpu.bus_id}"

    def nvmlDeviceGetName(self, gpu: FakeGpu) -> bytes:
        return gpu.name.encode()

    def nvmlDeviceGetMigMode(self, gpu: FakeGpu) -> tuple[int, int]:
        return gpu.mig, gpu.mig

    def nvmlDeviceGetCudaComputeCapability(self, gpu: FakeGpu) -> tuple[int, int]:
        return self._or_unsupported(gpu.capability)

    def nvmlDeviceGetMemoryAffinity(self, gpu: FakeGpu, words: int, scope: int) -> Sequence[int]:
        return self._or_unsupported(gpu.memory_affinity)

    def nvmlDeviceGetNvLinkState(self, gpu: FakeGpu, link: int) -> int:
        if link not in gpu.links:
            raise FakeNvmlError("Invalid Argument")
        return int(gpu.links[link] is not None)

    def nvmlDeviceGetNvLinkRemotePciInfo(self, gpu: FakeGpu, link: int) -> Any:
        return SimpleNamespace(busId=self._remote(gpu, link)[1].encode())

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, gpu: FakeGpu, link: int) -> int:
        return self._remote(gpu, link)[0]

    def nvmlDeviceGetTopologyCommonAncestor(self, a: FakeGpu, b: FakeGpu) -> int:
        return self._or_unsupported(
            self.levels.get((a.bus_id, b.bus_id), self.levels.get((b.bus_id, a.bus_id)))
        )

    def nvmlDeviceGetGpuFabricInfo(self, gpu: FakeGpu, info: Any) -> int:
        info.clusterUuid, info.cliqueId, info.state = gpu.cluster, gpu.clique, 3
        return 0

    def nvmlDeviceGetFieldValues(self, gpu: FakeGpu, fields: Sequence[tuple[int, int]]) -> Any:
        c2c = gpu.c2c or (0, 0)
        value = {164: gpu.link_MBps, 170: c2c[0], 172: c2c[1]}.get(fields[0][0])
        return [
            SimpleNamespace(nvmlReturn=int(value is None), value=SimpleNamespace(uiVal=value or 0))
        ]

    @staticmethod
    def _remote(gpu: FakeGpu, link: int) -> tuple[int, str]:
        remote = gpu.links[link]
        assert remote is not None
        return remote

    @staticmethod
    def _or_unsupported(value: Any) -> Any:
        if value is None:
            raise FakeNvmlError("Not Supported")
        return value


SWITCH, GPU, CPU = 2, 0, 1
HIDDEN = "FFFFFFFF:FF:FF.0"


def to_switches(counts: Sequence[int] = (5, 4, 4, 5)) -> dict[int, tuple[int, str] | None]:
    """18 links to four NVSwitches, as a DGX H100 has them."""
    targets = [s for s, count in zip(DGX_SWITCHES, counts, strict=True) for _ in range(count)]
    return {i: (SWITCH, f"0000{bus_id}") for i, bus_id in enumerate(targets)}


def dgx_nvml(**changed: Any) -> FakeNvml:
    """NVML of ``dgx_h100``, GPUs out of order as an index may be."""
    gpus = [
        FakeGpu(below(bus, 0).rpartition("/")[2], links=to_switches(), **changed)
        for bus in DGX_BUSES
    ]
    return FakeNvml(list(reversed(gpus)))
