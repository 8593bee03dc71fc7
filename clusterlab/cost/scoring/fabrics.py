"""The fabric of a described machine: hosts of a shipped design with the NICs a table names. Pure.

GPUs, their NVLink or xGMI and the CPUs are the design's; the PCIe tree and the NICs are laid out anew,
every GPU near its NIC. Hosts are joined by one switch per rail that never blocks: tables do not say what
their networks look like, and no contention is modelled here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from clusterlab.cost.scoring.boards import CARDS_A_SWITCH, SOURCE, Host, board_of, both
from clusterlab.cost.scoring.machine import Machine, SystemDescription, machine_of
from clusterlab.cost.scoring.vocabulary import vocabulary
from clusterlab.topology.fabric import Fabric, equal_hosts
from clusterlab.topology.parts import Device, Link


@lru_cache(maxsize=4096)
def fabric_for(description: SystemDescription) -> Fabric:
    """The fabric that ``description`` means, made once. Raises UsageError for words it does not know."""
    return _fabric(machine_of(description), description)


def settings_for(description: SystemDescription) -> dict[str, str]:
    """NCCL variables that the words imply: no peer access is NCCL_P2P_DISABLE=1."""
    return dict(_machine(description).settings)


_machine = lru_cache(maxsize=4096)(machine_of)


def _fabric(machine: Machine, description: SystemDescription) -> Fabric:
    names = [f"n{i}" for i in range(machine.hosts)]
    board = board_of(machine)
    devices, links = _laid_out(machine, board)
    others, other_links = _racks(machine, board, names)
    more, more_links = _rails(machine, devices, names)
    all_devices, all_links = equal_hosts(
        names,
        devices,
        links,
        others=[*others, *more],
        other_links=[*other_links, *more_links],
    )
    words = (description.gpu, description.intra_fabric, description.inter_fabric)
    return Fabric(
        name=description.system,
        devices=all_devices,
        links=all_links,
        description=", ".join(
            [f"{machine.hosts} x {machine.gpus} {machine.build.model}", *filter(None, words)]
        ),
        origin=SOURCE,
    )


def _laid_out(machine: Machine, board: Host) -> tuple[list[Device], list[Link]]:
    """The whole host: the board, and a PCIe tree with the NICs."""
    devices, links = list(board.devices), list(board.links)
    gpus = [d for d in devices if d.kind == "gpu"]
    coherent = any(link.link_class == "c2c" for link in links)
    direct = coherent or machine.build.host == "ports"
    if machine.build.host == "ports":
        for i, gpu in enumerate(gpus):
            _to_cpu(machine, devices, links, gpu.name, root=f"gpuroot{i}", numa=gpu.numa)
    places = [gpus[j * len(gpus) // max(1, machine.nics)] for j in range(machine.nics)]
    nics = [_nic(machine, j, near, len(gpus)) for j, near in enumerate(places)]
    devices += nics
    if direct:
        for j, nic in enumerate(nics):
            _to_cpu(machine, devices, links, nic.name, root=f"root{j}", numa=nic.numa)
        return _with_rails(devices, machine), links
    switches = _switches(machine, len(gpus))
    for s in range(switches):
        numa = gpus[-(-s * len(gpus) // switches)].numa
        devices.append(Device(f"pcie{s}", "pcie_switch", host="", numa=numa))
        _to_cpu(machine, devices, links, f"pcie{s}", root=f"root{s}", numa=numa)
    for i, gpu in enumerate(gpus):
        links += both(_pcie(machine, gpu.name, f"pcie{i * switches // len(gpus)}"))
    for j, nic in enumerate(nics):
        links += both(_pcie(machine, nic.name, f"pcie{j * switches // len(nics)}"))
    return _with_rails(devices, machine), links


def _switches(machine: Machine, gpus: int) -> int:
    """PCIe switches of a host: one for each GPU or NIC that it has to itself, else for two or four GPUs."""
    if machine.build.host == "pcie" and 2 * machine.nics < gpus:
        return -(-gpus // CARDS_A_SWITCH)
    if machine.nics >= gpus or machine.nics == 0:
        return gpus
    return max(machine.nics, -(-gpus // 2))


def _nic(machine: Machine, index: int, near: Device, gpus: int) -> Device:
    """NICs of one GPU share its rail; fewer NICs than GPUs have a rail each."""
    rail = index * gpus // machine.nics if machine.nics >= gpus else index
    return Device(
        f"nic{index}",
        "nic",
        host="",
        model=_nic_model(machine),
        numa=near.numa,
        rail=rail,
        role="compute",
        transport=machine.transport.name,
    )


def _nic_model(machine: Machine) -> str | None:
    """An EFA card's generation: it tells the AWS instance, and so its CPUs. Else unknown."""
    if machine.transport.name != "efa":
        return None
    words = vocabulary()
    if machine.chip.name in words.efa_first_chips:
        return words.efa_first
    return words.efa_models.get(round(machine.nic_Gbps))


