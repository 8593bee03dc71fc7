"""Nodes joined: by the switches' listing, by subnets, by NVLink domains."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.topology.discover.facts import MachineFacts
from clusterlab.topology.discover.join import join_machines
from clusterlab.topology.discover.machine import read_machine
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.importing.ibnetdiscover import read_ibnetdiscover
from clusterlab.topology.importing.imported import Imported
from tests.topology.discover.trees import (
    DGX_NICS,
    HIDDEN,
    SWITCH,
    FakeGpu,
    FakeNvml,
    Sys,
    dgx_h100,
    dgx_nvml,
)

HOSTS = ("a01", "a02", "a03", "a04")


def machine(tmp_path: Path, number: int) -> MachineFacts:
    """A DGX H100 called ``HOSTS[number]``."""
    folder = tmp_path / HOSTS[number]
    folder.mkdir()
    sys = dgx_h100(folder, number)
    return read_machine(HOSTS[number], sys=sys.root, nvml=dgx_nvml(), addresses=None)


def listing(leaf_of: Callable[[int, int], int], guid: str = "f0a000{host:02x}000000{i:02x}") -> str:
    """ibnetdiscover of 4 hosts and 8 leaves under 2 spines; ``leaf_of(host, gpu)`` is a cable."""
    leaves: defaultdict[int, list[str]] = defaultdict(list)
    cas = []
    for host in range(len(HOSTS)):
        for i in range(8):
            name, leaf = guid.format(host=host, i=i), leaf_of(host, i)
            port = len(leaves[leaf]) + 1
            leaves[leaf].append(
                f'[{port}]\t"H-{name}"[1]({name}) \t\t# "localhost HCA-{i}" lid {i + 1} 4xNDR'
            )
            cas.append(
                f'caguid=0x{name}\nCa\t1 "H-{name}"\t\t# "localhost HCA-{i}"\n'
                f'[1]({name}) \t"S-{leaf:016x}"[{port}]\t\t# lid {i + 1} lmc 0 "leaf" lid 9 4xNDR\n'
            )
    spines: defaultdict[int, list[str]] = defaultdict(list)
    switches = []
    for leaf in range(8):
        ports = list(leaves[leaf])
        for spine in (100, 101):
            up = 30 + spine - 100
            ports.append(f'[{up}]\t"S-{spine:016x}"[{leaf + 1}]\t\t# "spine" lid 9 4xNDR')
            spines[spine].append(f'[{leaf + 1}]\t"S-{leaf:016x}"[{up}]\t\t# "leaf" lid 9 4xNDR')
        switches.append(switch(leaf, f"leaf{leaf}", ports))
    switches += [switch(spine, f"spine{spine}", ports) for spine, ports in spines.items()]
    return "\n".join([*switches, *cas])


def switch(number: int, name: str, ports: list[str]) -> str:
    body = "\n".join(ports)
    return (
        f"switchguid=0x{number:016x}({number:016x})\n"
        f'Switch\t64 "S-{number:016x}"\t\t# "{name}" enhanced port 0 lid 9 lmc 0\n{body}\n'
    )


def rails(fabric: Fabric, kind: str, host: str) -> dict[str, int | None]:
    return {d.name.partition("/")[2]: d.rail for d in fabric.on_host(host, kind)}  # type: ignore[arg-type]


def test_nics_are_found_in_the_listing_by_guid_and_rails_are_their_leaves(tmp_path: Path) -> None:
    machines = [machine(tmp_path, i) for i in range(4)]
    # the cables are not in the order of the GPUs: leaf 7 serves GPU 0
    text = listing(lambda host, gpu: 7 - gpu)
    joined = join_machines(machines, read_ibnetdiscover(text, file="ib.out"))
    assert joined.kind == "discover"
    assert joined.fabric.hosts[:4] == HOSTS
    assert len(joined.fabric.of_kind("leaf")) == 8
    assert len(joined.fabric.of_kind("spine")) == 2
    assert len(joined.fabric.of_kind("nic")) == 4 * 12  # the listing's are ours
    leaves = {d.name: d.rail for d in joined.fabric.of_kind("leaf")}
    for host in HOSTS:
        of_nics, of_gpus = rails(joined.fabric, "nic", host), rails(joined.fabric, "gpu", host)
        for i in range(8):
            (cable,) = [
                x for x in joined.fabric.links_from(f"{host}/{DGX_NICS[i]}") if x.dst in leaves
            ]
            assert of_gpus[f"gpu{i}"] == of_nics[DGX_NICS[i]] == leaves[cable.dst] is not None
        assert len({of_gpus[f"gpu{i}"] for i in range(8)}) == 8
        assert {of_nics[f"mlx5_{i}"] for i in (1, 2, 7, 8)} == {None}
    assert "rails_unknown" not in [f.code for f in joined.findings]


def test_every_gpu_reaches_every_other_over_the_joined_network(tmp_path: Path) -> None:
    from clusterlab.topology.routing.fluid import route

    machines = [machine(tmp_path, i) for i in range(2)]
    joined = join_machines(machines, read_ibnetdiscover(listing(lambda h, g: g), file="ib.out"))
    crossed = route(joined.fabric, "a01/gpu0", "a02/gpu0")
    assert sum(c.link.link_class == "ib" for c in crossed) == 2  # up to its leaf and down


def test_a_nic_that_the_listing_lacks_is_named(tmp_path: Path) -> None:
    machines = [machine(tmp_path, i) for i in range(2)]
    text = listing(lambda h, g: g).replace("f0a0000100000003", "f0a0000100000999")
    joined = join_machines(machines, read_ibnetdiscover(text, file="ib.out"))
    (finding,) = [f for f in joined.findings if f.code == "nic_not_in_network"]
    assert "a02/mlx5_5" in finding.evidence[0]


def roce(facts: MachineFacts, subnet_of: Callable[[int], str | None]) -> MachineFacts:
    """The machine with its eight compute NICs on Ethernet, in these IP networks."""
    nics = []
    for nic in facts.nics:
        if nic.name not in DGX_NICS:
            continue
        subnet = subnet_of(DGX_NICS.index(nic.name))
        port = replace(
            nic.ports[0], layer="ethernet", gid_prefix=None, subnets=(subnet,) if subnet else ()
        )
        nics.append(replace(nic, ports=(port,)))
    return replace(facts, nics=tuple(nics))


def test_without_a_listing_rails_are_ip_subnets(tmp_path: Path) -> None:
    machines = [roce(machine(tmp_path, i), lambda gpu: f"10.{9 - gpu}.0.0/16") for i in range(3)]
    joined = join_machines(machines)
    assert joined.fabric.of_kind("leaf")[0].name == "subnet-10.2.0.0_16"
    of_gpus = [rails(joined.fabric, "gpu", host) for host in HOSTS[:3]]
    assert of_gpus[0] == of_gpus[1] == of_gpus[2]
    assert len(set(of_gpus[0].values())) == 8
    cables = [x for x in joined.fabric.links if x.link_class == "ethernet"]
    assert {(x.GBps, x.multiplicity) for x in cables} == {(50.0, 1)}
    assert [f.code for f in joined.findings] == ["network_unseen"]


def test_one_flat_subnet_has_no_rails(tmp_path: Path) -> None:
    machines = [roce(machine(tmp_path, i), lambda gpu: "10.0.0.0/8") for i in range(3)]
    joined = join_machines(machines)
    assert len(joined.fabric.of_kind("leaf")) == 1
    assert {d.rail for d in joined.fabric.devices} == {None}


def test_infiniband_without_a_listing_is_not_guessed(tmp_path: Path) -> None:
    machines = [machine(tmp_path, i) for i in range(2)]
    joined = join_machines(machines)
    assert joined.fabric.of_kind("leaf") == ()
    (finding,) = joined.findings
    assert (finding.code, "(24 in all)" in finding.evidence[0]) == ("rails_unknown", True)
    assert {d.rail for d in joined.fabric.devices} == {None}


def test_infiniband_subnet_prefixes_tell_rails_where_each_is_a_fabric_of_its_own(
    tmp_path: Path,
) -> None:
    machines = []
    for i in range(2):
        facts = machine(tmp_path, i)
        nics = tuple(
            replace(nic, ports=(replace(nic.ports[0], gid_prefix=f"fec000000000{k:04x}"),))
            for k, nic in enumerate(n for n in facts.nics if n.name in DGX_NICS)
        )
        machines.append(replace(facts, nics=nics))
    joined = join_machines(machines)
    assert len(joined.fabric.of_kind("leaf")) == 8
    assert len({d.rail for d in joined.fabric.of_kind("gpu")}) == 8


def tray(tmp_path: Path, number: int) -> MachineFacts:
    folder = tmp_path / f"t{number}"
    folder.mkdir()
    sys = Sys(folder)
    sys.numa(0, "0-71")
    gpus = []
    for i in range(4):
        bus = sys.gpu(f"pci000{i}:00/000{i}:00:00.0/000{i}:01:00.0")
        links = dict.fromkeys(range(18), (SWITCH, HIDDEN))
        gpus.append(
            FakeGpu(bus, name="NVIDIA GB200", capability=(10, 0), links=links,
                    cluster=b"\x01" * 16, clique=7, link_MBps=50000)
        )  # fmt: skip
    return read_machine(f"t{number}", sys=sys.root, nvml=FakeNvml(gpus), addresses=None)


def test_trays_of_one_rack_share_its_nvswitches(tmp_path: Path) -> None:
    joined = join_machines([tray(tmp_path, i) for i in range(3)])
    (rack,) = joined.fabric.of_kind("nvswitch")
    assert (rack.host, rack.in_network) == (None, True)
    links = [x for x in joined.fabric.links if x.dst == rack.name]
    assert len(links) == 12
    assert {(x.GBps, x.wire_GBps, x.multiplicity) for x in links} == {(40.1, 50.0, 18)}


def test_a_tray_alone_has_switches_of_its_own(tmp_path: Path) -> None:
    (switch_,) = join_machines([tray(tmp_path, 0)]).fabric.of_kind("nvswitch")
    assert switch_.host == "t0"


def test_equal_findings_of_many_nodes_are_said_once(tmp_path: Path) -> None:
    def vm(number: int) -> MachineFacts:
        folder = tmp_path / f"v{number}"
        folder.mkdir()
        sys = Sys(folder)
        sys.numa(0, "0-7")
        sys.gpu("pci0000:00/0000:00:06.0", numa=-1)
        gpus = [FakeGpu("0000:00:06.0", links={0: (SWITCH, HIDDEN)})]
        return read_machine(f"v{number}", sys=sys.root, nvml=FakeNvml(gpus), addresses=None)

    joined = join_machines([vm(0), vm(1)])
    (finding,) = joined.findings
    assert len(finding.evidence) == 2


def test_one_host_twice_and_no_host_are_refused(tmp_path: Path) -> None:
    facts = machine(tmp_path, 0)
    with pytest.raises(UsageError, match="a01 came more than once"):
        join_machines([facts, facts])
    with pytest.raises(UsageError, match="no machine"):
        join_machines([])


def test_one_machine_alone_is_itself(tmp_path: Path) -> None:
    facts = machine(tmp_path, 0)
    joined: Imported = join_machines([facts])
    assert joined.fabric.name == "a01"
    assert joined.findings == ()
