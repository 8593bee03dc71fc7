"""Every machine's discovery, and the switches' listing where there is one, as one fabric. Pure.

NICs are found in the listing by GUID. Rails come from the leaves they are on, or from IP subnets; never
from the numbers in their names.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from clusterlab.core.errors import UsageError
from clusterlab.core.findings import Finding, Severity
from clusterlab.formats.infiniband import normal_guid
from clusterlab.topology.discover.accelerator_links import reduces_in_switches
from clusterlab.topology.discover.assemble import (
    KIND,
    fabric_from_machine,
    machine_facts,
    machine_parts,
    nic_device,
)
from clusterlab.topology.discover.distance import nic_distances
from clusterlab.topology.discover.facts import MachineFacts
from clusterlab.topology.discover.subnets import Network, subnet_network
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.importing.imported import Imported
from clusterlab.topology.parts import Device, Link
from clusterlab.topology.rails.infer import with_rails


def join_machines(machines: Sequence[MachineFacts], network: Imported | None = None) -> Imported:
    """One fabric of all machines, on the switches of ``network`` (an imported ibnetdiscover), if given.

    Raises UsageError when two parts say they are the same host, or there is none.
    """
    _each_host_once(machines)
    if len(machines) == 1 and network is None:
        return fabric_from_machine(machines[0])
    racks, shared = _nvlink_domains(machines)
    devices: list[Device] = []
    links: list[Link] = []
    findings: list[Finding] = []
    for facts in machines:
        more_devices, more_links, more_findings = machine_parts(facts, shared)
        devices += more_devices
        links += more_links
        findings += more_findings
    outside = subnet_network(machines) if network is None else _on_switches(machines, network)
    devices = _with_roles(devices, outside)
    joined = with_rails(
        Fabric(
            name="discovered",
            devices=(*devices, *racks, *_not_ours(outside.devices, devices)),
            links=(*links, *outside.links),
            description=f"{len(machines)} hosts, {sum(len(m.gpus) for m in machines)} GPUs",
            origin="discovered on " + ", ".join(_shortened([m.host for m in machines])),
        )
    )
    return Imported(
        KIND,
        _rails_of_gpus(joined, machines),
        tuple(_together(findings)) + tuple(outside.findings),
        _facts(machines, network),
    )


def _each_host_once(machines: Sequence[MachineFacts]) -> None:
    if not machines:
        raise UsageError("no machine to join", where="discover", expected="at least one part")
    twice = [host for host, count in Counter(m.host for m in machines).items() if count > 1]
    if twice:
        raise UsageError(
            f"{twice[0]} came more than once",
            where="discover",
            expected="one part for each host",
            fix="start one task per node (srun --ntasks-per-node=1)",
        )


def _nvlink_domains(machines: Sequence[MachineFacts]) -> tuple[list[Device], dict[str, str]]:
    """A device for the NVSwitches of each NVLink domain that has GPUs of several machines (a rack)."""
    hosts: defaultdict[str, set[str]] = defaultdict(set)
    for facts in machines:
        for gpu in facts.gpus:
            if gpu.domain:
                hosts[gpu.domain].add(facts.host)
    reduces = any(reduces_in_switches(gpu) for facts in machines for gpu in facts.gpus)
    racks, shared = [], {}
    for i, domain in enumerate(sorted(d for d, there in hosts.items() if len(there) > 1)):
        shared[domain] = f"nvlink{i}"
        model = f"all NVSwitches of NVLink domain {domain}, as one"
        racks.append(Device(shared[domain], "nvswitch", model=model, in_network=reduces))
    return racks, shared


def _on_switches(machines: Sequence[MachineFacts], network: Imported) -> Network:
    """The listing's devices and links, our NICs in the place of those with their GUIDs."""
    ours = {
        nic.guid: nic_device(facts, nic) for facts in machines for nic in facts.nics if nic.guid
    }
    own_names = set(ours.values())
    fabric = network.fabric
    renamed = {
        d.name: ours[guid]
        for d in fabric.devices
        if d.kind == "nic" and d.guid and (guid := normal_guid(d.guid.replace(":", ""))) in ours
    }
    # another NIC under the name of one of ours was replaced since the listing was made
    stale = {d.name for d in fabric.devices if d.name in own_names and d.name not in renamed}
    outside = Network(
        [
            replace(d, name=renamed.get(d.name, d.name))
            for d in fabric.devices
            if d.name not in stale
        ],
        [
            replace(x, src=renamed.get(x.src, x.src), dst=renamed.get(x.dst, x.dst))
            for x in fabric.links
            if x.src not in stale and x.dst not in stale
        ],
        list(network.findings),
    )
    outside.findings += _not_listed(machines, set(renamed.values()))
    return outside