def _with_rails(devices: Sequence[Device], machine: Machine) -> list[Device]:
    """GPUs on the rail of the NIC they are near."""
    gpus = sum(d.kind == "gpu" for d in devices)
    rails = max(1, min(gpus, machine.nics))
    return [
        replace(d, rail=int(d.name.removeprefix("gpu")) * rails // gpus) if d.kind == "gpu" else d
        for d in devices
    ]


def _to_cpu(
    machine: Machine,
    devices: list[Device],
    links: list[Link],
    name: str,
    *,
    root: str,
    numa: int | None,
) -> None:
    """Join ``name`` to its NUMA domain's CPU through a host bridge of its own."""
    cpus = [d for d in devices if d.kind == "cpu"]
    cpu = next((c for c in cpus if c.numa == numa), cpus[0])
    devices.append(Device(root, "host_bridge", host="", numa=cpu.numa))
    links += [*both(_pcie(machine, name, root)), *both(_pcie(machine, root, cpu.name))]


def _pcie(machine: Machine, src: str, dst: str) -> Link:
    usable, wire = vocabulary().pcie_GBps[machine.pcie]
    return Link(
        src,
        dst,
        "pcie",
        usable,
        wire_GBps=wire,
        GBps_source="NCCL src/graph/topo.cc, kvDictPciGen, 16 lanes",
        wire_source=f"PCIe {machine.pcie}, 16 lanes",
    )


def _racks(machine: Machine, board: Host, names: Sequence[str]) -> tuple[list[Device], list[Link]]:
    """NVSwitches that stand outside the hosts, one set for each rack; the hosts spread evenly.

    Hosts of such a design that no rack joins keep them to themselves.
    """
    if not board.shared:
        return [], []
    racks = machine.racks or len(names)
    hosts_of = [
        names[r * len(names) // racks : (r + 1) * len(names) // racks] for r in range(racks)
    ]
    devices, links = [], []
    for r, hosts in enumerate(hosts_of):
        prefix = "" if racks == 1 else f"rack{r}-"
        shared = {d.name for d in board.shared}
        devices += [replace(d, name=prefix + d.name) for d in board.shared]
        for host in hosts:
            for link in board.up:
                ends = [prefix + e if e in shared else f"{host}/{e}" for e in (link.src, link.dst)]
                links.append(replace(link, src=ends[0], dst=ends[1]))
    return devices, links


def _rails(
    machine: Machine, devices: Sequence[Device], names: Sequence[str]
) -> tuple[list[Device], list[Link]]:
    """One switch per rail; one for all where GPUs of a host have only PCIe to reach other rails."""
    if len(names) < 2 or machine.nics == 0:
        return [], []
    nics = [d for d in devices if d.kind == "nic"]
    cards = machine.build.cards
    leaf_of = {d.name: "leaf0" if cards else f"leaf{d.rail}" for d in nics}
    rail_of = {leaf_of[d.name]: None if cards else d.rail for d in nics}
    leaves = [Device(name, "leaf", rail=rail) for name, rail in rail_of.items()]
    wire = machine.nic_Gbps / 8
    usable = machine.transport.usable
    cable = Link(
        "",
        "",
        machine.transport.link_class,
        None if usable is None else wire * usable,
        wire_GBps=wire,
        GBps_source="" if usable is None else "46-48 of 50 GB/s (NVIDIA/nccl-tests#290)",
        wire_source=f"{machine.nic_Gbps:g} Gb/s / 8",
    )
    return leaves, [
        link
        for host in names
        for d in nics
        for link in both(
            replace(
                cable, src=f"{host}/{d.name}", dst=leaf_of[d.name], rail=rail_of[leaf_of[d.name]]
            )
        )
    ]
