"""What one machine's /sys and NVML say, as plain data that travels to the process that joins the parts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from clusterlab.topology.host import NumaDomain

Vendor = Literal["nvidia", "amd"]
Remote = Literal["gpu", "switch", "cpu", "unknown"]
"""What an NVLink ends at."""

MARK = "clusterlab_machine"
"""The key that marks the JSON ``to_json`` writes; its value is the form's number."""

FORM = 1


@dataclass(frozen=True, slots=True)
class PciFact:
    """A PCI function. ``path`` leads to it from its root complex: ``pci0000:10``, root port, …, itself.

    Speeds are GT/s of a lane, widths lanes, of the link above it: now, and at most. None: not said.
    ``is_virtual``: a virtual function, and the physical one is on this machine too.
    """

    bus_id: str
    path: tuple[str, ...]
    pci_class: int | None = None
    vendor: int | None = None
    numa: int | None = None
    speed_GTps: float | None = None
    max_speed_GTps: float | None = None
    width: int | None = None
    max_width: int | None = None
    is_virtual: bool = False


@dataclass(frozen=True, slots=True)
class NvLinkFact:
    """One NVLink of a GPU; ``remote_bus_id`` None: hidden from this machine (a VM, a rack's switches).

    ``wire_GBps`` is its rate per direction as the driver reports it, coding included.
    """

    number: int
    active: bool
    remote: Remote = "unknown"
    remote_bus_id: str | None = None
    wire_GBps: float | None = None


@dataclass(frozen=True, slots=True)
class GpuFact:
    """A GPU. ``capability`` is CUDA's (9, 0) or an AMD target (9, 4, 2); ``shown``: the driver shows it.

    ``pcie_generation`` and ``pcie_width`` are the most its slot and it agree on; ``domain`` names an
    NVLink domain that spans hosts (cluster UUID and clique). ``c2c_links`` lead to its CPU at
    ``c2c_GBps`` each. ``unit`` is ``kfd``'s node number.
    """

    bus_id: str
    vendor: Vendor
    uuid: str | None = None
    name: str | None = None
    capability: tuple[int, ...] | None = None
    shown: bool = False
    mig: bool = False
    numa: int | None = None
    cores: tuple[int, ...] = ()
    pcie_generation: int | None = None
    pcie_width: int | None = None
    pcie_width_now: int | None = None
    nvlinks: tuple[NvLinkFact, ...] = ()
    domain: str | None = None
    c2c_links: int = 0
    c2c_GBps: float | None = None
    unit: int | None = None


@dataclass(frozen=True, slots=True)
class XgmiFact:
    """One direction of an xGMI connection between two GPUs, as the kernel's kfd tells it."""

    src: str
    dst: str
    max_GBps: float | None = None


@dataclass(frozen=True, slots=True)
class PortFact:
    """A port of a NIC. ``subnets`` are its IP networks (``10.0.1.0/24``), ``gid_prefix`` InfiniBand's."""

    number: int
    up: bool | None = None
    rate_Gbps: float | None = None
    layer: Literal["infiniband", "ethernet"] | None = None
    interfaces: tuple[str, ...] = ()
    subnets: tuple[str, ...] = ()
    gid_prefix: str | None = None


@dataclass(frozen=True, slots=True)
class NicFact:
    """A NIC: an RDMA device (``mlx5_0``), or a PCI function with a network interface (``eth0``)."""

    name: str
    bus_id: str | None
    rdma: bool
    guid: str | None = None
    model: str | None = None
    ports: tuple[PortFact, ...] = ()

    @property
    def up(self) -> bool:
        """Whether a port is active, or none says anything."""
        states = [port.up for port in self.ports if port.up is not None]
        return not states or any(states)


@dataclass(frozen=True, slots=True)
class CpuFact:
    """The kind of CPU, as NCCL writes it: ``x86_64``, ``GenuineIntel``, 6, 207; None: not said."""

    model_name: str = ""
    arch: str = ""
    vendor: str | None = None
    family: int | None = None
    model: int | None = None


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """One machine. ``pci`` holds its GPUs, NICs and every bridge above them.

    ``domains`` are its NUMA domains with all their cores, whatever this process may use.
    ``levels`` is NVML's distance of GPU pairs (bus id, bus id, ``PHB``). ``notes`` say what could not
    be seen, and why.
    """

    host: str
    cpu: CpuFact = CpuFact()
    kernel: str = ""
    driver: str | None = None
    domains: tuple[NumaDomain, ...] = ()
    pci: tuple[PciFact, ...] = ()
    gpus: tuple[GpuFact, ...] = ()
    nics: tuple[NicFact, ...] = ()
    xgmi: tuple[XgmiFact, ...] = ()
    levels: tuple[tuple[str, str, str], ...] = ()
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain data that ``facts_json.machine_from_json`` reads back."""
        return {MARK: FORM, **asdict(self)}
