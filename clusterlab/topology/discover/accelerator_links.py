"""NVLink, NVSwitch, C2C and xGMI of one machine as devices and links. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from clusterlab.core.findings import Finding, Severity
from clusterlab.topology.discover.facts import GpuFact, MachineFacts, NvLinkFact
from clusterlab.topology.discover.pci import bus_order
from clusterlab.topology.discover.rates import Rate, nvlink_rate, xgmi_rate
from clusterlab.topology.parts import Device, Link, LinkClass

HIDDEN = "all NVSwitches, hidden from this machine, as one"
_NVLS_FROM = (9, 0)  # NVSwitch 3 and later reduce and multicast; they come with Hopper and later


@dataclass(slots=True)
class Accelerators:
    """Switches, links and what is odd about them."""

    devices: list[Device] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def accelerator_links(
    facts: MachineFacts,
    names: Mapping[str, str],
    cpus: Mapping[str, str],
    shared: Mapping[str, str],
) -> Accelerators:
    """``names`` and ``cpus``: a GPU's device and its CPU's by bus id. ``shared``: NVLink domain →
    the device that stands for its switches on several hosts (made elsewhere).
    """
    made = Accelerators()
    switches = _visible_switches(facts, names)
    hidden = f"{facts.host}/nvswitch{len(switches)}"
    reduces = any(reduces_in_switches(gpu) for gpu in facts.gpus)
    made.devices += [
        Device(name, "nvswitch", host=facts.host, pci=bus_id, in_network=reduces)
        for bus_id, name in switches.items()
    ]
    uses_hidden: list[str] = []
    counts: Counter[tuple[str, str, Rate]] = Counter()
    for gpu in facts.gpus:
        name = names[gpu.bus_id]
        for link in (link for link in gpu.nvlinks if link.active):
            end = _far_end(link, names, switches, cpus.get(gpu.bus_id))
            if end is None and link.remote in ("switch", "unknown"):
                end = shared.get(gpu.domain or "", hidden)
                uses_hidden += [name] if end == hidden else []
            if end is None:
                made.findings.append(_peer_unseen(name, link))
                continue
            counts[name, end, nvlink_rate(gpu.capability, link.wire_GBps)] += 1
        if gpu.c2c_links and gpu.bus_id in cpus:
            rate = Rate(gpu.c2c_GBps, None, "discover: NVML C2C bandwidth" if gpu.c2c_GBps else "")
            made.links += _both(name, cpus[gpu.bus_id], "c2c", rate, gpu.c2c_links)
    if uses_hidden:
        made.devices.append(
            Device(hidden, "nvswitch", host=facts.host, model=HIDDEN, in_network=reduces)
        )
        made.findings.append(_hidden(hidden, uses_hidden))
    made.links += _nvlinks(counts, gpus=set(names.values()))
    made.links += _xgmi(facts, names)
    made.findings += _fewer_than_siblings(facts.gpus, names)
    return made


def reduces_in_switches(gpu: GpuFact) -> bool:
    """Whether the NVSwitches this GPU hangs on can reduce and multicast (NVLS)."""
    return gpu.vendor == "nvidia" and gpu.capability is not None and gpu.capability >= _NVLS_FROM


def _visible_switches(facts: MachineFacts, gpus: Mapping[str, str]) -> dict[str, str]:
    """Bus id → name of every NVSwitch that NVML shows at the end of a link."""
    seen = {
        link.remote_bus_id
        for gpu in facts.gpus
        for link in gpu.nvlinks
        if link.active
        and link.remote in ("switch", "unknown")
        and link.remote_bus_id
        and link.remote_bus_id not in gpus
    }
    return {
        bus_id: f"{facts.host}/nvswitch{i}" for i, bus_id in enumerate(sorted(seen, key=bus_order))
    }


def _far_end(
    link: NvLinkFact,
    gpus: Mapping[str, str],
    switches: Mapping[str, str],
    cpu: str | None,
) -> str | None:
    """The device a link ends at; None when this machine does not show it."""
    if link.remote == "cpu":
        return cpu
    if link.remote_bus_id is None:
        return None
    return gpus.get(link.remote_bus_id) or switches.get(link.remote_bus_id)


def _nvlinks(counts: Mapping[tuple[str, str, Rate], int], gpus: set[str]) -> list[Link]:
    """Both directions: a GPU's neighbour that tells its own side is believed, any other is mirrored."""
    links: list[Link] = []
    tells = {src for src, _, _ in counts}
    for (src, dst, rate), count in counts.items():
        there, back = _both(src, dst, "nvlink", rate, count)
        links += [there] if dst in gpus and dst in tells else [there, back]
    return links


def _both(
    a: str, b: str, link_class: LinkClass, rate: Rate, multiplicity: int
) -> tuple[Link, Link]:
    links = [
        Link(
            src=src,
            dst=dst,
            link_class=link_class,
            GBps=rate.GBps,
            wire_GBps=rate.wire_GBps,
            multiplicity=multiplicity,
            GBps_source=rate.GBps_source,
            wire_source=rate.wire_source,
        )
        for src, dst in ((a, b), (b, a))
    ]
    return links[0], links[1]


def _xgmi(facts: MachineFacts, names: Mapping[str, str]) -> list[Link]:
    targets = {gpu.bus_id: gpu.capability for gpu in facts.gpus}
    told = {(one.src, one.dst): one.max_GBps for one in facts.xgmi}
    pairs = {
        pair: told.get(pair, rate) for (a, b), rate in told.items() for pair in ((a, b), (b, a))
    }
    return [
        _both(names[a], names[b], "xgmi", xgmi_rate(targets[a], rate), 1)[0]
        for (a, b), rate in pairs.items()
        if a in names and b in names
    ]


def _hidden(switch: str, gpus: Sequence[str]) -> Finding:
    return Finding(
        "nvswitch_hidden",
        Severity.INFO,
        (
            f"NVLinks of {', '.join(dict.fromkeys(gpus))} end at NVSwitches that this machine does"
            f" not show; {switch} stands for all of them",
        ),
        "nothing to do in a virtual machine; how many switches there are is not known from here",
    )


def _peer_unseen(gpu: str, link: NvLinkFact) -> Finding:
    there = link.remote_bus_id or "a device without a bus id"
    return Finding(
        "nvlink_peer_unseen",
        Severity.WARNING,
        (f"NVLink {link.number} of {gpu} ends at {there}, which is not among the GPUs seen here",),
        "look from a process that may see all GPUs (no device cgroup)",
    )


def _fewer_than_siblings(gpus: Sequence[GpuFact], names: Mapping[str, str]) -> list[Finding]:
    """GPUs with fewer active NVLinks than others of their model on this machine."""
    active = {gpu.bus_id: sum(link.active for link in gpu.nvlinks) for gpu in gpus}
    findings = []
    for gpu in gpus:
        most = max(active[other.bus_id] for other in gpus if other.name == gpu.name)
        if active[gpu.bus_id] < most and gpu.shown:
            down = [str(link.number) for link in gpu.nvlinks if not link.active]
            which = f" (down: {', '.join(down)})" if down else ""
            findings.append(
                Finding(
                    "nvlink_down",
                    Severity.ERROR,
                    (
                        f"{names[gpu.bus_id]} has {active[gpu.bus_id]} active NVLinks{which};"
                        f" others of its model here have {most}",
                    ),
                    "see nvidia-smi nvlink -s and the driver's Xid messages; reset the GPU, or have"
                    " its baseboard looked at",
                )
            )
    return findings