def _not_listed(machines: Sequence[MachineFacts], listed: set[str]) -> list[Finding]:
    absent = [
        nic_device(facts, nic)
        for facts in machines
        for nic in facts.nics
        if nic.rdma
        and any(port.layer == "infiniband" and port.up for port in nic.ports)
        and nic_device(facts, nic) not in listed
    ]
    if not absent:
        return []
    return [
        Finding(
            "nic_not_in_network",
            Severity.WARNING,
            (f"active on their hosts, but not in the switches' listing: {', '.join(absent)}",),
            "make the listing anew; a NIC on another subnet needs that subnet's listing (ibnetdiscover"
            " -C DEVICE)",
        )
    ]


def _with_roles(devices: Sequence[Device], outside: Network) -> list[Device]:
    """Our devices, with what the listing knows of them: role, rail, plane."""
    known = {d.name: d for d in outside.devices}
    return [
        replace(d, role=other.role, rail=other.rail, plane=other.plane)
        if (other := known.get(d.name)) is not None
        else d
        for d in devices
    ]


def _not_ours(theirs: Sequence[Device], ours: Sequence[Device]) -> list[Device]:
    names = {d.name for d in ours}
    return [d for d in theirs if d.name not in names]


def _rails_of_gpus(fabric: Fabric, machines: Sequence[MachineFacts]) -> Fabric:
    """A GPU is on the rail of its nearest NICs, where they agree."""
    rail_of: dict[str, int] = {}
    of_nic = {d.name: d.rail for d in fabric.devices if d.kind == "nic"}
    for facts in machines:
        pci = {fact.bus_id: fact for fact in facts.pci}
        railed = [nic for nic in facts.nics if of_nic.get(nic_device(facts, nic)) is not None]
        for i, gpu in enumerate(facts.gpus):
            near = nic_distances(pci.get(gpu.bus_id), railed, pci)
            rails = {
                of_nic[nic_device(facts, nic)]
                for nic, found in zip(railed, near, strict=True)
                if found.near
            }
            rail = rails.pop() if len(rails) == 1 else None
            if rail is not None:
                rail_of[f"{facts.host}/gpu{i}"] = rail
    if not rail_of:
        return fabric
    return replace(
        fabric,
        devices=tuple(
            replace(d, rail=rail_of[d.name]) if d.name in rail_of else d for d in fabric.devices
        ),
    )


def _together(findings: Sequence[Finding]) -> list[Finding]:
    """Findings of one code, severity and fix as one: a thousand nodes with the same oddity say it once."""
    found: dict[tuple[Any, ...], Finding] = {}
    for finding in findings:
        key = (finding.code, finding.severity, finding.fix)
        first = found.get(key)
        found[key] = (
            finding
            if first is None
            else replace(first, evidence=(*first.evidence, *finding.evidence))
        )
    return list(found.values())


def _facts(machines: Sequence[MachineFacts], network: Imported | None) -> Mapping[str, Any]:
    of_network = {} if network is None else {"network": dict(network.facts)}
    notes = [f"{facts.host}: {note}" for facts in machines for note in facts.notes]
    return {"machines": [machine_facts(facts) for facts in machines], "notes": notes, **of_network}


def _shortened(hosts: Sequence[str]) -> list[str]:
    return [*hosts[:4], f"… ({len(hosts)} hosts)"] if len(hosts) > 4 else list(hosts)
